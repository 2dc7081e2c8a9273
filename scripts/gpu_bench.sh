#!/usr/bin/env bash
# Benchmarks on GPU 0: tombola, FlashInfer, PyTorch and a plain read, in one process. Writes
# bench/results/gpu.json and gpu.png, and the figures into tests/gpu/receipt.json. Needs nvcc, cmake, and a
# python3 with torch, numpy and matplotlib.
#
#     scripts/gpu_bench.sh [--quick] [--only TEXT] [--seconds N]
#     scripts/gpu_bench.sh --evaluation [--quick]    the GPU part of docs/evaluation instead
#
# Afterwards the pages' tables are of these figures (bench/gpu/table.py, docs/evaluation/report.py).
#
# FlashInfer's kernels are compiled from the headers of the PyPI package flashinfer-python: the installed one,
# or FLASHINFER_INCLUDE (its data/include folder), or else a download. GPU_BENCH_PEER names a library that is
# already compiled, GPU_BENCH_PEER_VERSION its version. Without any of these PyTorch is the only peer.
# GPU_BENCH_BUILD names the build folder, build/gpu-bench otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

flashinfer_version=0.6.18 # the one to download; the figures name the one that was used
build=${GPU_BENCH_BUILD:-build/gpu-bench}
results=bench/results
mkdir -p "$build" "$results"
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
shared=(-shared -Xcompiler -fPIC -std=c++17 -O3 -cudart static -gencode "arch=compute_$capability,code=sm_$capability")

echo "building for sm_$capability"
cmake -S . -B "$build/library" -DTOMBOLA_CLI=OFF -DTOMBOLA_CUDA=ON -DTOMBOLA_CUDA_ARCHS="$capability" >"$build/configure.log"
cmake --build "$build/library" -j "$(nproc)" >"$build/build.log" 2>&1 || { tail -40 "$build/build.log"; exit 1; }
library=$(realpath "$build/library")
${CC:-cc} -shared -fPIC -O2 -fvisibility=hidden -Iinclude -o "$build/libharness.so" bench/gpu/harness.c \
    -L "$library" -ltombola -Wl,-rpath,"$library"
"$nvcc" "${shared[@]}" -o "$build/libfloor.so" bench/gpu/floor.cu

# ---- FlashInfer ----

peer=${GPU_BENCH_PEER:-} version=${GPU_BENCH_PEER_VERSION:-$flashinfer_version} include=${FLASHINFER_INCLUDE:-}
if [ -z "$peer" ] && [ -z "$include" ]; then
    include=$(python3 -c '
import importlib.util
spec = importlib.util.find_spec("flashinfer")
print(spec.submodule_search_locations[0] + "/data/include" if spec else "")')
    if [ -n "$include" ]; then
        version=$(python3 -c 'import importlib.metadata as m; print(m.version("flashinfer-python"))')
    elif python3 -m pip download -q --no-deps -d "$build" "flashinfer-python==$flashinfer_version" 2>"$build/pip.log"; then
        python3 -m zipfile -e "$build/flashinfer_python-$flashinfer_version"-*.whl "$build/flashinfer"
        include=$build/flashinfer/flashinfer/data/include
    fi
fi
if [ -z "$peer" ] && [ -n "$include" ]; then
    peer=$build/libpeer.so
    echo "compiling FlashInfer $version"
    # With the flags of FlashInfer's own build.
    "$nvcc" "${shared[@]}" -use_fast_math -DFLASHINFER_ENABLE_F16 -DFLASHINFER_ENABLE_BF16 -I "$include" \
        -o "$peer" bench/gpu/peer_flashinfer.cu >"$build/peer.log" 2>&1 || { tail -20 "$build/peer.log"; peer=""; }
fi

# ---- measuring ----

peers=()
if [ -n "$peer" ]; then peers=(--flashinfer "$peer" "$version"); else echo "without FlashInfer"; fi
if [ "${1:-}" = --evaluation ]; then
    shift
    at=docs/evaluation
    python3 $at/latency.py --harness "$build/libharness.so" --floor "$build/libfloor.so" "${peers[@]}" "$@" $at/data/latency.json
    python3 $at/decode.py --harness "$build/libharness.so" "${peers[@]}" "$@" $at/data/decode.json
    if [ $# -gt 0 ]; then exit; fi # not all that the page shows
    python3 $at/report.py
    python3 $at/plots.py latency breakdown throughput
    exit
fi
python3 bench/gpu/bench.py --harness "$build/libharness.so" --floor "$build/libfloor.so" "${peers[@]}" \
    --figures "$build/figures.json" "$@" "$results/gpu.json"
python3 bench/gpu/plot.py "$results/gpu.json" "$results/gpu.png"
python3 tests/gpu/receipt.py figures "$build/figures.json"
case " $* " in *" --quick "* | *" --only "*) exit ;; esac # not all that the pages show
python3 bench/gpu/table.py
python3 docs/evaluation/report.py
