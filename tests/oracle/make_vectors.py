"""Writes tests/vectors/*.jsonl: calls on one row each, with what the law says they return.

The same files come out every time:  python3 tests/oracle/make_vectors.py [theme ...]
"""

import itertools
import json
import math
import pathlib
import sys
from fractions import Fraction

import floats as fl
import oracle
import rows
import vector_parts as parts
from vector_parts import (P_VALUES, Q_VALUES, T_VALUES, Maker, k_values, min_p, temperature,
                          top_k, top_k_top_p, top_p)
from weights import LOG2E, scale

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "vectors"
BOTH = ("all", "index")
KEY_OFFSETS = (28100, 63217)


def steps(m):
    """Every filter alone, with every kind of value, off values included."""
    kinds = ("normal", "zipf", "quantised", "wide", "sparse", "zero_mix", "near_equal")
    for kind in kinds:
        for v in (1, 2, 3, 7, 16, 33):
            for k in k_values(v):
                m.logits(kind, v, [top_k(k)], ties=m.s.choice(BOTH))
    for n, kind in enumerate(kinds):
        for value in P_VALUES:
            for v in (m.s.choice((1, 2, 3)), m.s.choice((7, 15, 17, 31))):
                m.logits(kind, v, [top_p(value)], ties=BOTH[n & 1])
        for value in Q_VALUES:
            for v in (m.s.choice((1, 2, 3)), m.s.choice((7, 15, 17, 31))):
                m.logits(kind, v, [min_p(value)], ties=BOTH[n & 1])
    for kind in kinds:
        for value in P_VALUES:
            v = m.s.choice((3, 7, 16, 17))
            for k in (m.s.choice((-1, 0, v, v + 1)), m.s.choice((1, 2, v - 1)), 1 + m.s.below(v)):
                m.logits(kind, v, [top_k_top_p(k, value)], ties=m.s.choice(BOTH))
    for kind in kinds:
        m.logits(kind, 9, [], ties=m.s.choice(BOTH), draws=3)


def orders(m):
    """Every order of two and of three steps, repeated steps, and longer chains."""
    makers = (parts.some_temperature, parts.some_top_k, parts.some_top_p, parts.some_min_p,
              parts.some_joint)
    for length, repeats in ((2, 8), (3, 2)):
        for combination in itertools.product(makers, repeat=length):
            for _ in range(repeats):
                kind = m.s.choice(("normal", "zipf", "quantised", "wide", "two_valued", "ascending"))
                v = m.s.choice((5, 8, 13, 16, 21))
                m.logits(kind, v, [f(m.s, v) for f in combination], ties=m.s.choice(BOTH))
    for _ in range(120):                             # the default order of plain parameters
        v = m.s.choice((8, 17, 40))
        chain = [temperature(m.s.choice((0.1, 0.7, 1.0, 1.3))), min_p(m.s.choice((0.0, 0.02, 0.2))),
                 top_k(m.s.choice((0, 3, 20))), top_p(m.s.choice((1.0, 0.9, 0.5)))]
        m.logits(m.s.choice(("zipf", "normal", "quantised")), v, chain, ties=m.s.choice(BOTH))
    for _ in range(120):
        v = m.s.choice((6, 12, 24))
        chain = [m.s.choice(makers)(m.s, v) for _ in range(4 + m.s.below(5))]
        m.logits(m.s.choice(("zipf", "normal", "quantised", "zeros")), v, chain,
                 ties=m.s.choice(BOTH))


def ties(m):
    """Cuts that fall inside a class of equal tokens, and masses that meet p * Z exactly."""
    for kind in ("equal", "two_valued", "quantised", "zeros", "zero_mix"):
        for v in (2, 4, 5, 8, 16, 19):
            for how in BOTH:
                m.logits(kind, v, [top_k(1 + m.s.below(v))], ties=how)
                m.logits(kind, v, [top_p(m.s.choice((0.25, 0.5, 0.75, 0.125)))], ties=how)
                m.logits(kind, v, [top_p(m.s.uniform())], ties=how)
                m.logits(kind, v, [top_k_top_p(1 + m.s.below(v), m.s.choice((0.5, 0.75)))], ties=how)
                m.logits(kind, v, [top_k(1 + m.s.below(v)), top_p(0.5), min_p(1.0)], ties=how)
    for v in (4, 8, 16):                             # equal masses: p * Z is a whole number
        for count in range(1, v):
            for nudge in (-1, 0, 1):
                p = fl.f32_from_bits(fl.f32_bits(count / v) + nudge)
                m.logits("equal", v, [top_p(p)], ties="index", top_n=2)
    for v in (3, 6, 16):                             # greedy among equals
        for kind in ("equal", "two_valued", "zeros"):
            for how in BOTH:
                m.logits(kind, v, [top_k(2), temperature(0.0)], ties=how)


