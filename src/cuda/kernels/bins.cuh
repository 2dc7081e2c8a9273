/*
 * Sorting a list in shared memory and cutting it, and the histograms that bracket a cut.
 */
#ifndef TB_CUDA_BINS_CUH
#define TB_CUDA_BINS_CUH

#include "passes.cuh"

/* ---- lists ---- */

/* Sorts shared[0, n), n <= TB_LIST, downwards or upwards; the rest up to a power of two is overwritten. */
TB_CALL void tb_sort_shared(uint64_t *shared, uint32_t n, bool down)
{
    uint32_t size = 2;
    while (size < n) size *= 2;
#pragma unroll 1
    for (uint32_t i = n + threadIdx.x; i < size; i += blockDim.x) shared[i] = down ? 0 : ~(uint64_t)0;
    __syncthreads();
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t step = run / 2; step > 0; step /= 2) {
#pragma unroll 1
            for (uint32_t i = threadIdx.x; i < size / 2; i += blockDim.x) {
                uint32_t a = 2 * i - (i & (step - 1)), b = a + step;
                bool up = ((a & run) != 0) == down; /* the last run goes the way asked for */
                uint64_t x = shared[a], y = shared[b];
                if ((x > y) == up) shared[a] = y, shared[b] = x;
            }
            if (size <= 64)
                __syncwarp(); /* all pairs are the first warp's */
            else
                __syncthreads();
        }
    }
    __syncthreads();
}

/*
 * How many of list[0, n) (greatest first) stay: each has fewer than k greater ones and less than `target`
 * mass in them, `above` tokens of mass `mass_above` being greater than the whole list. With ties ALL only
 * another value makes a token greater. The mass returned is mass_above plus that of those that stay.
 */
TB_CALL tb_measured tb_cut_list(tb_room *room, bool by_index, uint32_t n, uint32_t k, uint64_t target,
                                uint32_t above, uint64_t mass_above)
{
    const tb_weigher weigher = room->source.weigher;
    uint32_t per = (n + blockDim.x - 1) / blockDim.x, first = threadIdx.x * per;
    uint32_t end = first + per < n ? first + per : n, cut = n;
    uint64_t sum = 0, total;
#pragma unroll 1
    for (uint32_t i = first; i < end; i++)
        sum += tb_weight(weigher, law_key_value(tb_place_key(room->list[i])));
    uint64_t prefix = mass_above + tb_block_scan64(&room->scratch, sum, &total);
    uint32_t before = first > 0 && first < n ? tb_place_key(room->list[first - 1]) : 0;
#pragma unroll 1
    for (uint32_t i = first; i < end; i++) {
        uint32_t key = tb_place_key(room->list[i]);
        if ((by_index || key != before) && (above + i >= k || prefix >= target)) {
            cut = i;
            break;
        }
        before = key;
        prefix += tb_weight(weigher, law_key_value(key));
    }
    cut = ~tb_block_max(&room->scratch, ~cut);
    sum = 0;
#pragma unroll 1
    for (uint32_t i = first; i < end && i < cut; i++)
        sum += tb_weight(weigher, law_key_value(tb_place_key(room->list[i])));
    tb_measured kept = {mass_above + tb_block_sum64(&room->scratch, sum), cut};
    return kept;
}

/* ---- bins ---- */

/* A monotone map from values to bin numbers, 0 the greatest: equal intervals of values, or of keys. */
typedef struct tb_bins {
    bool linear;
    float top, inverse, bottom; /* linear: bin = round((top - x) * inverse) */
    uint32_t top_key, bottom_key, shift;
} tb_bins;

TB_DEV tb_bins tb_make_bins(uint32_t low, uint32_t high, bool linear)
{
    tb_bins bins;
    bins.top = law_key_value(high);
    bins.bottom = law_key_value(low);
    bins.top_key = high;
    bins.bottom_key = low;
    bins.shift = 0;
    while ((high - low) >> bins.shift >= TB_SELECT_BINS) bins.shift++;
    bins.inverse = (float)(TB_SELECT_BINS - 1) / (bins.top - bins.bottom);
    /* a range or a reciprocal that overflows: equal intervals of keys, then */
    bins.linear = linear && bins.inverse > 0.0f && bins.inverse < LAW_INF;
    return bins;
}

TB_DEV uint32_t tb_bin_linear(const tb_bins &bins, float x)
{
    float at = fminf((bins.top - x) * bins.inverse, (float)(TB_SELECT_BINS - 1));
    return law_bits(at + 0x1p23f) - law_bits(0x1p23f);
}

TB_DEV uint32_t tb_bin(const tb_bins &bins, float x)
{
    return bins.linear ? tb_bin_linear(bins, x) : (bins.top_key - law_key(x)) >> bins.shift;
}

/* Values between which every x of the interval in bin b lies. tb_bin's rounding errors are below 2^-10 of
 * a bin, and what is rounded to f32 here is monotone. */
