#!/bin/sh
# A server with a broker, a worker for orders.ts over the broker, and one execution; everything is gone at the end.
#   RONDO_BROKER=amqp://localhost sh examples/amqp/run.sh
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

url="$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$folder/server.json")"
node "$here/../../bin/rondo.js" worker "$here/orders.ts" --broker "$RONDO_BROKER" --url "$url" --json >"$folder/worker.txt" &
worker=$!
until grep -q registered "$folder/worker.txt"; do kill -0 $worker; sleep 0.2; done

rondo run orders -i '{"lines": [{"article": "pen", "count": 2}, {"article": "ink", "count": 1}]}' --wait