def anomalies(m):
    """NaN, infinities, empty rows, and parameters that are not numbers."""
    nan, inf = fl.NAN, fl.INF
    chains = ([], [top_k(2)], [top_p(0.7)], [min_p(0.3)], [temperature(0.7), top_p(0.9)],
              [temperature(0.0)], [top_k(2), temperature(1.3)])
    spoilers = {"nan": [nan], "inf": [inf], "two_inf": [inf, inf], "nan_inf": [nan, inf],
                "neg_inf": [-inf], "all_kinds": [nan, inf, -inf, -0.0], "three_inf": [inf] * 3}
    for name, values in spoilers.items():
        for chain in chains:
            for how in BOTH:
                for v in (m.s.choice((2, 3)), m.s.choice((7, 12))):
                    row = rows.normal(m.s, v)
                    for value in values:
                        row[m.s.below(v)] = value
                    m.add(name, row, chain, ties=how)
    for place in (0, 1, 6, 7, 8, 15, 16):            # one at each end of blocks of 8 and 16
        for value in (nan, inf, -inf):
            row = rows.normal(m.s, 17)
            row[place] = value
            m.add(f"at_{place}", row, [top_k(3)])
    for name, value in (("nan", nan), ("neg_inf", -inf), ("inf", inf)):
        for v in (1, 2, 5, 33):
            for chain in ([], [top_k(1)], [temperature(0.0), top_p(0.5)]):
                m.add(f"all_{name}", [value] * v, chain, ties=m.s.choice(BOTH), draws=2)
                m.add(f"all_{name}_but_one", [value] * (v - 1) + [0.5], chain, ties=m.s.choice(BOTH))
    for kind in ("one_hot", "sparse", "huge", "denormal", "zeros"):
        for chain in chains:
            m.logits(kind, m.s.choice((5, 16)), chain, ties=m.s.choice(BOTH))
    bad = ([top_p(nan)], [min_p(nan)], [temperature(nan)], [temperature(-1.0)], [temperature(-inf)],
           [top_k_top_p(0, nan)], [top_k_top_p(2, nan)], [temperature(1.0), top_k(3), top_p(nan)],
           [temperature(-1.0), temperature(1.0)], [top_p(nan), top_p(0.5)])
    for chain in bad:
        m.logits("normal", 5, chain, draws=2)
        m.add("empty_row", [-inf, nan, -inf], chain)
        m.add("inf_row", [inf, nan, 0.0], chain)
    for payload in (0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFC00000, 0x7FA00000):
        row = [fl.f32_bits(fl.round32(x)) for x in rows.normal(m.s, 6)]
        row[m.s.below(6)] = payload
        m.add_bits("nan_payload", row, [top_k(4)])


def probabilities(m):
    """Weights as the source."""
    chains = ([], [top_k(2)], [top_p(0.6)], [min_p(0.4)], [top_k_top_p(3, 0.8)],
              [min_p(0.1), top_k(4), top_p(0.9)])
    for kind in rows.PROBABILITIES:
        for chain in chains:
            for how in BOTH:
                m.probabilities(kind, m.s.choice((1, 2, 3, 7)), chain, ties=how)
                m.probabilities(kind, m.s.choice((15, 16, 31)), chain, ties=how)
    for values in (P_VALUES, Q_VALUES):
        step = top_p if values is P_VALUES else min_p
        for value in values:
            m.probabilities("softmax", 9, [step(value)])
            m.probabilities("probability_ties", 9, [step(value)], ties="index")
    for k in k_values(9):
        m.probabilities("unnormalised", 9, [top_k(k)])
        m.probabilities("signed_zero", 9, [top_k(k)], ties="index")
    spoilers = {"nan": [fl.NAN], "negative": [-0.5], "neg_inf": [-fl.INF], "inf": [fl.INF],
                "two_inf": [fl.INF, fl.INF], "inf_negative": [fl.INF, -1.0], "neg_zero": [-0.0],
                "tiny_negative": [-math.ldexp(1, -149)], "nan_negative": [fl.NAN, -fl.INF]}
    for name, values in spoilers.items():
        for chain in chains:
            row = rows.unnormalised(m.s, m.s.choice((2, 3, 8, 17)))
            for value in values:
                row[m.s.below(len(row))] = value
            m.add(name, row, chain, kind="probabilities", ties=m.s.choice(BOTH))
    for name, value in (("nan", fl.NAN), ("zero", 0.0), ("neg_zero", -0.0), ("negative", -1.0),
                        ("inf", fl.INF), ("neg_inf", -fl.INF)):
        for v in (1, 4):
            m.add(f"all_{name}", [value] * v, [top_k(2)], kind="probabilities", draws=2)
    m.add("nan_p", [0.5, 0.5], [top_p(fl.NAN)], kind="probabilities")
    for value in (math.ldexp(1, -149), math.ldexp(3, -149), math.ldexp(1, -126), 1.0,
                  float.fromhex("0x1.fffffep127")):
        m.add("largest", [value / 2, value, 0.0, value / 4], [top_p(0.8)], kind="probabilities")


