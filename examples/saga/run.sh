#!/bin/sh
# An order whose last step fails for good: the steps before it are undone. Nothing is left behind.
#   sh examples/saga/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node "$here/../../bin/rondo.js" run "$here/order.ts" --store memory: -i '{ "item": "book", "card": "4711" }'
