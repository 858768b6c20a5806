#!/bin/sh
# An order is charged and then cancelled: it refunds and releases; everything is gone at the end.
#   sh examples/endings/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
rondo() { node "$here/../../bin/rondo.js" "$@"; }
RONDO_STORE="file:$folder/rondo"
LEDGER="$folder/ledger.txt"
export RONDO_STORE LEDGER

node "$here/../../bin/rondo.js" run "$here/order.ts" -i '{ "item": "book", "cards": ["4711", "0815"] }' --id first &
order=$!
trap 'kill $order 2>/dev/null || true; rm -rf "$folder"' EXIT
until grep -q "charge 0815" "$LEDGER" 2>/dev/null; do kill -0 $order; sleep 0.2; done
rondo cancel first --reason "changed my mind" >&2
wait $order || test $? = 7
cat "$LEDGER"
