#!/bin/sh
# `orrery test scenarios/` as TAP: one case per test case of its JUnit report.
#
# ORRERY names the command (default build/release/orrery). The command's own exit status counts
# too: a status that the report does not explain is a failure.
set -u
cd "$(dirname "$0")/.." || exit 1
orrery=${ORRERY:-${BUILD_ROOT:-build}/release/orrery}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

"$orrery" test scenarios/ --junit "$work/junit.xml" >"$work/output" 2>&1
status=$?
sed 's/^/# /' "$work/output"
if [ ! -s "$work/junit.xml" ]; then
    echo "1..1"
    echo "not ok 1 - orrery test scenarios/ writes a report (exit status $status)"
    exit 1
fi
python3 - "$work/junit.xml" "$status" <<'EOF'
import sys
import xml.etree.ElementTree as tree

cases = list(tree.parse(sys.argv[1]).iter("testcase"))
status = int(sys.argv[2])
bad = 0
print("1..%d" % (len(cases) + 1))
for number, case in enumerate(cases, 1):
    name = " ".join(filter(None, (case.get("classname"), case.get("name")))).replace("#", "")
    trouble = [child for child in case if child.tag in ("failure", "error")]
    skipped = [child for child in case if child.tag == "skipped"]
    bad += bool(trouble)
    print("%sok %d - %s%s" % ("not " if trouble else "", number, name,
                              " # SKIP " + (skipped[0].get("message") or "") if skipped else ""))
    for child in trouble:
        for line in ((child.get("message") or "") + "\n" + (child.text or "")).strip().splitlines():
            print("#   " + line)
explained = status == (1 if bad else 0)
print("%sok %d - orrery test ends with %d when %d failed" %
      ("" if explained else "not ", len(cases) + 1, status, bad))
sys.exit(1 if bad or not explained else 0)
EOF