def dtypes(m):
    """Half-precision rows: rounded numbers, and every kind of bit pattern."""
    for dtype in ("f16", "bf16"):
        for kind in ("normal", "zipf", "quantised", "wide", "sparse", "zero_mix", "huge", "ascending"):
            for how in BOTH:
                for v in (3, 8, 17, 33):
                    chain = [parts.some_filter(m.s, v) for _ in range(m.s.below(3))]
                    m.logits(kind, v, chain, dtype=dtype, ties=how)
        for kind in ("softmax", "unnormalised", "spread", "sparse_zero", "probability_ties", "tiny"):
            for v in (2, 8, 17):
                m.probabilities(kind, v, [parts.some_filter(m.s, v)], dtype=dtype,
                                ties=m.s.choice(BOTH))
        special = {"f16": (0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x0001, 0x8001, 0x03FF, 0x0400,
                           0x7BFF, 0xFBFF, 0x0000, 0x8000),
                   "bf16": (0x7F80, 0xFF80, 0x7FC0, 0xFF81, 0x7F81, 0x0001, 0x8001, 0x007F, 0x0080,
                            0x7F7F, 0xFF7F, 0x0000, 0x8000)}[dtype]
        for kind in ("logits", "probabilities"):
            for _ in range(24):                      # any 16 bits
                bits = [m.s.bits(16) for _ in range(m.s.choice((4, 9, 16)))]
                chain = [parts.some_filter(m.s, len(bits)) for _ in range(m.s.below(3))]
                m.add_bits("any_bits", bits, chain, kind=kind, dtype=dtype, ties=m.s.choice(BOTH))
            for _ in range(16):
                finite = [b for b in special if b & special[0] != special[0]]
                bits = [m.s.choice(special if m.s.below(2) else finite) for _ in range(6)]
                m.add_bits("special_bits", bits, [parts.some_filter(m.s, 6)], kind=kind, dtype=dtype)
        m.add_bits("all_neg_inf", [special[1]] * 3, [], dtype=dtype)


