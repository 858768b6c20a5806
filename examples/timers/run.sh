#!/bin/sh
# An order is started, waits, and is paid by a signal from outside; everything is gone at the end.
#   sh examples/timers/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
rondo() { node "$here/../../bin/rondo.js" "$@"; }
RONDO_STORE="file:$folder/rondo"
export RONDO_STORE

node "$here/../../bin/rondo.js" run "$here/order.ts" -i '{ "item": "book" }' --id first &
order=$!
trap 'kill $order 2>/dev/null || true; rm -rf "$folder"' EXIT
until rondo signal first paid -d '{ "amount": 42 }' 2>/dev/null; do kill -0 $order; sleep 0.2; done
wait $order
