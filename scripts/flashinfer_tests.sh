#!/usr/bin/env bash
# Runs FlashInfer's own tests of sampling and top-k against tombola.compat.flashinfer.
#
#     scripts/flashinfer_tests.sh FOLDER [pytest arguments]
#
# FOLDER holds test_sampling.py and test_topk.py of FlashInfer, from its repository's tests/utils. Needs torch, pytest
# and an importable tombola; pytest-xdist spreads the tests over FLASHINFER_TEST_WORKERS processes (12). What has not
# begun after FLASHINFER_TEST_SECONDS (420) is skipped. The report goes to FLASHINFER_TEST_REPORT
# (flashinfer_tests.json), and its counts are the last line. tests/python/compat/flashinfer_left_out.txt lists what
# is left out, and why.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?the folder of the test files}
shift
report=${FLASHINFER_TEST_REPORT:-flashinfer_tests.json}
workers=()
if python3 -c 'import xdist' 2>/dev/null; then workers=(-n "${FLASHINFER_TEST_WORKERS:-12}" --dist worksteal); fi
export FLASHINFER_TEST_SECONDS=${FLASHINFER_TEST_SECONDS:-420}
export PYTHONPATH="$root/tests/python/compat${PYTHONPATH:+:$PYTHONPATH}"
code=0
python3 -m pytest -p flashinfer_shim --noconftest -q --tb=line -p no:cacheprovider -p no:benchmark --rootdir "$folder" \
    --flashinfer-report "$report" "${workers[@]}" "$folder"/test_*.py "$@" || code=$?
python3 "$root/tests/python/compat/flashinfer_shim.py" "$report"
exit "$code"