def methods(m):
    """Rejection and dual pivot, under every filter, after other filters, and with many draws."""
    for method, how in itertools.product(("rejection", "dual_pivot"), BOTH):
        for kind in ("normal", "zipf", "quantised", "equal", "near_equal", "wide", "zeros", "sparse"):
            for maker in (parts.some_top_k, parts.some_top_p, parts.some_min_p, parts.some_joint):
                for v, draws in ((m.s.choice((2, 5, 9)), 2), (m.s.choice((24, 33)), 4)):
                    chain = [maker(m.s, v)]
                    if m.s.below(2):
                        chain.insert(0, parts.some_temperature(m.s, v))
                    if m.s.below(3) == 0:
                        chain.insert(len(chain) - 1, parts.some_filter(m.s, v))
                    m.logits(kind, v, chain, ties=how, method=method, draws=draws)
        for kind in ("softmax", "probability_ties", "near_one", "spread", "equal_one"):
            for maker in (parts.some_top_k, parts.some_top_p, parts.some_min_p, parts.some_joint):
                m.probabilities(kind, m.s.choice((6, 20)), [maker(m.s, 6)], ties=how, method=method,
                                draws=3)
        for chain in ([], [temperature(0.7)], [top_k(0)], [top_p(1.0)], [min_p(0.0)],
                      [top_k(2), top_p(1.0)], [temperature(0.0)], [temperature(0.0), top_p(0.5)],
                      [top_k(1)], [top_p(0.0)], [min_p(1.0)], [temperature(fl.INF), top_k(3)]):
            m.logits("quantised", 12, chain, ties=how, method=method, draws=3)
        for row in ([fl.INF, 0.0, fl.INF, fl.INF, fl.NAN], [-fl.INF] * 3, [fl.NAN, 0.0, 1.0]):
            m.add("anomaly", row, [top_k(2)], ties=how, method=method, draws=3)
        m.logits("normal", 6, [top_p(fl.NAN)], ties=how, method=method)
        for kind, chain in (("equal", [top_k(1)]), ("near_equal", [top_k(1)]),
                            ("near_equal", [top_p(0.01)]), ("near_equal", [top_k_top_p(2, 0.5)]),
                            ("ascending", [temperature(100.0), top_k(1)]),
                            ("zipf", [temperature(3.0), min_p(0.5)]),
                            ("normal", [temperature(fl.INF), top_k(2)])):
            m.logits(kind, 150, chain, ties=how, method=method, draws=24, capacity=4, top_n=1)


def pivots(m):
    """Rows whose dual pivot passes from weights to order keys."""
    for how in BOTH:
        for kind in ("near_equal", "equal", "zeros"):
            for chain in ([top_k(1)], [top_k(2)], [top_p(0.1)], [top_k_top_p(3, 0.2)]):
                m.logits(kind, 30, chain, ties=how, method="dual_pivot", draws=6)
    # One token above 900 that share a weight: high must come down from its weight first, which takes
    # so many rejections that few seeds do it. These offsets of seed 1 do.
    values = [2.0 ** -17] + [-math.ldexp(n * 7919 % 900, -28) for n in range(900)]
    for how, offset in itertools.product(BOTH, KEY_OFFSETS):
        call = m.call([rows.to_bits(x, "f32") for x in values], [temperature(100.0), top_k(2)],
                      method="dual_pivot", ties=how, seed=1, offset=offset, stream=0, capacity=2,
                      top_n=3, given=[0, 450, 901])
        assert parts.reaches_keys_late(call)
        m.keep("keys_below_the_top", call)


def temperatures(m):
    """Temperatures of every kind, alone and followed by others."""
    for kind in ("normal", "zipf", "quantised", "wide", "huge", "denormal", "near_equal", "zero_mix"):
        for value in T_VALUES:
            v = m.s.choice((2, 5, 9, 16))
            m.logits(kind, v, [temperature(value)], ties=m.s.choice(BOTH))
            m.logits(kind, v, [temperature(value), top_p(0.9)], ties=m.s.choice(BOTH))
            m.logits(kind, v, [top_k(3), temperature(value)], ties=m.s.choice(BOTH), draws=2)
    good = [t for t in T_VALUES if t >= 0]
    for first in good:
        for second in good:
            m.logits("normal", 7, [temperature(first), temperature(second)], top_n=2)
    for first in (0.0, 0.5, fl.INF):
        for second in (0.0, 0.5, 2.0, fl.INF):
            for how in BOTH:
                m.logits("quantised", 12, [temperature(first), top_k(3), temperature(second),
                                           min_p(0.3)], ties=how)
                m.logits("zipf", 12, [top_p(0.9), temperature(first), top_p(0.9),
                                      temperature(second)], ties=how)
    for _ in range(60):                              # any positive temperature
        value = fl.f32_from_bits(1 + m.s.below(0x7F7FFFFF))
        m.logits(m.s.choice(("normal", "huge", "denormal")), 6, [temperature(value)])
    edge = math.floor(Fraction(LOG2E) / ((1 << 25) - 1) / Fraction(2) ** (103 - 149))
    assert math.isinf(scale(fl.f32_from_bits(edge))) and math.isfinite(scale(fl.f32_from_bits(edge + 1)))
    for bits in (1, 2, edge - 1, edge, edge + 1, edge + 2, 0x007FFFFF, 0x00800000):
        m.logits("denormal", 5, [temperature(fl.f32_from_bits(bits))])     # s overflows up to edge
        m.logits("quantised", 5, [temperature(fl.f32_from_bits(bits))])


