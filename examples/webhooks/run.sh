#!/bin/sh
# An application takes signed webhooks and synchronises each customer once; everything is gone at the end.
#   sh examples/webhooks/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node --import "$here/../../dist/src/register.js" "$here/app.ts"
