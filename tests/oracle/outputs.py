"""Everything a call returns besides its tokens (the law, parts 6 and 7)."""

from fractions import Fraction

import floats as fl
from weights import exp_and_weight


class Measure:
    """A kept set with its weights, as the log-probabilities see it."""

    def __init__(self, row, kept, w, temperature):
        self.row, self.kept, self.w, self.temperature = row, kept, w, temperature
        self.members = set(kept)
        self.mass = sum(w[i] for i in kept)
        self.zd = float(self.mass)

    def t(self, i):
        return self.row.t_of(self.row.x[i], self.temperature)

    def logprob(self, i):
        """The f32 log-probability of token i, any integer."""
        if not 0 <= i < len(self.row.x):
            return fl.NAN
        if i not in self.members:
            return -fl.INF
        if self.row.logits:
            bits = self.t(i) - fl.log2d(self.zd * 2.0 ** -40)
        else:
            bits = fl.log2d(float(self.w[i]) / self.zd)
        return fl.round32(bits * fl.LN2D) + 0.0

    def top(self, count):
        """The ids and log-probabilities of the `count` greatest tokens, padded."""
        ids = sorted(self.kept, key=lambda i: (-self.row.x[i], i))[:count]
        padding = count - len(ids)
        return (ids + [-1] * padding,
                [self.logprob(i) for i in ids] + [-fl.INF] * padding)

    def probabilities(self):
        result = [0.0] * len(self.row.x)
        if self.row.logits:
            c = fl.round32(2.0 ** 40 / self.zd)
            for i in self.kept:
                result[i] = fl.mul32(exp_and_weight(self.t(i))[0], c)
        else:
            c = fl.round32(1.0 / self.zd)
            for i in self.kept:
                result[i] = fl.mul32(fl.round32(Fraction(self.w[i])), c)
        return result

    def entropy(self):
        if not self.row.logits:
            return fl.NAN
        s = sum(self.w[i] * fl.rint(-Fraction(self.t(i)) * (1 << 20))
                for i in self.kept if self.w[i] > 0)
        mean = fl.round64(s) / (self.zd * 2.0 ** 20)
        return fl.round32(fl.LN2D * (fl.log2d(self.zd * 2.0 ** -40) + mean))


def hex32(values):
    return [f"{fl.f32_bits(v):08x}" for v in values]


def pack(bits, digits):
    return "".join(f"{b:0{digits}x}" for b in bits)


def masked(row, members, dtype):
    bits = [b if i in members else fl.NEG_INF_BITS[dtype] for i, b in enumerate(row.bits)]
    return pack(bits, fl.HEX_DIGITS[dtype])


def failed(row, call, status):
    """The outputs of a row that is EMPTY or BAD_PARAM."""
    draws, given = call["draws"], len(call["given_ids"])
    nan = f"{fl.NAN_BITS:08x}"
    return {
        "status": status, "tokens": [-1] * draws, "rounds": [0] * draws,
        "logprobs": [nan] * draws, "raw_logprobs": [nan] * draws, "ranks": [0] * draws,
        "kept_count": 0, "kept_ids": [-1] * call["kept_capacity"],
        "kept_mass": "0", "total_mass": "0",
        "probabilities": pack([0] * len(row.x), 8),
        "masked": masked(row, set(), call["dtype"]),
        "top_ids": [-1] * call["top_n"], "top_logprobs": [nan] * call["top_n"],
        "given_logprobs": [nan] * given, "given_raw_logprobs": [nan] * given,
        "entropy": nan,
    }
