#!/bin/sh
# An account gets 12 bookings under one id while it continues as other executions; everything is gone at the end.
#   sh examples/entity/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
rondo() { node "$here/../../bin/rondo.js" "$@"; }
RONDO_STORE="file:$folder/rondo"
export RONDO_STORE

node "$here/../../bin/rondo.js" run "$here/loyalty.ts" -i '{ "customer": "ann", "points": 0, "bookings": 0 }' --id ann &
account=$!
trap 'kill $account 2>/dev/null || true; rm -rf "$folder"' EXIT
until rondo signal ann earn -d 1 2>/dev/null; do kill -0 $account 2>/dev/null || exit 1; sleep 0.2; done
for points in 2 3 4 5 6 7 8 9 10 11 12; do rondo signal ann earn -d $points >/dev/null; done
# The process of the account ends with it, perhaps before it has answered.
rondo signal ann close -d 0 >/dev/null 2>&1 || true
wait $account
