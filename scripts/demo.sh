#!/usr/bin/env bash
# What `make run` shows: tokens drawn from the recorded logits of Gemma 3 270M.
#
#     scripts/demo.sh [path of the command line]
set -euo pipefail
cd "$(dirname "$0")/.."

tombola=${1:-build/cli/tombola}
logits=data/gemma3-270m/logits.npy
vocab=data/gemma3-270m/vocab.txt

show() {
    echo
    echo "\$ tombola $*"
    "$tombola" "$@"
}

echo "tombola draws tokens from the logits that Gemma 3 270M (262144 tokens) gave for several prompts."
show sample "$logits" --vocab "$vocab" --temperature 0
show sample "$logits" --vocab "$vocab" --temperature 0.8 --min-p 0.05 --top-k 40 --top-p 0.95 --seed 7
show sample "$logits" --vocab "$vocab" --top-k 50 --top-p 0.9 --joint --seed 7 --method dual-pivot
show sample "$logits" --vocab "$vocab" --row 0 --top-p 0.9 --draws 8 --seed 7 --json
echo
echo "What a chain keeps of one row, and why:"
show show "$logits" --vocab "$vocab" --row 0 --temperature 0.8 --top-k 40 --top-p 0.95
echo
echo "Time per token, beside a sort-based sampler in the same run:"
show bench --vocab-size 262144 --batch 1
