#!/bin/sh
# A server with a broker, the worker in Python, and one execution; everything is gone at the end.
#   RONDO_BROKER=amqp://localhost sh examples/python/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
rondo() { node "$here/../../bin/rondo.js" "$@"; }
RONDO_BROKER="${RONDO_BROKER:-amqp://guest:guest@localhost:5672/}"
RONDO_STORE="file:$folder/rondo"
RONDO_PORT="${RONDO_PORT:-0}"
export RONDO_BROKER RONDO_STORE RONDO_PORT

node "$here/../../bin/rondo.js" start --json >"$folder/server.json" &
server=$!
trap 'kill $server $worker 2>/dev/null; wait 2>/dev/null; rm -rf "$folder"' EXIT
until rondo ps >/dev/null 2>&1; do kill -0 $server; sleep 0.2; done

RONDO_URL="$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$folder/server.json")" /usr/bin/python3 "$here/worker.py" >"$folder/worker.txt" &
worker=$!
until grep -q serves "$folder/worker.txt"; do kill -0 $worker; sleep 0.2; done

rondo run letters -i '{"text": "to be or not to be"}' --wait
