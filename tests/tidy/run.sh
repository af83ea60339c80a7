#!/bin/sh
# The rules of the house (tidy.py) and the proof that each can fail (selftest.py), as one TAP
# stream.
set -u
cd "$(dirname "$0")/../.." || exit 1
{
    # One that breaks off has not said "not ok" by itself.
    python3 -B tests/tidy/tidy.py || echo "not ok 0 - tidy.py finds nothing"
    python3 -B tests/tidy/selftest.py || echo "not ok 0 - selftest.py finds nothing"
} | awk '
    /^1\.\./ { next }
    /^ok / { sub(/^ok [0-9]+/, "ok " ++n) }
    /^not ok / { sub(/^not ok [0-9]+/, "not ok " ++n); bad = 1 }
    { print }
    END { print "1.." n + 0; exit bad || n == 0 }'
