#!/bin/sh
# An agent runs in one process, and its refund is approved from another one; everything is gone at the end.
#   sh examples/agent/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
rondo() { node "$here/../../bin/rondo.js" "$@"; }
RONDO_STORE="file:$folder/rondo"
export RONDO_STORE

node "$here/../../bin/rondo.js" run "$here/agent.ts" -i '{ "question": "where is my order" }' --id first &
agent=$!
trap 'kill $agent 2>/dev/null || true; rm -rf "$folder"' EXIT
until rondo signal first approve 2>/dev/null; do kill -0 $agent 2>/dev/null || break; sleep 0.2; done
wait $agent
