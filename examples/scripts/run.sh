#!/bin/sh
# A definition without any code of its own. Its last state is the result of its task, which --json shows the way to.
#   sh examples/scripts/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node "$here/../../bin/rondo.js" run "$here/discount.yaml" --store memory: --json \
  -i '{ "items": [{ "price": 80 }, { "price": 40 }] }'
