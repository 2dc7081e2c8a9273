#!/usr/bin/env bash
# Runs FlashInfer's own tests of sampling and top-k against tombola.compat.flashinfer.
#
#     scripts/flashinfer_tests.sh FOLDER [pytest arguments]
#
# FOLDER holds test_sampling.py and test_topk.py of FlashInfer, from its repository's tests/utils. Needs torch, pytest
# and an importable tombola; pytest-xdist spreads the tests over FLASHINFER_TEST_WORKERS processes (4: a GPU
# takes turns between processes, which costs the many small calls of these tests more than it gains). The report
# goes to FLASHINFER_TEST_REPORT (flashinfer_tests.json), its counts are the last line.
# tests/python/compat/flashinfer_left_out.txt lists what is left out, and why.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?the folder of the test files}
shift
report=${FLASHINFER_TEST_REPORT:-flashinfer_tests.json}
workers=()
if python3 -c 'import xdist' 2>/dev/null; then workers=(-n "${FLASHINFER_TEST_WORKERS:-4}" --dist worksteal); fi
export PYTHONPATH="$root/tests/python/compat${PYTHONPATH:+:$PYTHONPATH}"
code=0
python3 -m pytest -p flashinfer_shim --noconftest -q --tb=line -p no:cacheprovider -p no:benchmark --rootdir "$folder" \
    --flashinfer-report "$report" "${workers[@]}" "$folder"/test_*.py "$@" || code=$?
# one line, as the GPU tests' receipt has it
python3 - "$report" <<'EOF'
import json, sys
report = json.load(open(sys.argv[1]))
print(json.dumps({key: report[key] for key in ("name", "passed", "failed", "skipped", "reason", "left_out")}))
EOF
exit "$code"