def draws(m):
    """Random numbers: their edges, supplied ones, seeds, offsets, streams, many draws."""
    for kind, chain in (("normal", []), ("zipf", [top_k(4)]), ("quantised", [top_p(0.7)]),
                        ("sparse", []), ("equal", [min_p(0.5)]), ("near_equal", [])):
        for v in (1, 2, 3, 8, 16, 17, 32):
            call = m.call(m.bits_of(kind, v), chain)
            edges = parts.edges(call)[:10]
            if edges:
                m.keep("edges", dict(call, draws=len(edges), random=[str(r) for r in edges]))
    for v in (1, 3, 17):
        m.logits("normal", v, [], random=["0", str((1 << 64) - 1), str(1 << 63), "1"], draws=4)
    words = (0, 1, 0xFFFFFFFF, 1 << 32, (1 << 64) - 1, 0x0123456789ABCDEF)
    for seed, offset in itertools.product(words, repeat=2):
        m.logits("zipf", 12, [], seed=seed, offset=offset, stream=m.s.bits(32), draws=2)
    for stream in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF):
        for method in ("exact", "rejection", "dual_pivot"):
            m.logits("normal", 12, [top_k(4)], stream=stream, method=method, draws=2)
    for method in ("exact", "rejection", "dual_pivot"):
        m.logits("normal", 40, [top_p(0.8)], method=method, draws=300, top_n=0, given=[])
    m.logits("equal", 3, [], draws=4096, capacity=0, top_n=0, given=[])
    for capacity in (0, 1, 2, 4, 5, 6, 9):           # below, at and above the kept count
        m.logits("ascending", 9, [top_k(5)], capacity=capacity)
    for top_n in (0, 1, 4, 5, 6, 12):
        for raw in (False, True):
            m.logits("quantised", 9, [top_k(5)], ties="index", top_n=top_n, top_raw=raw)
            m.probabilities("sparse_zero", 9, [top_p(0.5)], top_n=top_n, top_raw=raw)
    for given in ([], [0], [-1, 9, -2147483648, 2147483647], [3, 3, 0, 8, 2, 3], list(range(9))):
        m.logits("sparse", 9, [top_k(1)], given=given)
        m.add("given", [1.0, fl.NAN, -fl.INF, 2.0, fl.INF, 0.0, fl.INF, 1.0, 3.0], [top_k(1)],
              given=given, ties="index")


def sizes(m):
    """Rows around the block sizes of implementations."""
    for v in (15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129):
        for kind in ("zipf", "quantised", "wide"):
            m.logits(kind, v, parts.some_chain(m.s, v), ties=m.s.choice(BOTH), draws=2)
    for v in (255, 256, 257, 511, 512, 513):
        for kind in ("zipf", "normal", "equal"):
            m.logits(kind, v, parts.some_chain(m.s, v), ties=m.s.choice(BOTH), draws=2,
                     method=m.s.choice(("exact", "exact", "dual_pivot")), capacity=40)
    for v in (1000, 1023, 1024, 1025):
        for kind in ("zipf", "near_equal"):
            m.logits(kind, v, parts.some_chain(m.s, v), ties=m.s.choice(BOTH), draws=2, capacity=40)
    m.probabilities("softmax", 1024, [top_k(50), top_p(0.9)], capacity=50)
    m.logits("zipf", 2049, [temperature(0.7), top_p(0.95)], capacity=40, draws=4)
    m.logits("quantised", 2050, [top_k(100), min_p(0.01)], ties="index", capacity=100, dtype="bf16")
    m.logits("normal", 2048, [], capacity=8, dtype="f16", draws=4)
    m.logits("zipf", 4099, [top_k_top_p(50, 0.9)], capacity=50, draws=4)
    m.logits("normal", 4096, [temperature(1.3), top_p(0.999)], capacity=16, dtype="bf16",
             method="dual_pivot")


THEMES = {f.__name__: f for f in (steps, orders, ties, anomalies, probabilities, dtypes, methods,
                                  pivots, temperatures, draws, sizes)}


def main(names):
    for name in names or THEMES:
        maker = Maker(name)
        THEMES[name](maker)
        path = VECTORS / f"{name}.jsonl"
        with path.open("w", encoding="ascii", newline="\n") as out:
            for call in maker.calls:
                call = dict(call, expect=oracle.run(call))
                out.write(json.dumps(call, separators=(",", ":")) + "\n")
        print(f"{name}: {len(maker.calls)} vectors, {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
