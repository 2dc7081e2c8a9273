"""Rows of logits on the GPU, of the distributions that the CPU benchmark uses (bench/workload.h)."""

import math
import pathlib

import numpy
import torch

DISTINCT = 512  # rows that are made; the others are these, rotated
GEMMA = pathlib.Path(__file__).resolve().parent.parent.parent / "data/gemma3-270m/logits.npy"


def _zipf(rows, vocab, generator):
    """-1.6 ln(rank) + 0.3 N(0,1), permuted: like a language model's."""
    base = -1.6 * torch.log(torch.arange(1, vocab + 1, device="cuda", dtype=torch.float32))
    out = torch.empty(rows, vocab, device="cuda")
    for first in range(0, rows, 64):
        n = min(64, rows - first)
        noisy = base + 0.3 * torch.randn(n, vocab, device="cuda", generator=generator)
        order = torch.rand(n, vocab, device="cuda", generator=generator).argsort(dim=1)
        out[first:first + n] = noisy.gather(1, order)
    return out


def _normal(scale):
    return lambda rows, vocab, generator: scale * torch.randn(rows, vocab, device="cuda", generator=generator)


def _equal(rows, vocab, generator):
    return torch.ones(rows, vocab, device="cuda")


def _ascending(rows, vocab, generator):
    return torch.linspace(-10, 10, vocab, device="cuda").repeat(rows, 1)


def _two(rows, vocab, generator):
    return torch.randint(0, 2, (rows, vocab), device="cuda", generator=generator).float()


def _masked(rows, vocab, generator):
    x = torch.randn(rows, vocab, device="cuda", generator=generator)
    return x.masked_fill_(torch.rand(rows, vocab, device="cuda", generator=generator) < 0.95, -math.inf)


def _one_hot(rows, vocab, generator):
    x = torch.full((rows, vocab), -math.inf, device="cuda")
    return x.scatter_(1, torch.randint(0, vocab, (rows, 1), device="cuda", generator=generator), 1.0)


def _gemma(rows, vocab, generator):
    """The recorded rows; a narrower vocabulary takes each row's first tokens."""
    recorded = torch.from_numpy(numpy.load(GEMMA).astype(numpy.float32)).cuda()[:, :vocab]
    return recorded[torch.arange(rows, device="cuda") % recorded.shape[0]].contiguous()


DISTRIBUTIONS = {"zipf": _zipf, "n01": _normal(1.0), "n05": _normal(5.0), "gemma": _gemma, "equal": _equal,
                 "ascending": _ascending, "two": _two, "masked": _masked, "one_hot": _one_hot}
KEEPS_ORDER = ("ascending", "equal")  # rotated rows would be other rows


def make(distribution, rows, vocab, dtype=torch.float32):
    """[rows, vocab] on the GPU, the same each time."""
    generator = torch.Generator(device="cuda").manual_seed(1234)
    distinct = DISTRIBUTIONS[distribution](min(rows, DISTINCT), vocab, generator)
    out = torch.empty(rows, vocab, device="cuda", dtype=dtype)
    for first in range(0, rows, DISTINCT):
        n = min(DISTINCT, rows - first)
        shift = 0 if distribution in KEEPS_ORDER else first // DISTINCT * 7919
        out[first:first + n] = distinct[:n].roll(shift, dims=1).to(dtype)
    return out
