"""Exact results of a sampler: sums over every sequence of draws, in rational arithmetic."""

from fractions import Fraction


class Result:
    """From one state on: the probability of each token, the mean of the trials, and the most that can happen."""

    def __init__(self, probability, mean, most):
        self.probability, self.mean, self.most = probability, mean, most


def evaluate(sampler):
    """The recursion of docs/proof.md, evaluated. A state that leads back to itself would recurse for ever, and
    fails the test by Python's own limit."""
    known = {}

    def value(state):
        if state in known:
            return known[state]
        tokens = sampler.candidates(state)
        mass = sampler.set.mass(tokens)
        probability, mean, most = {}, Fraction(1), 1
        for j in tokens:
            weight = sampler.set.weight[j]
            if weight == 0:
                continue
            share = Fraction(weight, mass)
            following = sampler.next(state, j)
            if following is None:
                probability[j] = probability.get(j, 0) + share
                continue
            rest = value(following)
            for i, p in rest.probability.items():
                probability[i] = probability.get(i, 0) + share * p
            mean += share * rest.mean
            most = max(most, 1 + rest.most)
        known[state] = Result(probability, mean, most)
        return known[state]
    return value(sampler.start())


def mean_of_one_pivot(k_set, kept):
    """The theorem of docs/proof.md on the single pivot's trials: one, and for each class of equal tokens that is
    not kept, the probability that it is the first drawn of those that are not below it."""
    mean = Fraction(1)
    for place in {k_set.position[i] for i in k_set.tokens} - {k_set.position[i] for i in kept.tokens}:
        equals = k_set.mass(i for i in k_set.tokens if k_set.position[i] == place)
        mean += Fraction(equals, k_set.mass(i for i in k_set.tokens if k_set.position[i] >= place)) if equals else 0
    return mean


def most_of_two_pivots(k_set):
    """The bound of docs/proof.md: rejections among weights, rejections among keys, and the accepted trial."""
    weights = max(max(k_set.weight[i] for i in k_set.tokens) - 1, 1)
    keys = [k_set.position[i] for i in k_set.tokens]
    return (weights.bit_length() - 1) + ((max(keys) - min(keys) + 1).bit_length() - 1) + 1
