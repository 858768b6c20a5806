#!/bin/sh
# Loads 50,000 rows, a few of them bad, and prints a report, in one process, with nothing left behind; ROWS sets another number.
#   sh examples/etl/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node "$here/../../bin/rondo.js" run "$here/etl.ts" --store memory: -i "{ \"rows\": ${ROWS:-50000} }"
