"""The row, its tokens K0, their order, and their integer weights (the law, parts 1 to 3)."""

import math
from fractions import Fraction
from functools import lru_cache

import floats as fl

ONE = 1 << 40                                        # the weight of a row's greatest token
LOG2E = float.fromhex("0x1.715476p+0")
WEIGHT_C = tuple(float.fromhex(c) for c in (         # C1 .. C5
    "0x1.62e42ap-1", "0x1.ebf9bcp-3", "0x1.c6b752p-5", "0x1.3cea88p-7", "0x1.5bba14p-10"))

NAN_BIT, POS_INF_BIT, NEGATIVE_BIT, EMPTY_BIT, BAD_PARAM_BIT = 1, 2, 4, 8, 16


@lru_cache(maxsize=1 << 18)
def exp_and_weight(t):
    """(E(t), W(t)) for t <= 0 (or minus infinity)."""
    if t < -64:
        return 0.0, 0
    n = fl.rint(t)
    f = fl.round32(Fraction(t) - n)
    f = fl.sub32(fl.add32(f, 1.5), 1.5)
    q = WEIGHT_C[4]
    for c in (*reversed(WEIGHT_C[:4]), 1.0):
        q = fl.fma32(q, f, c)
    weight = math.floor(Fraction(q) * Fraction(2) ** (n + 40))
    return (math.ldexp(q, n) if weight else 0.0), weight


def scale(temperature):
    """s = fl(L / T); infinite when T is 0 or too small."""
    return fl.INF if temperature == 0 else fl.div32(LOG2E, temperature)


class Row:
    """One row: its f32 values x, its status bits, K0 (ascending ids), and weights of its tokens."""

    def __init__(self, kind, dtype, bits):
        self.logits = kind == "logits"
        self.bits = bits
        self.x = [fl.widen(b, dtype) for b in bits]
        nans = any(math.isnan(x) for x in self.x)
        self.has_inf = any(x == fl.INF for x in self.x)
        negative = not self.logits and any(x < 0 for x in self.x)
        if self.has_inf:
            self.k0 = [i for i, x in enumerate(self.x) if x == fl.INF]
        elif self.logits:
            self.k0 = [i for i, x in enumerate(self.x) if x > -fl.INF]
        else:
            self.k0 = [i for i, x in enumerate(self.x) if x > 0]
        self.status = (NAN_BIT * nans | POS_INF_BIT * self.has_inf | NEGATIVE_BIT * negative
                       | EMPTY_BIT * (not self.k0))
        self.max = max((self.x[i] for i in self.k0), default=None)

    def t_of(self, x, temperature):
        """t of a logit x of K0 (also of one that no token has)."""
        s = scale(temperature)
        if self.has_inf or s == 0 or math.isinf(s):  # T = +inf; greedy
            return 0.0
        return fl.mul32(fl.sub32(x, self.max), s)

    def weight_of(self, x, temperature):
        """The integer weight of a value x of K0 (also of one that no token has)."""
        if self.logits:
            return exp_and_weight(self.t_of(x, temperature))[1]
        if self.has_inf:
            return ONE
        e = _floor_log2(Fraction(self.max))
        return math.floor(Fraction(x) * Fraction(2) ** (40 - e))

    def weights(self, temperature):
        """The weights of all tokens of K0, as a dictionary."""
        return {i: self.weight_of(self.x[i], temperature) for i in self.k0}


def _floor_log2(v):
    e = v.numerator.bit_length() - v.denominator.bit_length()
    return e if Fraction(2) ** e <= v else e - 1
