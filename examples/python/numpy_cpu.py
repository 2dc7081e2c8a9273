"""Tokens from logits in a NumPy file, on the CPU.

    python examples/python/numpy_cpu.py [FILE.npy]

Prints for each row what  tombola sample FILE.npy --temperature 0.8 --top-k 50 --top-p 0.9 --seed 7  prints,
and the drawn token's log-probability.
"""

import pathlib
import sys

import numpy

import tombola

LOGITS = pathlib.Path(__file__).parents[2] / "data/gemma3-270m/logits.npy"


def main(path=LOGITS):
    logits = numpy.load(path, mmap_mode="r")
    result = tombola.sample(
        logits, temperature=0.8, top_k=50, top_p=0.9, seed=7, offset=0,
        order=("temperature", "top_k", "top_p"), return_logprobs=True, return_kept=50,
    )  # fmt: skip
    for row, token in enumerate(result.tokens):
        print(f"{token}  logprob {result.logprobs[row]:.4f}, {result.kept_counts[row]} tokens kept")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:])
