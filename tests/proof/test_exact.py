"""The theorem of docs/proof.md, checked: for every weight vector of a family, every chain and both tie rules, the
samplers as implemented return token j with probability w_j / Z exactly; their trials have the mean and the bounds
that the page says. And the check can fail: samplers that are a little wrong are caught."""

import itertools
import pathlib
import sys
from fractions import Fraction

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from exact import evaluate, mean_of_one_pivot, most_of_two_pivots
from model import Sampler, Set, samplers

INDEX_BITS = 22
WEIGHTS = (0, 1, 2, 3, 7, 12)  # gaps below, at and above 2, where the pivots turn from weights to keys

FILTERS = ([("top_k", k) for k in range(0, 5)]
           + [("top_p", None, p) for p in (0, 0.25, 0.5, Fraction(11744051, 1 << 24), 1)]
           + [("min_p", None, q) for q in (0, 0.125, 0.5, 1)]
           + [("top_k_top_p", k, p) for k, p in ((0, 0.5), (1, 0.75), (2, 0.75), (3, 0.5), (3, 1))])
PAIRS = [(("top_k", 3), ("top_p", None, 0.5)), (("top_k", 2), ("top_p", None, 0.75)),
         (("top_p", None, 0.75), ("top_k", 2)), (("min_p", None, 0.125), ("top_k", 2)),
         (("min_p", None, 0.125), ("top_k", 3), ("top_p", None, 0.5)), (("top_k", 3), ("min_p", None, 0.5)),
         (("top_p", None, 0.9), ("top_k_top_p", 2, 0.5))]
CHAINS = [()] + [(f,) for f in FILTERS] + PAIRS


def monotone_steps(position, weight, up):
    """A weight of every position: that of the next token below it, or above it. (W itself lies between.)"""
    order = sorted(zip(position, weight))

    def weight_at(place):
        if up:
            return next((w for p, w in order if p >= place), order[-1][1])
        return next((w for p, w in reversed(order) if p <= place), 0)
    return weight_at


def family(sizes, weights=WEIGHTS):
    """Sets of tokens: weights ascending; equal ones are equal values or (as after rounding) different ones;
    under INDEX positions are different in any case, and the lower index stands higher."""
    for size in sizes:
        for weight in itertools.combinations_with_replacement(weights, size):
            if weight[-1] == 0:
                continue
            free = [i for i in range(1, size) if weight[i] == weight[i - 1]]
            for tied in itertools.chain.from_iterable(itertools.combinations(free, n) for n in range(len(free) + 1)):
                key, keys = 5, []
                for i in range(size):
                    key += 0 if i in tied else 1 + 3 * (i % 3)  # neighbours and gaps
                    keys.append(key)
                by_index = [k << INDEX_BITS | (1 << INDEX_BITS) - 1 - i for i, k in enumerate(keys)]
                for position, shift in ((keys, 0), (by_index, INDEX_BITS)):
                    if shift and not tied:
                        continue  # the same order as under ALL
                    weight_at = monotone_steps(keys, weight, len(tied) % 2)
                    yield Set(weight, position, lambda p, s=shift, w=weight_at: w(p >> s))


def check(k_set, chain, make=Sampler):
    """Raises AssertionError where a sampler is not what docs/proof.md says."""
    kept, single, dual = samplers(k_set, chain, make)
    expected = {j: Fraction(k_set.weight[j], kept.total) for j in kept.tokens if k_set.weight[j]}
    one, two = evaluate(single), evaluate(dual)
    assert one.probability == expected, "one pivot: probabilities"
    assert two.probability == expected, "two pivots: probabilities"
    assert one.mean == mean_of_one_pivot(single.set, kept), "one pivot: mean of the trials"
    assert two.mean <= one.mean, "two pivots: mean of the trials"
    rejected = {k_set.position[i] for i in single.set.tokens if k_set.weight[i]} - {
        k_set.position[i] for i in kept.tokens}
    assert one.most == 1 + len(rejected), "one pivot: most trials"
    assert two.most <= one.most, "two pivots: most trials"
    assert two.most <= most_of_two_pivots(dual.set), "two pivots: the bound"


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_theorem(chain):
    cases = 0
    for k_set in family((1, 2, 3, 4)):
        check(k_set, chain)
        cases += 1
    assert cases > 300


@pytest.mark.parametrize("chain", [(("top_k", 2),), (("top_p", None, 0.5),), (("min_p", None, 0.5),),
                                   (("top_k_top_p", 3, 0.5),), PAIRS[0]], ids=str)
def test_theorem_on_six_tokens(chain):
    for k_set in family((6,), (1, 2, 3, 9)):
        check(k_set, chain)


def test_order_of_indices_makes_no_difference():
    """Draws go by index, and the theorem is about every order of the tokens in the row."""
    for weight in itertools.permutations((1, 2, 2, 7)):
        position = [10 * w for w in weight]
        for chain in CHAINS:
            check(Set(weight, position, monotone_steps(position, weight, False)), chain)


# ---- the check can fail ----

class LowAtMiddle(Sampler):
    """Raises low to the middle although the filter passes there: kept tokens below it are lost."""

    def next(self, state, token):
        following = super().next(state, token)
        if following is None or not self.dual:
            return following
        middle = self.middle(state[1], token)[1]
        return middle, following[1]


class OffByOne(Sampler):
    """Raises low to one more than the failing middle: a kept token just above it is lost."""

    def next(self, state, token):
        following = super().next(state, token)
        if following is None or not self.dual or following[0][0] == "token":
            return following
        (kind, at), high = following
        return (kind, at + 1), high


class AcceptsOneMore(Sampler):
    """Accepts a token with exactly as much above it as the filter allows."""

    def accepts(self, token):
        above = self.set.above(("token", token))
        f = self.filter
        return ((f.k is None or len(above) <= f.k) and (f.target is None or self.set.mass(above) <= f.target)
                and (f.least is None or self.set.weight[token] >= f.least - 1))


class CountsTies(Sampler):
    """Counts the tokens that equal a place as greater than it."""

    def passes(self, place):
        kind, at = place
        if kind != "token":
            return super().passes(place)
        above = [i for i in self.set.tokens if self.set.position[i] >= self.set.position[at] and i != at]
        return self.filter.passes(len(above), self.set.mass(above), self.set.weight[at])


class Peeks(Sampler):
    """Draws its second trial among the tokens that pass: the probabilities stay right, the trials do not."""

    def candidates(self, state):
        return [i for i in self.set.tokens if state[0][0] == "all" or self.accepts(i)]


@pytest.mark.parametrize("mutant", [LowAtMiddle, OffByOne, AcceptsOneMore, CountsTies, Peeks])
def test_wrong_samplers_are_caught(mutant):
    caught = 0
    for k_set in family((3, 4)):
        for chain in CHAINS:
            try:
                check(k_set, chain, mutant)
            except AssertionError:
                caught += 1
        if caught >= 10:
            return
    raise AssertionError("not caught")
