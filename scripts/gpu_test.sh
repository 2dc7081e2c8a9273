#!/usr/bin/env bash
# Builds the library and the GPU tests, runs everything on GPU 0 and writes tests/gpu/receipt.json. Takes at
# most 10 minutes on 16 cores. Needs nvcc, cmake, a C compiler and python3; torch, NumPy, apache-tvm-ffi and pytest for the
# Python package's suites, which pytest-xdist makes several times shorter.
#
#     scripts/gpu_test.sh                      everything
#     scripts/gpu_test.sh SUITE ...            some suites only ("sanitizers": all tools), in place of those that
#                                              the receipt has, if it is of the same sources
#     scripts/gpu_test.sh --pending "reason"   no GPU at hand: a receipt that says so
#
# GPU_TEST_BUILD names the build folder, build/gpu otherwise. Logs and results are left there.
# FLASHINFER_TESTS names a folder with FlashInfer's tests of sampling, which are run too (scripts/flashinfer_tests.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --pending ]; then
    exec python3 tests/gpu/receipt.py pending "${2:?a reason}"
fi

build=${GPU_TEST_BUILD:-build/gpu}
threads=$(nproc)
results=$build/results.jsonl
package=$build/python-package
# The last two hold much device memory, in many processes: nothing runs beside them.
all=(errors vectors anomalies graphs streams statistics large random parts invariance soak)
after=(python flashinfer)
sanitizers=(memcheck racecheck initcheck synccheck)
sanitizer_seconds=170
racecheck_seconds=60 # after which a variant's process begins no case; the slowest takes 40 s more
python_seconds=240

# Prints what python3 lacks for the Python package's tests, and fails where it lacks nothing.
python_lacks() {
    python3 - <<'EOF'
import importlib.util, sys
missing = [name for name in ("tvm_ffi", "torch", "numpy", "pytest") if importlib.util.find_spec(name) is None]
print(f"python3 lacks {', '.join(missing)}")
sys.exit(not missing)
EOF
}

build_tests() {
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
    echo "building for sm_$capability"
    cmake -S tests/gpu -B "$build" -DTOMBOLA_CUDA_ARCHS="$capability" -DTOMBOLA_CUDA_FLAGS=-lineinfo \
        -DTOMBOLA_PYTHON="$(python_lacks >/dev/null && echo OFF || echo ON)" -DPython_EXECUTABLE="$(command -v python3)" \
        >"$build/configure.log"
    cmake --build "$build" -j "$threads" >"$build/build.log" 2>&1 || { tail -40 "$build/build.log"; exit 1; }
    python3 tests/support/pack_vectors.py "$build/vectors.bin" tests/vectors/*.jsonl
    if [ -e "$build/library/python/libtombola_ffi.so" ]; then make_package; fi
}

# The Python package out of the source folder, with the library that was built here.
make_package() {
    rm -rf "$package" && mkdir -p "$package" && cp -r python/tombola "$package"
    rm -f "$package"/tombola/*.so && cp "$build"/library/python/libtombola_ffi.so "$package/tombola"
    package=$(realpath "$package")
}

run_python() {
    local reason code=0 workers=()
    if reason=$(python_lacks); then
        printf '{"name": "python", "passed": 0, "failed": 0, "skipped": 1, "reason": "%s"}\n' "$reason"
        return
    fi
    if python3 -c 'import xdist' 2>/dev/null; then workers=(-n 8 --dist worksteal); fi
    rm -f "$build/python.json"
    PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH} TOMBOLA_TEST_REPORT=$build/python.json \
        timeout -k 10 "$python_seconds" python3 -m pytest -q -p no:cacheprovider -p no:benchmark --show-capture=no --durations=10 -rfs \
        "${workers[@]}" tests/python >"$build/python.log" 2>&1 || code=$?
    python3 tests/python/receipt.py python "$build/python.json" "$code"
}

# FlashInfer's own tests, which are not in this repository.
run_flashinfer() {
    local reason left=$((570 - SECONDS)) # of the ten minutes, some for the end
    if [ -z "${FLASHINFER_TESTS:-}" ]; then
        reason="FLASHINFER_TESTS does not name a folder with FlashInfer's test_sampling.py and test_topk.py"
    elif ! reason=$(python_lacks); then
        rm -f "$build/flashinfer.json"
        PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH} FLASHINFER_TEST_REPORT=$build/flashinfer.json \
            FLASHINFER_TEST_SECONDS=${FLASHINFER_TEST_SECONDS:-$((left > 60 ? left : 60))} \
            scripts/flashinfer_tests.sh "$FLASHINFER_TESTS" >"$build/flashinfer.log" 2>&1 || true
        # there is a report of a run that was killed, too
        if [ -s "$build/flashinfer.json" ]; then
            python3 tests/python/compat/flashinfer_shim.py "$build/flashinfer.json"
        fi
        return
    fi
    printf '{"name": "flashinfer", "passed": 0, "failed": 0, "skipped": 1, "reason": "%s"}\n' "$reason"
}

run_suite() {
    local start=$SECONDS code=0
    if [ "$1" = python ] || [ "$1" = flashinfer ]; then
        "run_$1" >"$build/$1.jsonl"
    else
        "$build/gpu_tests" --vectors "$build/vectors.bin" --threads "$threads" "$1" \
            >"$build/$1.jsonl" 2>"$build/$1.log" || code=$?
    fi
    if [ ! -s "$build/$1.jsonl" ]; then
        printf '{"name": "%s", "passed": 0, "failed": 1, "skipped": 0, "reason": "ended with code %d"}\n' "$1" "$code" \
            >"$build/$1.jsonl"
    fi
    cat "$build/$1.jsonl" >>"$results"
    echo "$((SECONDS - start)) s  $(cat "$build/$1.jsonl")"
    head -c 4000 "$build/$1.log" | grep FAILED || true
}

# One tool over a little of everything. A machine that refuses the tool counts as a skip.
run_sanitizer() {
    local tool=$1 log=$build/sanitizer.$1.log out=$build/sanitizer.$1.jsonl code=0 tests=0
    local passed=0 failed=0 skipped=0 reason=""
    if ! command -v compute-sanitizer >/dev/null; then
        skipped=1 reason="compute-sanitizer is not installed"
    else
        if [ "$tool" = racecheck ]; then # first whether it runs at all
            compute-sanitizer --tool racecheck "$build/gpu_tests" --variants >"$log" 2>&1 || code=$?
        else
            sanitize "$tool" "$2" >"$log" 2>&1 || code=$?
        fi
        tests=$(sed -n 's/.*"name": "bounded", "passed": \([0-9]*\).*/\1/p' "$log")
        if [ "$code" = 124 ]; then
            skipped=1 reason="not done after $sanitizer_seconds s"
        elif grep -q -i 'device not supported\|unable to find\|not permitted' "$log"; then
            skipped=1 reason="the machine refuses compute-sanitizer: $(grep -m 1 -i 'not supported\|unable\|permitted' "$log" | tr -d '"\\=' | cut -c 1-100)"
        elif [ "$code" = 0 ] && [ "$tool" = racecheck ]; then
            racecheck "$2" >"$out"
            return
        elif [ "$code" = 0 ] && [ -n "$tests" ]; then
            passed=$tests
        else
            failed=1 reason="code $code: $(grep -m 1 'SUMMARY\|Error' "$log" | tr -d '"\\=' | cut -c 1-100)"
        fi
    fi
    printf '{"name": "sanitizer.%s", "passed": %d, "failed": %d, "skipped": %d' "$tool" "$passed" "$failed" "$skipped" >"$out"
    if [ -n "$reason" ]; then printf ', "reason": "%s"' "$reason" >>"$out"; fi
    printf '}\n' >>"$out"
}

