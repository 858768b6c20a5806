#!/bin/sh
# A server, the worker in plain Python (../python-worker.py), and one execution; everything is gone at the end.
#   sh examples/python-http/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
rondo() { node "$here/../../bin/rondo.js" "$@"; }
RONDO_STORE="file:$folder/rondo"
RONDO_PORT="${RONDO_PORT:-0}"
export RONDO_STORE RONDO_PORT

node "$here/../../bin/rondo.js" start --json >"$folder/server.json" &
server=$!
# The worker first: it gives back what it has.
trap 'kill $worker 2>/dev/null && wait $worker; kill $server && wait $server; rm -rf "$folder"' EXIT
until rondo ps >/dev/null 2>&1; do kill -0 $server; sleep 0.2; done

RONDO_URL="$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$folder/server.json")" python3 "$here/../python-worker.py" >"$folder/worker.txt" &
worker=$!
until grep -q serves "$folder/worker.txt"; do kill -0 $worker; sleep 0.2; done

rondo run word-count -i '{ "text": "to be or\nnot to be" }' --wait