TB_DEV float tb_bin_high(const tb_bins &bins, uint32_t b)
{
    if (!bins.linear) return law_key_value(bins.top_key - (b << bins.shift));
    float x = (float)((double)bins.top - ((double)b - 0.51) / (double)bins.inverse);
    return fminf(x, bins.top);
}

TB_DEV float tb_bin_low(const tb_bins &bins, uint32_t b)
{
    if (!bins.linear) {
        uint64_t down = ((uint64_t)(b + 1) << bins.shift) - 1;
        return down >= bins.top_key - bins.bottom_key ? bins.bottom
                                                      : law_key_value(bins.top_key - (uint32_t)down);
    }
    float x = (float)((double)bins.top - ((double)b + 0.51) / (double)bins.inverse);
    return b == TB_SELECT_BINS - 1 ? bins.bottom : fmaxf(x, bins.bottom);
}

/* The least key in [low, high] for which holds(key); holds is monotone and true at high. By each warp on its
 * own. */
template <class Holds> TB_DEV uint32_t tb_least_key(uint32_t low, uint32_t high, Holds holds)
{
    while (low < high) {
        uint64_t width = high - low;
        uint32_t probe = low + (uint32_t)(width * tb_lane() >> 5);
        unsigned yes = __ballot_sync(TB_WHOLE_WARP, holds(probe));
        if (yes & 1) return low;
        int first = yes ? __ffs((int)yes) - 1 : 32;
        low += (uint32_t)(width * (uint32_t)(first - 1) >> 5) + 1;
        if (first < 32) high = __shfl_sync(TB_WHOLE_WARP, probe, first);
    }
    return high;
}

/* The least key in [low, high] whose weight reaches `least`; high's does. */
TB_CALL uint32_t tb_key_of_weight(const tb_room *room, uint32_t low, uint32_t high, uint64_t least)
{
    const tb_weigher weigher = room->source.weigher;
    return tb_least_key(low, high,
                        [&](uint32_t key) { return tb_weight(weigher, law_key_value(key)) >= least; });
}

/* Counts the tokens low <= place < high into bins; with `weigh` also their masses. */
TB_DEV void tb_fill_bins(tb_room *room, const tb_bins &bins, uint64_t low, uint64_t high, bool weigh)
{
    const tb_source &source = room->source;
    const tb_weigher weigher = source.weigher;
    const tb_window window = tb_make_window(low, high);
    const tb_span span = source.span;
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < TB_SELECT_BINS; b += blockDim.x) {
        room->bin_count[b] = 0;
        if (weigh) room->bin_low[b] = room->bin_high[b] = 0;
    }
    __syncthreads();
    tb_each_chunk<16>(
        room, tb_place_key(low),
        [&](const float(&x)[16], uint32_t first) {
            uint32_t inside = tb_in_window(window, span, x, first);
            if (bins.linear && !weigh) {
#pragma unroll
                for (int j = 0; j < 16; j++)
                    if (inside >> j & 1) atomicAdd(&room->bin_count[tb_bin_linear(bins, x[j])], 1u);
                return;
            }
            for (; inside; inside &= inside - 1) {
                float y = tb_load(span, tb_piece_at(first, __ffs((int)inside) - 1));
                uint32_t b = tb_bin(bins, y);
                atomicAdd(&room->bin_count[b], 1u);
                if (!weigh) continue;
                uint64_t w = tb_weight(weigher, y);
                uint32_t part = (uint32_t)w, old = atomicAdd(&room->bin_low[b], part);
                part = (uint32_t)(w >> 32) + (old + part < part); /* the carry */
                if (part) atomicAdd(&room->bin_high[b], part);
            }
        },
        [](uint32_t) {});
    tb_team_barrier(source.team);
    if (source.team.size == 1) return;
    /* each block sums its share of the bins, then takes the other shares */
    const tb_team team = source.team;
    uint32_t share = TB_SELECT_BINS / team.size;
    for (uint32_t i = threadIdx.x; i < share; i += blockDim.x) {
        uint32_t b = team.rank * share + i, n = 0;
        uint64_t sum = 0;
        for (uint32_t r = 0; r < team.size; r++) {
            n += *tb_team_at(team, &room->bin_count[b], r);
            if (weigh)
                sum += (uint64_t)*tb_team_at(team, &room->bin_high[b], r) << 32 |
                       *tb_team_at(team, &room->bin_low[b], r);
        }
        room->bin_count[b] = n;
        if (weigh) room->bin_low[b] = (uint32_t)sum, room->bin_high[b] = (uint32_t)(sum >> 32);
    }
    tb_team_barrier(team);
#pragma unroll 1
    for (uint32_t b = threadIdx.x; b < TB_SELECT_BINS; b += blockDim.x) {
        uint32_t r = b / share;
        if (r == team.rank) continue;
        room->bin_count[b] = *tb_team_at(team, &room->bin_count[b], r);
        if (!weigh) continue;
        room->bin_low[b] = *tb_team_at(team, &room->bin_low[b], r);
        room->bin_high[b] = *tb_team_at(team, &room->bin_high[b], r);
    }
    tb_team_barrier(team);
}

