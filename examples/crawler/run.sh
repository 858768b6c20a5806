#!/bin/sh
# Crawls a web of 100,000 pages with circles, in one process, with nothing left behind; PAGES sets another number.
#   sh examples/crawler/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node "$here/../../bin/rondo.js" run "$here/crawler.ts" --store memory: -i "{ \"pages\": ${PAGES:-100000} }"
