"""Exact models of the floating-point operations that the law uses.

A binary32 or binary64 number is held in a Python float, which can represent both exactly.
Every rounding to binary32, and every fma, is done on exact fractions and rounded once, to
nearest, ties to even. Python's own + - * / on floats are the IEEE binary64 operations.
"""

import math
import struct
from fractions import Fraction

INF = math.inf
NAN = math.nan
NAN_BITS = 0x7FC00000


# ---------------------------------------------------------------- rounding

def round_fraction(value, precision, emin, emax):
    """The nearest number with `precision` bits and exponents emin..emax, ties to even; a float."""
    if value == 0:
        return 0.0
    sign = -1.0 if value < 0 else 1.0
    num, den = abs(value.numerator), value.denominator
    e = num.bit_length() - den.bit_length()          # floor(log2) is e or e - 1
    if (num << max(-e, 0)) < (den << max(e, 0)):
        e -= 1
    if e > emax:
        return sign * INF
    quantum = max(e, emin) - (precision - 1)         # exponent of one unit in the last place
    if quantum >= 0:
        den <<= quantum
    else:
        num <<= -quantum
    units, rest = divmod(num, den)
    if 2 * rest > den or (2 * rest == den and units & 1):
        units += 1
    if units >= 1 << (emax + 1 - quantum):
        return sign * INF
    return sign * math.ldexp(units, quantum)


def round32(value):
    """A fraction, or a binary64 number, rounded once to binary32."""
    if isinstance(value, float):
        if value == 0 or math.isinf(value) or math.isnan(value):
            return value
        value = Fraction(value)
    return round_fraction(value, 24, -126, 127)


def round64(value):
    """A fraction or an integer rounded once to binary64."""
    return round_fraction(Fraction(value), 53, -1022, 1023)


def _special(*operands):
    return any(math.isinf(v) or math.isnan(v) for v in operands)


def add32(a, b):
    if _special(a, b):
        return a + b
    exact = Fraction(a) + Fraction(b)
    return round32(exact) if exact else a + b        # a + b: the right sign of zero


def sub32(a, b):
    return add32(a, -b)


def mul32(a, b):
    if _special(a, b) or a == 0 or b == 0:
        return a * b
    exact = Fraction(a) * Fraction(b)
    return math.copysign(round32(exact), exact)


def div32(a, b):
    """a / b for positive finite a and positive, finite or infinite b."""
    if math.isinf(b):
        return 0.0
    return round32(Fraction(a) / Fraction(b))


def fma32(a, b, c):
    """Finite operands only: the law never gives it others."""
    return round32(Fraction(a) * Fraction(b) + Fraction(c))


def fma64(a, b, c):
    return round64(Fraction(a) * Fraction(b) + Fraction(c))


def rint(value):
    """The nearest integer, ties to even; a float of any size."""
    return round(Fraction(value))                    # Fraction rounds ties to even


# ---------------------------------------------------------------- bits

def f32_from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def f32_bits(value):
    """The bits of a binary32 number; every NaN has the bits 0x7fc00000."""
    if math.isnan(value):
        return NAN_BITS
    return struct.unpack("<I", struct.pack("<f", value))[0]


def widen(bits, dtype):
    """The bits of one element of a row, as the f32 number it is (exact)."""
    if dtype == "f32":
        return f32_from_bits(bits)
    if dtype == "bf16":
        return f32_from_bits(bits << 16)
    sign = -1.0 if bits >> 15 else 1.0
    exponent, fraction = bits >> 10 & 31, bits & 1023
    if exponent == 31:
        return NAN if fraction else sign * INF
    if exponent == 0:
        return sign * math.ldexp(fraction, -24)
    return sign * math.ldexp(1024 + fraction, exponent - 25)


NEG_INF_BITS = {"f32": 0xFF800000, "f16": 0xFC00, "bf16": 0xFF80}
HEX_DIGITS = {"f32": 8, "f16": 4, "bf16": 4}


def key(x):
    """The order-preserving u32 of an f32: x < y as numbers means key(x) < key(y)."""
    bits = f32_bits(x)
    return bits ^ 0xFFFFFFFF if bits >> 31 else bits | 0x80000000


def key_decode(k):
    return f32_from_bits(k ^ 0x80000000 if k >> 31 else k ^ 0xFFFFFFFF)


# ---------------------------------------------------------------- log2d

LN2D = float.fromhex("0x1.62e42fefa39efp-1")
SQRT2D = float.fromhex("0x1.6a09e667f3bcdp+0")
LOG2D_C = tuple(float.fromhex(c) for c in (
    "0x1.71547652b82fep+1", "0x1.ec709dc3a03fdp-1", "0x1.2776c50ef9bfep-1",
    "0x1.a61762a7aded9p-2", "0x1.484b13d7c02a9p-2", "0x1.0c9a84994022dp-2",
    "0x1.c68f568d31760p-3", "0x1.89f3b1694cffep-3", "0x1.5b9ac9b743f0dp-3",
    "0x1.3703c1f4d0ffep-3"))


def log2d(x):
    """log2 of a binary64 number that is 0 or a positive normal one, by the law's own steps."""
    if x == 0:
        return -INF
    half, exponent = math.frexp(x)                   # x = half * 2^exponent, half in [1/2, 1)
    m, e = 2.0 * half, exponent - 1
    if m >= SQRT2D:
        m, e = m / 2, e + 1
    z = (m - 1.0) / (m + 1.0)
    y = z * z
    p = LOG2D_C[9]
    for k in range(8, -1, -1):
        p = fma64(p, y, LOG2D_C[k])
    return fma64(z, p, float(e))
