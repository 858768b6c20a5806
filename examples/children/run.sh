#!/bin/sh
# A billing run with three children, in one process, with nothing left behind.
#   sh examples/children/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node "$here/../../bin/rondo.js" run "$here/billing.ts" --workflow billing --store memory: \
  -i '{ "hours": { "ann": 3, "bob": 1, "cleo": 6 } }'
