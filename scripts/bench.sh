#!/usr/bin/env bash
# The CPU benchmark beside llama.cpp: prints the tables, writes bench/results/cpu.json. `make bench` calls it after
# scripts/setup.sh bench, which installs the peer into .venv-bench. BENCH_SECONDS is the time for each cell and
# contestant.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -B build/bench -DTOMBOLA_BENCH=ON -DTOMBOLA_CLI=OFF -DTOMBOLA_CUDA=OFF >/dev/null
cmake --build build/bench -j "$(nproc)" >/dev/null
parts=build/bench/parts
mkdir -p bench/results "$parts"
rm -f "$parts"/*.json
python=${BENCH_PYTHON:-.venv-bench/bin/python}
llama=$("$python" scripts/find_llama.py --path)
version=$("$python" scripts/find_llama.py --version)
bench=(taskset -c "$(($(nproc) - 1))" build/bench/bench/bench_cpu --seconds "${BENCH_SECONDS:-0.2}")

"${bench[@]}" --llama "$llama" --llama-version "$version" --gemma data/gemma3-270m/logits.npy --json "$parts/1.json"
for dtype in bf16 f16; do
    "${bench[@]}" --dtype $dtype --vocab-size 128256 --json "$parts/2_$dtype.json"
done
for isa in avx2 portable; do # what the machine lacks is left out
    "${bench[@]}" --isa $isa --vocab-size 128256 --json "$parts/3_$isa.json" || rm -f "$parts/3_$isa.json"
done
"$python" scripts/join_json.py bench/results/cpu.json "$parts"/*.json
