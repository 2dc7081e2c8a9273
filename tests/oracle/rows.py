"""Rows for the test vectors: named kinds of rows, built from integers and binary64 arithmetic only,
so that every machine builds the same bits."""

import math
import random
from fractions import Fraction

import floats as fl

HUGE = 3.0e38


class Source:
    """A seeded stream of numbers that does not depend on the platform's libm."""

    def __init__(self, seed):
        self.bits = random.Random(seed).getrandbits

    def below(self, n):
        return self.bits(53) * n >> 53

    def uniform(self):
        return self.bits(53) * 2.0 ** -53

    def normal(self):
        """Close to N(0, 1): twelve uniforms, summed exactly."""
        return (sum(self.bits(48) for _ in range(12)) - (6 << 48)) * 2.0 ** -48

    def choice(self, items):
        return items[self.below(len(items))]

    def shuffled(self, items):
        items = list(items)
        for n in range(len(items) - 1, 0, -1):
            j = self.below(n + 1)
            items[n], items[j] = items[j], items[n]
        return items


def normal(s, v):
    return [s.normal() for _ in range(v)]


def zipf(s, v):
    """Like a language model's row: -1.6 ln(rank) + 0.3 N(0, 1), in a random order."""
    values = [-1.6 * fl.LN2D * fl.log2d(float(rank)) + 0.3 * s.normal() for rank in range(1, v + 1)]
    return s.shuffled(values)


def quantised(s, v):
    return [round(s.normal() * 2) / 2 for _ in range(v)]


def equal(s, v):
    return [s.normal()] * v


def two_valued(s, v):
    a, b = s.normal(), s.normal()
    return [s.choice([a, b]) for _ in range(v)]


def one_hot(s, v):
    values = [-fl.INF] * v
    values[s.below(v)] = s.normal()
    return values


def sparse(s, v):
    """75 to 95 percent of the row is -inf."""
    share = 0.75 + 0.2 * s.uniform()
    return [-fl.INF if s.uniform() < share else 2 * s.normal() for _ in range(v)]


def wide(s, v):
    return [20 * s.normal() for _ in range(v)]


def huge(s, v):
    return [s.choice([HUGE, -HUGE, 1e38, -1e38, 3.4e38, -3.4e38, 0.0]) for _ in range(v)]


def denormal(s, v):
    return [math.ldexp(s.below(1 << 24) - (1 << 23), -149) for _ in range(v)]


def zeros(s, v):
    return [s.choice([0.0, -0.0]) for _ in range(v)]


def zero_mix(s, v):
    return [s.choice([0.0, -0.0, 0.5, -0.5, math.ldexp(1, -149), -math.ldexp(1, -149)])
            for _ in range(v)]


def near_equal(s, v):
    """Different values of equal or nearly equal weight."""
    return [-math.ldexp(s.below(4 * v + 1), -30) for _ in range(v)]


def ascending(s, v):
    return [n * 0.25 - 3 for n in range(v)]


LOGITS = {f.__name__: f for f in (normal, zipf, quantised, equal, two_valued, one_hot, sparse, wide,
                                  huge, denormal, zeros, zero_mix, near_equal, ascending)}


# ---------------------------------------------------------------- probabilities

def softmax(s, v):
    """Sums to about one."""
    values = [math.ldexp(1 + s.uniform(), -s.below(12)) for _ in range(v)]
    total = sum(values)
    return [x / total for x in values]


def unnormalised(s, v):
    return [100 * s.uniform() for _ in range(v)]


def tiny(s, v):
    return [math.ldexp(s.below(1 << s.below(23)), -149) for _ in range(v)]


def spread(s, v):
    """From the largest to the smallest magnitudes, so that some weights are 0."""
    return [math.ldexp(1 + s.uniform(), s.below(250) - 126) for _ in range(v)]


def sparse_zero(s, v):
    return [0.0 if s.uniform() < 0.7 else s.uniform() for _ in range(v)]


def signed_zero(s, v):
    return [s.choice([0.0, -0.0, 0.25, 0.5]) for _ in range(v)]


def probability_ties(s, v):
    return [s.choice([0.125, 0.25, 0.5]) for _ in range(v)]


def near_one(s, v):
    return [1 - s.below(8) * 2.0 ** -24 for _ in range(v)]


def equal_one(s, v):
    return [1.0] * v


PROBABILITIES = {f.__name__: f for f in (softmax, unnormalised, tiny, spread, sparse_zero, signed_zero,
                                         probability_ties, near_one, equal_one)}


# ---------------------------------------------------------------- dtypes

def to_bits(value, dtype):
    """The bits of a binary64 number rounded once to a row's dtype."""
    if math.isnan(value):
        return {"f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0}[dtype]
    sign = 1 if math.copysign(1.0, value) < 0 else 0
    if dtype == "f32":
        return fl.f32_bits(fl.round32(value))
    precision, emin, emax = (11, -14, 15) if dtype == "f16" else (8, -126, 127)
    if math.isfinite(value) and value:
        value = fl.round_fraction(Fraction(value), precision, emin, emax)
    if dtype == "bf16":
        return fl.f32_bits(value) >> 16
    magnitude = abs(value)
    if magnitude == fl.INF:
        return sign << 15 | 0x7C00
    if magnitude < 2.0 ** -14:
        return sign << 15 | int(math.ldexp(magnitude, 24))
    m, e = math.frexp(magnitude)
    return sign << 15 | (e + 14) << 10 | int(math.ldexp(m, 11)) - 1024


def hex_row(values, dtype="f32"):
    digits = fl.HEX_DIGITS[dtype]
    return "".join(f"{to_bits(x, dtype):0{digits}x}" for x in values)


def hex_bits(bits, dtype):
    return "".join(f"{b:0{fl.HEX_DIGITS[dtype]}x}" for b in bits)
