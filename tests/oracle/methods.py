"""How a token is drawn: exact, rejection, dual pivot (the law, parts 5 and 8)."""

import floats as fl
from chain import Filter
from philox import PURPOSE_DRAW, PURPOSE_REJECTION, random64

INDEX_BITS = 22


def pick(state, candidates, r):
    """The token of `candidates` (ascending ids) that the 64-bit number r picks."""
    u = r * sum(state.w[i] for i in candidates) >> 64
    prefix = 0
    for i in candidates:
        prefix += state.w[i]
        if prefix > u:
            return i
    raise AssertionError("no mass to draw from")


def draw_exact(state, call, draw):
    """One draw from the final K; returns (token, rounds)."""
    if call["random"] is not None:
        r = int(call["random"][draw])
    else:
        r = random64(int(call["seed"]), int(call["offset"]), call["stream"],
                     PURPOSE_DRAW, draw, 0)
    return pick(state, state.kept, r), 0


class Rejection:
    """Draws under the last filter of a chain. `state` is the chain's before that filter."""

    def __init__(self, state, last_filter, call):
        self.state = state
        self.call = call
        self.filter = Filter(last_filter, state) if last_filter else None
        self.above = state.above()
        self.trials = 0

    def accepts_token(self, j):
        return self.filter is None or self.filter.accepts(*self.above[j], self.state.w[j])

    def try_one(self, candidates, draw):
        r = random64(int(self.call["seed"]), int(self.call["offset"]), self.call["stream"],
                     PURPOSE_REJECTION, draw, self.trials % (1 << 16))
        self.trials += 1
        return pick(self.state, candidates, r)

    def greater_than_token(self, j):
        place = self.state.rank_key(j)
        return [i for i in self.state.kept if self.state.rank_key(i) < place]

    def draw_single_pivot(self, draw):
        self.trials = 0
        candidates = self.state.kept
        while True:
            j = self.try_one(candidates, draw)
            if self.accepts_token(j):
                return j, self.trials
            candidates = self.greater_than_token(j)

    # ---- dual pivot: positions are weights first, then order keys P

    def p_of(self, i):
        k = fl.key(self.state.row.x[i] + 0.0)
        if self.state.ties == "index":
            k = k << INDEX_BITS | (1 << INDEX_BITS) - 1 - i
        return k

    def p_weight(self, position):
        k = position >> INDEX_BITS if self.state.ties == "index" else position
        return self.state.row.weight_of(fl.key_decode(k), self.state.temperature)

    def accepts_position(self, position, place_of, weight_at):
        greater = [i for i in self.state.kept if place_of(i) > position]
        mass = sum(self.state.w[i] for i in greater)
        # only min_p looks at the weight, so it is not asked for otherwise
        weight = weight_at(position) if self.filter.min_weight is not None else None
        return self.filter.accepts(len(greater), mass, weight)

    def draw_dual_pivot(self, draw):
        self.trials = 0
        state = self.state
        candidates = state.kept
        place_of, weight_at = state.w.__getitem__, lambda position: position
        high, by_weight = state.max_weight, True
        while True:
            j = self.try_one(candidates, draw)
            if self.accepts_token(j):
                return j, self.trials
            if by_weight and high - place_of(j) < 2:
                by_weight, place_of, weight_at = False, self.p_of, self.p_weight
                high = self.p_of(state.greatest())
            mid = place_of(j) + (high - place_of(j)) // 2
            if self.accepts_position(mid, place_of, weight_at):
                high = mid
                candidates = self.greater_than_token(j)
            else:
                candidates = [i for i in state.kept if place_of(i) > mid]