typedef struct tb_bracket {
    uint32_t first, last; /* bins between which the last kept value lies */
    uint32_t above;       /* tokens of the bins before them */
    uint32_t inside;      /* tokens of the bracket; 0: no token at all */
    uint64_t mass_above;  /* exact masses: of the bins before */
} tb_bracket;

/* Brackets the last value that has fewer than k greater tokens with less than `target` mass. `exact`: masses
 * are in the bins; else they are bounded by the weights at the bins' edges. */
TB_DEV tb_bracket tb_bracket_bins(tb_room *room, const tb_bins &bins, uint32_t k, uint64_t target, bool exact)
{
    const tb_weigher weigher = room->source.weigher;
    uint32_t per = TB_SELECT_BINS / blockDim.x, begin = threadIdx.x * per;
    bool weigh = target != TB_NO_TARGET;
    auto mass = [&](uint32_t b, uint32_t n, bool high) -> uint64_t {
        if (exact) return (uint64_t)room->bin_high[b] << 32 | room->bin_low[b];
        return n * tb_weight(weigher, high ? tb_bin_high(bins, b) : tb_bin_low(bins, b));
    };
    uint32_t n = 0, all;
    uint64_t low = 0, high = 0, total;
#pragma unroll 1
    for (uint32_t b = begin; b < begin + per; b++) {
        uint32_t count = room->bin_count[b];
        n += count;
        if (!count || !weigh) continue;
        low += mass(b, count, false);
        high += mass(b, count, true);
    }
    n = tb_block_scan(&room->scratch, n, &all);
    if (weigh) {
        low = tb_block_scan64(&room->scratch, low, &total);
        high = tb_block_scan64(&room->scratch, high, &total);
    }
    /* the last bins with tokens that surely and that possibly hold a kept value; one more than their number
     */
    uint32_t sure = 0, possible = 0, sure_above = 0, possible_end = 0;
    uint64_t sure_mass = 0;
#pragma unroll 1
    for (uint32_t b = begin; b < begin + per; b++) {
        uint32_t count = room->bin_count[b];
        if (!count) continue;
        if (n < k && low < target) possible = b + 1, possible_end = n + count;
        if (n < k && high < target) sure = b + 1, sure_above = n, sure_mass = high;
        n += count;
        if (!weigh) continue;
        low += mass(b, count, false);
        high += mass(b, count, true);
    }
    tb_bracket bracket = {0, 0, 0, 0, 0};
    uint32_t first = tb_block_max(&room->scratch, sure), last = tb_block_max(&room->scratch, possible);
    if (!first) return bracket;
    if (sure == first) room->word[0] = sure_above, room->word[1] = sure_mass;
    if (possible == last) room->word[2] = possible_end;
    __syncthreads();
    bracket.first = first - 1;
    bracket.last = last - 1;
    bracket.above = (uint32_t)room->word[0];
    bracket.inside = (uint32_t)room->word[2] - bracket.above;
    bracket.mass_above = room->word[1];
    __syncthreads();
    return bracket;
}

/* The interval of keys of a bracket's bins. */
TB_DEV void tb_narrow(const tb_bins &bins, const tb_bracket &bracket, uint32_t *low, uint32_t *high)
{
    if (!bins.linear) {
        uint64_t down = ((uint64_t)(bracket.last + 1) << bins.shift) - 1;
        if (down < bins.top_key - bins.bottom_key) *low = bins.top_key - (uint32_t)down;
        *high = bins.top_key - (bracket.first << bins.shift);
        return;
    }
    *low = tb_least_key(bins.bottom_key, bins.top_key, [&](uint32_t key) {
        return tb_bin_linear(bins, law_key_value(key)) <= bracket.last;
    });
    if (bracket.first > 0)
        *high = tb_least_key(
                    bins.bottom_key, bins.top_key,
                    [&](uint32_t key) { return tb_bin_linear(bins, law_key_value(key)) < bracket.first; }) -
                1;
}

/* Least and greatest key of the tokens low <= place < high. */
TB_DEV void tb_range(tb_room *room, uint64_t low, uint64_t high, uint32_t *least_key, uint32_t *greatest_key)
{
    float least = law_key_value(tb_place_key(low));
    uint32_t smallest = ~0u, greatest = 0;
    tb_each_chunk<4>(
        room, tb_place_key(low),
        [&](const float(&x)[4], uint32_t first) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (!(x[j] >= least)) continue;
                uint32_t key = law_key(x[j]);
                uint64_t place = tb_place(key, first + j);
                if (place < low || place >= high) continue;
                smallest = smallest < key ? smallest : key;
                greatest = greatest > key ? greatest : key;
            }
        },
        [](uint32_t) {});
    uint64_t mine[2] = {tb_block_max(&room->scratch, ~smallest), tb_block_max(&room->scratch, greatest)},
             theirs[2];
    tb_team_tell(room->source.team, &room->scratch, mine, theirs);
    *least_key = ~tb_warp_max((uint32_t)theirs[0]);
    *greatest_key = tb_warp_max((uint32_t)theirs[1]);
}

#endif
