#!/bin/sh
# A graph of 300 steps in one phase, in one process, with nothing left behind. It prints the time as a multiple of the critical path.
#   sh examples/build-graph/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node "$here/../../bin/rondo.js" run "$here/build.ts" --store memory: -i '{ "steps": 300 }'
