#!/bin/sh
# A server, a worker for the topics of topics.ts, and repo.json handed in to them; everything is gone at the end.
#   sh examples/commands/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
rondo() { node "$here/../../bin/rondo.js" "$@"; }
RONDO_STORE="file:$folder/rondo"
RONDO_PORT="${RONDO_PORT:-0}"
export RONDO_STORE RONDO_PORT

node "$here/../../bin/rondo.js" dev "$here/topics.ts" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$folder"' EXIT
until rondo ps >/dev/null 2>&1; do sleep 0.2; done

rondo submit "$here/repo.json" --wait
