"""The rejection samplers as they are implemented (docs/law.md, part 8), as a transition system on integers.

A Sampler says, for a state and a drawn token, whether the token is accepted and what the next state is; that is
all there is to the algorithms. exact.py sums over all draws of it; test_replay.py feeds it the random numbers of
real calls and compares every trial with the library's.
"""

from fractions import Fraction
from functools import cached_property
from math import ceil

BELOW_ALL = ("all", 0)
LEAST_P = Fraction(1, 1 << 149)  # the smallest positive f32: what top_p(p <= 0) acts as


class Set:
    """A set K of tokens: weights, positions P (the order of part 2), and the weight of any position."""

    def __init__(self, weight, position, weight_at, tokens=None):
        self.weight, self.position, self.weight_at = weight, position, weight_at
        self.tokens = list(range(len(weight))) if tokens is None else tokens

    def restricted(self, tokens):
        return Set(self.weight, self.position, self.weight_at, tokens)

    def mass(self, tokens):
        return sum(self.weight[i] for i in tokens)

    @cached_property
    def total(self):
        return self.mass(self.tokens)

    @cached_property
    def greatest(self):
        """The greatest token, of lowest index."""
        return max(self.tokens, key=lambda i: (self.position[i], -i))

    def above(self, place):
        """The tokens greater than a place, ascending."""
        kind, at = place
        if kind == "all":
            return self.tokens
        if kind == "weight":
            return [i for i in self.tokens if self.weight[i] > at]
        return [i for i in self.tokens if self.position[i] > (at if kind == "key" else self.position[at])]

    def weight_of(self, place):
        kind, at = place
        return at if kind == "weight" else self.weight[at] if kind == "token" else self.weight_at(at)


class Filter:
    """top_k, top_p, min_p or top_k_top_p (part 4) on a set: fewer greater tokens than k, less mass in them than
    target, and at least the weight `least`; None where it does not ask. Mass is an integer, so p * Z and q * max
    may be rounded up first, as the library does."""

    def __init__(self, k_set, name, k=None, value=None):
        self.k = k if name in ("top_k", "top_k_top_p") and k > 0 else None
        self.target = self.least = None
        if name in ("top_p", "top_k_top_p") and value < 1:
            self.target = ceil(max(Fraction(value), LEAST_P) * k_set.total)
        if name == "min_p" and value > 0:
            self.least = ceil(min(Fraction(value), 1) * k_set.weight[k_set.greatest])

    def passes(self, count, mass, weight):
        return ((self.k is None or count < self.k) and (self.target is None or mass < self.target)
                and (self.least is None or weight >= self.least))


class Sampler:
    """State: (low, high), two places; high is None with one pivot."""

    def __init__(self, k_set, filter_, dual):
        self.set, self.filter, self.dual = k_set, filter_, dual
        self.known = {}

    def start(self):
        return BELOW_ALL, ("weight", self.set.weight[self.set.greatest]) if self.dual else None

    def passes(self, place):
        """The filter's predicate f at a place."""
        if place not in self.known:
            above = self.set.above(place)
            weight = self.set.weight_of(place) if self.filter.least is not None else None
            self.known[place] = self.filter.passes(len(above), self.set.mass(above), weight)
        return self.known[place]

    def accepts(self, token):
        return self.passes(("token", token))

    def candidates(self, state):
        return self.set.above(state[0])

    def middle(self, high, token):
        """(high, middle): the second pivot. Among weights, until weights no longer tell the two apart."""
        if high[0] == "weight" and high[1] - self.set.weight[token] < 2:
            high = "key", self.set.position[self.set.greatest]
        at = self.set.weight[token] if high[0] == "weight" else self.set.position[token]
        return high, (high[0], at + (high[1] - at) // 2)

    def next(self, state, token):
        """None when the token is accepted, else the next state."""
        if self.accepts(token):
            return None
        if not self.dual:
            return ("token", token), None
        high, middle = self.middle(state[1], token)
        if self.passes(middle):
            return ("token", token), middle
        return middle, high


def draw(k_set, tokens, random):
    """The token that a 64-bit random number picks (part 5), and its u."""
    u = random * k_set.mass(tokens) >> 64
    prefix = 0
    for i in tokens:
        prefix += k_set.weight[i]
        if prefix > u:
            return i, u
    raise AssertionError("u is below the mass")


# ---- chains: lists of (name, k, value)

def keep(k_set, step):
    """What a filter keeps, from its definition: walk down the order, class of equals by class."""
    f, kept, count, mass = Filter(k_set, *step), [], 0, 0
    for place in sorted({k_set.position[i] for i in k_set.tokens}, reverse=True):
        equals = [i for i in k_set.tokens if k_set.position[i] == place]
        if not f.passes(count, mass, k_set.weight[equals[0]]):
            break
        kept += equals
        count, mass = count + len(equals), mass + k_set.mass(equals)
    return k_set.restricted(sorted(kept))


def samplers(k_set, chain, make=Sampler):
    """(what the chain keeps, the sampler with one pivot, the one with two)."""
    for step in chain[:-1]:
        k_set = keep(k_set, step)
    last = chain[-1] if chain else ("top_k", 0)
    f = Filter(k_set, *last)
    return keep(k_set, last), make(k_set, f, False), make(k_set, f, True)