# TOOL CASES, and what more the tests are asked for.
sanitize() {
    local tool=$1 cases=$2 options=()
    shift 2
    # In the pipes warps wait for rows by acquiring words of shared memory that others release, which racecheck does not follow.
    if [ "$tool" = racecheck ]; then options=(--kernel-name-exclude kns=_pipe_); fi
    timeout "$sanitizer_seconds" compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 99 --print-limit 1000 \
        "$build/gpu_tests" --count "$cases" "$@" bounded
}

# A process for each variant, for it is slow; launches do not run side by side. With each doubling of the blocks of a
# row the generic kernel takes it four times as long: those come first, with one row a case, and do what they can.
# tests/gpu/racecheck.py reads what it says.
racecheck() {
    local wide='generic_c[48]\|generic_c16'
    rm -f "$build"/racecheck.*
    "$build/gpu_tests" --variants | grep -v _pipe_ >"$build/racecheck.variants"
    export -f sanitize racecheck_variant
    export sanitizer_seconds racecheck_seconds build
    { grep -x "$wide" "$build/racecheck.variants" | sort -rV; grep -v -x "$wide" "$build/racecheck.variants"; } |
        xargs -P "$threads" -I{} bash -c "racecheck_variant $1 {}"
    python3 tests/gpu/racecheck.py "$build"
}

# CASES VARIANT
racecheck_variant() {
    local cases=$1 rows=9 code=0
    case $2 in
    generic_c4 | generic_c8 | generic_c16) rows=1 ;;
    flat_* | greedy_* | pick_* | rejection) cases=$((4 * cases)) ;; # they serve one in eight
    esac
    sanitize racecheck "$cases" --only "$2" --rows "$rows" --seconds "$racecheck_seconds" --apart 1 \
        >"$build/racecheck.$2.log" 2>&1 || code=$?
    echo "$code $2" >"$build/racecheck.$2.code"
}

run_sanitizers() {
    local -A cases=([memcheck]=40 [racecheck]=8 [initcheck]=40 [synccheck]=40)
    local start=$SECONDS pids=() tool
    for tool in "${sanitizers[@]}"; do run_sanitizer "$tool" "${cases[$tool]}" & pids+=($!); done
    wait "${pids[@]}"
    for tool in "${sanitizers[@]}"; do tee -a "$results" <"$build/sanitizer.$tool.jsonl"; done
    echo "$((SECONDS - start)) s  sanitizers"
}

mkdir -p "$build"
: >"$results"
build_tests
if [ $# -gt 0 ]; then
    for suite in "$@"; do
        if [ "$suite" = sanitizers ]; then run_sanitizers; else run_suite "$suite"; fi
    done
    python3 tests/gpu/receipt.py some "$results"
    python3 scripts/receipt_hash.py --check
    exit
fi

for suite in "${all[@]}"; do run_suite "$suite"; done
run_sanitizers
for suite in "${after[@]}"; do run_suite "$suite"; done
echo "$SECONDS s in all"
python3 tests/gpu/receipt.py suites "$results"
python3 scripts/receipt_hash.py --check
