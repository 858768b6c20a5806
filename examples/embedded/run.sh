#!/bin/sh
# A program with engine, API, dashboard and a schedule; everything is gone at the end. With KEEP=1 PORT=7777 it stays up for the dashboard.
#   sh examples/embedded/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node --import "$here/../../dist/src/register.js" "$here/app.ts"
