"""The chain: steps that shrink the set of kept tokens (the law, parts 2 and 4)."""

import math
from fractions import Fraction

import floats as fl
from weights import scale


def parse_step(step):
    """A step of the vector format, with its f32 value decoded."""
    step = dict(step)
    if "value" in step:
        step["value"] = fl.f32_from_bits(int(step["value"], 16))
    return step


def is_bad(step):
    """Whether a parsed step has a parameter that makes its row BAD_PARAM."""
    value = step.get("value", 0.0)
    return math.isnan(value) or (step["step"] == "temperature" and value < 0)


class State:
    """Where a chain stands: K (ascending ids), T, and the weights of K at that T."""

    def __init__(self, row, ties):
        self.row = row
        self.ties = ties
        self.temperature = 1.0
        self.kept = list(row.k0)
        self.w = row.weights(1.0)

    @property
    def mass(self):
        return sum(self.w[i] for i in self.kept)

    @property
    def max_weight(self):
        return max(self.w[i] for i in self.kept)

    def rank_key(self, i):
        """Sorting K by this puts greater tokens first; equal keys are ties."""
        return (-self.row.x[i], i if self.ties == "index" else 0)

    def greatest(self):
        """The greatest token of K, the one of lowest index among equals."""
        return min(self.kept, key=lambda i: (-self.row.x[i], i))

    def above(self):
        """For each token of K, (count, mass) of the tokens of K that are greater."""
        result, count, mass = {}, 0, 0
        previous, tied_count, tied_mass = None, 0, 0
        for i in sorted(self.kept, key=self.rank_key):
            if self.rank_key(i) != previous:
                count, mass = count + tied_count, mass + tied_mass
                previous, tied_count, tied_mass = self.rank_key(i), 0, 0
            result[i] = count, mass
            tied_count, tied_mass = tied_count + 1, tied_mass + self.w[i]
        return result


class Filter:
    """The predicate of one filter on the K that a State holds. It is asked two ways:
    accepts(count, mass, weight), what lies above a place and the weight at that place."""

    def __init__(self, step, state):
        kind = step["step"]
        self.max_count = self.max_mass = self.min_weight = None      # None: off
        if kind in ("top_k", "top_k_top_p") and 0 < step["k"] < len(state.kept):
            self.max_count = step["k"]
        if kind in ("top_p", "top_k_top_p") and step["value"] < 1:
            p = Fraction(step["value"]) if step["value"] > 0 else Fraction(1, 1 << 149)
            self.max_mass = p * state.mass
        if kind == "min_p" and step["value"] > 0:
            self.min_weight = Fraction(min(step["value"], 1.0)) * state.max_weight

    def accepts(self, count, mass, weight):
        return ((self.max_count is None or count < self.max_count)
                and (self.max_mass is None or mass < self.max_mass)
                and (self.min_weight is None or weight >= self.min_weight))


def apply_step(state, step):
    """Shrinks (or, for a temperature, re-weights) the state."""
    if step["step"] == "temperature":
        state.temperature = step["value"]
        if math.isinf(scale(state.temperature)):
            state.kept = [state.greatest()]
        state.w = state.row.weights(state.temperature)
        return
    keep = Filter(step, state)
    above = state.above()
    state.kept = [i for i in state.kept if keep.accepts(*above[i], state.w[i])]
