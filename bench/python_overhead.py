#!/usr/bin/env python3
"""What a call from Python costs beside the work itself: microseconds of the calling thread per eager call.

    python bench/python_overhead.py [--device cuda|cpu] [--json FILE]

Calls are made in bursts that a CUDA stream's queue holds, and the thread's time for a burst is taken before the device
is waited for. "empty batch" is a call that returns before it launches anything: Python, tvm-ffi and the bridge alone.
"""

import argparse
import gc
import json
import statistics
import time

import numpy as np
import torch

import tombola
from tombola import _library

BURST, BURSTS = 50, 400


def measure(call, synchronize):
    """Microseconds per call: of the median burst, and of the fastest."""
    for _ in range(BURST):
        call()
    times = []
    for _ in range(BURSTS):
        synchronize()
        start = time.perf_counter()
        for _ in range(BURST):
            call()
        times.append((time.perf_counter() - start) / BURST)
    synchronize()
    return statistics.median(times) * 1e6, min(times) * 1e6


def cases(device):
    x = torch.randn(1, 1000, device=device)
    none = torch.empty(0, 1000, device=device)
    probabilities = torch.softmax(x, -1)
    tokens = torch.empty(1, dtype=torch.int32, device=device)
    no_tokens = torch.empty(0, dtype=torch.int32, device=device)
    wide = torch.empty(1, dtype=torch.int64, device=device)
    same = torch.empty_like(x)
    temperature = torch.ones(1, device=device)
    seeds = torch.arange(1, device=device)
    offsets = torch.zeros(1, dtype=torch.int64, device=device)
    chain = {"temperature": 0.8, "top_k": 50, "top_p": 0.9}

    yield "torch.argmax(x, -1, out=)", lambda: torch.argmax(x, -1, out=wide)
    yield "torch.add(x, 1, out=)", lambda: torch.add(x, 1, out=same)
    yield "torch.softmax(x, -1)", lambda: torch.softmax(x, -1)
    yield "torch.multinomial(p, 1)", lambda: torch.multinomial(probabilities, 1)
    yield "tombola.sample, empty batch, out=", lambda: tombola.sample(none, **chain, seed=7, out=no_tokens)
    yield "tombola.sample(seed, out=)", lambda: tombola.sample(x, seed=7, out=tokens)
    yield "tombola.sample(T, top_k, top_p, seed, out=)", lambda: tombola.sample(x, **chain, seed=7, out=tokens)
    yield "tombola.sample(T, top_k, top_p, out=)", lambda: tombola.sample(x, **chain, out=tokens)
    yield "tombola.sample(T and seeds per row, top_p, out=)", lambda: tombola.sample(
        x, temperature=temperature, top_p=0.9, seed=seeds, out=tokens
    )
    yield "tombola.sample(seeds, offsets, advance, out=)", lambda: tombola.sample(
        x, top_p=0.9, seed=seeds, offset=offsets, advance=True, out=tokens
    )
    yield "tombola.sample(T, top_k, top_p, seed)", lambda: tombola.sample(x, **chain, seed=7)
    yield "tombola.sample(..., return_logprobs=True)", lambda: tombola.sample(x, **chain, seed=7, return_logprobs=True)
    yield "tombola.softmax(x, out=)", lambda: tombola.softmax(x, out=same)
    yield "tombola.mask(x, top_k, out=)", lambda: tombola.mask(x, top_k=50, out=same)
    pairs = (_library.TEMPERATURE, 0.8, _library.TOP_K, 50, _library.TOP_P, 0.9, _library.SEED, 7)
    yield "the bridge's run alone, same call", lambda: _library.run(x, *pairs, _library.TOKENS, tokens)
    if device == "cpu":
        array, filled = x.numpy(), np.empty(1, np.int32)
        yield "tombola.sample(NumPy, T, top_k, top_p, seed, out=)", lambda: tombola.sample(
            array, **chain, seed=7, out=filled
        )
    try:
        import flashinfer
    except ImportError as error:
        print(f"flashinfer: not importable here ({error})")
        return
    yield "flashinfer.sampling.sampling_from_probs", lambda: flashinfer.sampling.sampling_from_probs(probabilities)
    yield "flashinfer.sampling.top_k_top_p_sampling_from_probs", lambda: (
        flashinfer.sampling.top_k_top_p_sampling_from_probs(probabilities, 50, 0.9)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json")
    options = parser.parse_args()
    cuda = options.device != "cpu"
    name = torch.cuda.get_device_name() if cuda else tombola.info()
    print("The median burst's time per call, and the fastest's.")
    print(f"tombola {tombola.__version__}, torch {torch.__version__}, NumPy {np.__version__}, {name}")
    gc.disable()
    results = {}
    for label, call in cases(options.device):
        results[label] = measure(call, torch.cuda.synchronize if cuda else lambda: None)
        print("{:8.2f} ({:.2f}) us  {}".format(*results[label], label), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": name, "torch": torch.__version__, "microseconds_median_and_least": results}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
