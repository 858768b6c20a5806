#!/bin/sh
# A page at http://127.0.0.1:8080 (PORT) talks to an agent, until Ctrl-C; nothing is left behind.
#   sh examples/chat/run.sh
set -e
here="$(cd "$(dirname "$0")" && pwd)"
exec node --import "$here/../../dist/src/register.js" "$here/server.ts"
