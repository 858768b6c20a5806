#!/bin/sh
# The checksums of all files of the examples, in one process, with nothing left behind.
#   sh examples/fan-out/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node "$here/../../bin/rondo.js" run "$here/checksums.ts" --store memory: -i "{ \"folder\": \"$here\" }"
