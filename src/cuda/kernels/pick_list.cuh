/*
 * A list of a row's greatest tokens, in the shared memory of each block of its team: the place of a token
 * number of the order, and the outputs that need nothing but the list. Every block finds the same; each
 * writes its share.
 */
#ifndef TB_CUDA_PICK_LIST_CUH
#define TB_CUDA_PICK_LIST_CUH

#include "fast_shared.cuh"
#include "whole_bins.cuh"

#define TB_PICK_LIST 4096 /* tokens */
#define TB_PICK_SAMPLERS 256
#define TB_PICK_BINS 1024
#define TB_PICK_CROWD 256 /* tokens of a bin that are ranked by comparing each with each */
/* Tokens of a list that one warp cuts; a block has so many threads or more. */
#define TB_PICK_FEW 256

typedef struct tb_pick_shared {
    uint64_t place[TB_PICK_LIST]; /* in index order, each warp's part of it */
    union {
        uint16_t ref[TB_PICK_LIST]; /* of listed tokens, bin by bin */
        uint64_t mass[TB_PICK_BINS];
        uint64_t few[TB_PICK_FEW]; /* all of a short list, in no order */
    };
    union {
        uint32_t bin[TB_PICK_BINS];
        uint32_t sample[TB_PICK_SAMPLERS]; /* keys of the greatest of each one's part of the sample */
    };
    uint32_t count[32], flags[32];     /* of warps */
    uint32_t listed, greatest, status; /* of all: tokens, a key, status bits and TB_PICK_FULL */
    uint32_t kind, wanted, k;          /* tb_pick_kind; tokens of the list; of the set, 0: more decides it */
    uint64_t word[4], least[32];       /* one thread to all, warps to all */
    const char *data;                  /* the row */
    uint64_t told;                     /* an mbarrier: the first bound is there */
    char *fill;                        /* a row of output that is filled before what is kept is */
    uint32_t fill_bytes, fill_word,
        fill_length; /* known, or NULL; bytes of an element, what with, elements, */
    uint32_t filled; /* and how many pieces of it are, or are being, filled */
    tb_whole_chain chain;
    tb_scratch scratch;
} tb_pick_shared;

static_assert(sizeof(tb_pick_shared) <= TB_PICK_LIST_BYTES && TB_PICK_LIST_BYTES <= TB_PICK_BYTES,
              "plan_whole.c");

/* What each thread knows of a row and its list. */
typedef struct tb_pick_row {
    tb_pick_shared *s;
    tb_team team;
    uint32_t bound, greatest;     /* keys: all tokens from `bound` on are listed */
    uint32_t listed, first, mine; /* tokens; where this warp's begin, and their number */
    uint32_t before;              /* tokens of the warps before it */
    bool by_index;
    tb_weigher weigher;
} tb_pick_row;

/* Appends what reaches the bound of a warp's vectors, of which the lane's begins with element `first`, to a
 * segment with n tokens, in index order; what finds no room is counted all the same. */
template <class R>
TB_DEV void tb_pick_append(const uint4 &v, uint32_t first, float bound, uint64_t *segment, uint32_t room,
                           uint32_t *n)
{
    const uint32_t lower = (1u << tb_lane()) - 1;
    uint32_t members = 0;
#pragma unroll
    for (int e = 0; e < R::width; e++) members |= (uint32_t)(tb_whole_element<R>(v, e) >= bound) << e;
    const uint32_t lanes = __ballot_sync(TB_WHOLE_WARP, members);
    if (!lanes) return;
    if (!__any_sync(TB_WHOLE_WARP, members & (members - 1))) { /* at most one of each lane, as mostly */
        const uint32_t at = *n + (uint32_t)__popc(lanes & lower);
        *n += (uint32_t)__popc(lanes);
        if (!members || at >= room) return;
        float x = tb_whole_element<R>(v, 0);
#pragma unroll
        for (int e = 1; e < R::width; e++)
            if (members >> e & 1) x = tb_whole_element<R>(v, e);
        segment[at] = tb_place(law_key(x), first + (uint32_t)__ffs((int)members) - 1);
        return;
    }
    /* members of the lanes below: their numbers, bit by bit */
    uint32_t number = (uint32_t)__popc(members), at = *n;
#pragma unroll
    for (int b = 0; 1 << b <= R::width; b++) {
        uint32_t bit = __ballot_sync(TB_WHOLE_WARP, number >> b & 1);
        at += (uint32_t)__popc(bit & lower) << b;
        *n += (uint32_t)__popc(bit) << b;
    }
#pragma unroll
    for (int e = 0; e < R::width; e++) {
        if (!(members >> e & 1)) continue;
        if (at < room) segment[at] = tb_place(law_key(tb_whole_element<R>(v, e)), first + e);
        at++;
    }
}

/* ---- order ---- */

/* Calls visit(place, its number in the list) for the tokens of this warp's segment, a lane at a time. */
template <class Visit> TB_DEV void tb_pick_each(const tb_pick_row &p, Visit visit)
{
    for (uint32_t i = p.first + tb_lane(); i < p.first + p.mine; i += 32) visit(p.s->place[i], i);
}

TB_DEV uint32_t tb_pick_bin(const tb_whole_bins &bins, uint64_t place)
{
    return tb_whole_bin<TB_PICK_BINS>(bins, law_key_value(tb_place_key(place)));
}

TB_DEV bool tb_pick_within(const tb_whole_bins &bins, uint64_t place)
{
    return tb_place_key(place) >= bins.low && tb_place_key(place) <= bins.high;
}

/* Counts the listed tokens of an interval of keys in bins, of equal intervals of values or of keys; s->bin
 * then holds how many are in the bins before each. Of the bin that holds token number `number` (from 0), if
 * it is in the interval, its number, tokens and those before it are in s->word[0] to [2]; the greatest bin's
 * size up to there in *crowd. */
TB_DEV tb_whole_bins tb_pick_fill(tb_pick_row &p, uint32_t low, uint32_t high, bool linear, uint32_t number,
                                  uint32_t *crowd)
{
    constexpr int EACH = 4; /* bins of each of the first threads */
    tb_pick_shared *s = p.s;
    const tb_whole_bins bins = tb_whole_make_bins<TB_PICK_BINS>(low, high, linear);
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < TB_PICK_BINS; b += blockDim.x) s->bin[b] = 0;
    __syncthreads();
    tb_pick_each(p, [&](uint64_t place, uint32_t) {
        if (tb_pick_within(bins, place)) atomicAdd(&s->bin[tb_pick_bin(bins, place)], 1u);
    });
    __syncthreads();
    const bool there = threadIdx.x < TB_PICK_BINS / EACH;
    uint4 n = there ? *(const uint4 *)&s->bin[threadIdx.x * EACH] : make_uint4(0, 0, 0, 0);
    uint32_t all, before = tb_block_scan(&s->scratch, n.x + n.y + n.z + n.w, &all), most = 0;
    uint32_t each[EACH] = {n.x, n.y, n.z, n.w};
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        uint32_t here = each[i];
        if (here && before <= number) most = here > most ? here : most;
        if (here && before <= number && number < before + here) {
            s->word[0] = threadIdx.x * EACH + i;
            s->word[1] = here;
            s->word[2] = before;
        }
        each[i] = before;
        before += here;
    }
    if (there) *(uint4 *)&s->bin[threadIdx.x * EACH] = make_uint4(each[0], each[1], each[2], each[3]);
    *crowd = tb_block_max(&s->scratch, most); /* and a barrier */
    return bins;
}

/* Refers to the tokens of bins [first, last], bin by bin; s->bin[b] then is where bin b ends. */
TB_DEV void tb_pick_refer(tb_pick_row &p, const tb_whole_bins &bins, uint32_t first, uint32_t last)
{
    tb_pick_shared *s = p.s;
    tb_pick_each(p, [&](uint64_t place, uint32_t i) {
        if (!tb_pick_within(bins, place)) return;
        uint32_t b = tb_pick_bin(bins, place);
        if (b >= first && b <= last) s->ref[atomicAdd(&s->bin[b], 1u)] = (uint16_t)i;
    });
    __syncthreads();
}

/* Of the tokens of a bin, which are referred to in [begin, end), how many are greater than one. */
TB_DEV uint32_t tb_pick_greater(const tb_pick_shared *s, uint64_t place, uint32_t begin, uint32_t end)
{
    uint32_t n = 0;
    for (uint32_t i = begin; i < end; i++) n += s->place[s->ref[i]] > place;
    return n;
}

/* The place of token number `number` (from 0) of those of one key, which are listed in index order. */
TB_CALL uint64_t tb_pick_equal(const tb_pick_row &p, uint32_t key, uint32_t number)
{
    tb_pick_shared *s = p.s;
    uint32_t n = 0;
    tb_pick_each(p, [&](uint64_t place, uint32_t) { n += tb_place_key(place) == key; });
    n = tb_warp_sum(n);
    __syncthreads();
    if (tb_lane() == 0) s->flags[tb_warp()] = n;
    __syncthreads();
    uint32_t before = tb_warp_sum(tb_lane() < tb_warp() ? s->flags[tb_lane()] : 0);
    if (before <= number && number - before < n) {
        for (uint32_t i = 0; i < p.mine; i += 32) { /* whole warps */
            uint64_t place = i + tb_lane() < p.mine ? s->place[p.first + i + tb_lane()] : 0;
            uint32_t equal = __ballot_sync(TB_WHOLE_WARP, tb_place_key(place) == key),
                     lower = equal & ((1u << tb_lane()) - 1);
            if ((equal >> tb_lane() & 1) && before + (uint32_t)__popc(lower) == number) s->word[3] = place;
            before += (uint32_t)__popc(equal);
        }
    }
    __syncthreads();
    return s->word[3];
}

/* The place of listed token number `number` of the order (from 0). */
TB_CALL uint64_t tb_pick_find(tb_pick_row &p, uint32_t number)
{
    tb_pick_shared *s = p.s;
    uint32_t low = p.bound, high = p.greatest, above = 0, crowd;
    bool linear = !p.weigher.probabilities; /* logits are near to one another, and may lie about 0 */
#pragma unroll 1
    for (;;) {
        const tb_whole_bins bins = tb_pick_fill(p, low, high, linear, number - above, &crowd);
        const uint32_t b = (uint32_t)s->word[0], inside = (uint32_t)s->word[1], begin = (uint32_t)s->word[2];
        if (inside <= TB_PICK_CROWD) {
            tb_pick_refer(p, bins, b, b);
            if (threadIdx.x < inside) {
                uint64_t place = s->place[s->ref[begin + threadIdx.x]];
                if (above + begin + tb_pick_greater(s, place, begin, begin + inside) == number)
                    s->word[3] = place;
            }
            __syncthreads();
            return s->word[3];
        }
        above += begin;
        tb_whole_narrow<TB_PICK_BINS>(bins, b, &low, &high);
        linear = false;
        if (low == high) break;
    }
    return tb_pick_equal(p, low, number - above);
}

/* ---- filling ---- */

/* Fills pieces of s->fill until all are taken; with `until_told`, or until the first bound is there. */
TB_CALL void tb_pick_fill_pieces(tb_pick_shared *s, bool until_told)
{
    constexpr uint32_t EACH = 8; /* stores of a lane in a piece: few, so that it soon sees that it is told */
    const uint32_t bytes = s->fill_bytes, length = s->fill_length, word = s->fill_word, per = 16 / bytes;
    char *row = s->fill;
    uint32_t head = ((uint32_t)(0 - (uintptr_t)row) & 15u) / bytes;
    if (head > length) head = length;
    const uint32_t vectors = (length - head) / per, pieces = (vectors + 32 * EACH - 1) / (32 * EACH);
    const uint4 v = make_uint4(word, word, word, word);
    char *inner = row + head * bytes;
#pragma unroll 1
    for (;;) {
        uint32_t piece = tb_lane() == 0 ? atomicAdd(&s->filled, 1u) : 0;
        piece = __shfl_sync(TB_WHOLE_WARP, piece, 0);
        if (piece > pieces) return;
        if (piece == pieces) { /* the ends */
            const uint32_t tail = head + vectors * per;
#pragma unroll 1
            for (uint32_t i = tb_lane(); i < head + (length - tail); i += 32)
                tb_set_element(row, i < head ? i : tail + i - head, word, bytes);
            return;
        }
        const uint32_t first = piece * (32 * EACH) + tb_lane();
        char *to = inner + (size_t)first * 16;
        if ((piece + 1) * (32 * EACH) <= vectors) {
#pragma unroll
            for (uint32_t j = 0; j < EACH; j++) tb_store16(to + j * 512, v);
        } else {
            for (uint32_t i = first; i < vectors; i += 32, to += 512) tb_store16(to, v);
        }
        if (until_told && tb_told_yet(&s->told)) return;
    }
}

/* The last listed token with less than `target` mass in greater ones (TIES_ALL: in greater values), which the
 * list has: the floor that keeps it. */
TB_CALL uint64_t tb_pick_cut(tb_pick_row &p, uint64_t target)
{
    constexpr int EACH = 4;
    tb_pick_shared *s = p.s;
    uint32_t low = p.bound, high = p.greatest, above = 0;
    uint64_t mass_above = 0;
    bool linear = !p.weigher.probabilities;
#pragma unroll 1
    for (;;) {
        const tb_whole_bins bins = tb_whole_make_bins<TB_PICK_BINS>(low, high, linear);
        __syncthreads();
        for (uint32_t b = threadIdx.x; b < TB_PICK_BINS; b += blockDim.x) s->bin[b] = 0, s->mass[b] = 0;
        __syncthreads();
        tb_pick_each(p, [&](uint64_t place, uint32_t) {
            if (!tb_pick_within(bins, place)) return;
            const uint32_t b = tb_pick_bin(bins, place);
            atomicAdd(&s->bin[b], 1u);
            atomicAdd((unsigned long long *)&s->mass[b],
                      (unsigned long long)tb_weight(p.weigher, law_key_value(tb_place_key(place))));
        });
        __syncthreads();
        const bool there = threadIdx.x < TB_PICK_BINS / EACH;
        uint32_t n[EACH], sum_n = 0, all, best = 0;
        uint64_t m[EACH], sum_m = 0, all_m;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            n[i] = there ? s->bin[threadIdx.x * EACH + i] : 0;
            m[i] = there ? s->mass[threadIdx.x * EACH + i] : 0;
            sum_n += n[i];
            sum_m += m[i];
        }
        uint32_t before = tb_block_scan(&s->scratch, sum_n, &all), best_n = 0, best_before = 0;
        uint64_t before_m = mass_above + tb_block_scan64(&s->scratch, sum_m, &all_m), best_m = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            if (n[i] && before_m < target) {
                best = threadIdx.x * EACH + i + 1;
                best_n = n[i];
                best_before = before;
                best_m = before_m;
            }
            if (there) s->bin[threadIdx.x * EACH + i] = before;
            before += n[i];
            before_m += m[i];
        }
        const uint32_t last = tb_block_max(&s->scratch, best);
        if (best == last) {
            s->word[0] = best_n;
            s->word[1] = best_before;
            s->word[2] = best_m;
        }
        __syncthreads();
        const uint32_t b = last - 1, inside = (uint32_t)s->word[0], begin = (uint32_t)s->word[1];
        mass_above = s->word[2];
        if (inside <= TB_PICK_CROWD) {
            tb_pick_refer(p, bins, b, b);
            uint64_t floor = 0;
            if (threadIdx.x < inside) {
                uint64_t place = s->place[s->ref[begin + threadIdx.x]], mass = mass_above,
                         own = p.by_index ? place : tb_floor_of_key(tb_place_key(place)),
                         least = p.by_index ? place : tb_floor_of_key(tb_place_key(place) + 1) - 1;
                for (uint32_t i = begin; i < begin + inside; i++) {
                    uint64_t other = s->place[s->ref[i]];
                    if (other > least) mass += tb_weight(p.weigher, law_key_value(tb_place_key(other)));
                }
                if (mass < target) floor = ~own;
            }
            floor = tb_warp_max64(floor);
            if (tb_lane() == 0) s->least[tb_warp()] = floor;
            __syncthreads();
            return ~tb_warp_max64(tb_lane() < blockDim.x / 32 ? s->least[tb_lane()] : 0);
        }
        above += begin;
        tb_whole_narrow<TB_PICK_BINS>(bins, b, &low, &high);
        linear = false;
        if (low < high) continue;
        if (!p.by_index) return tb_floor_of_key(low);
        const uint64_t w = tb_weight(p.weigher, law_key_value(low));
        uint32_t stay = inside;
        if (w && (target - mass_above + w - 1) / w < stay)
            stay = (uint32_t)((target - mass_above + w - 1) / w);
        return tb_pick_equal(p, low, stay - 1);
    }
}

/* ---- outputs ---- */

/* The team's threads, which share what is written. */
TB_DEV uint32_t tb_pick_thread(const tb_pick_row &p)
{
    return p.team.rank * blockDim.x + threadIdx.x;
}

TB_DEV uint32_t tb_pick_threads(const tb_pick_row &p)
{
    return p.team.size * blockDim.x;
}

/* Kept ids in order. */
TB_DEV void tb_pick_write_ids(const tb_pick_row &p, int32_t *ids, int64_t capacity, uint64_t floor)
{
    tb_pick_shared *s = p.s;
    uint32_t n = 0;
    tb_pick_each(p, [&](uint64_t place, uint32_t) { n += place >= floor; });
    n = tb_warp_sum(n);
    __syncthreads();
    if (tb_lane() == 0) s->flags[tb_warp()] = n;
    __syncthreads();
    n = tb_lane() < blockDim.x / 32 ? s->flags[tb_lane()] : 0;
    int64_t at = tb_warp_sum(tb_lane() < tb_warp() ? n : 0), all = tb_warp_sum(n);
    uint32_t turn = tb_warp() % p.team.size; /* blocks take turns at writing 32 tokens */
    for (uint32_t i = 0; i < p.mine; i += 32, turn = turn + 1 == p.team.size ? 0 : turn + 1) {
        uint64_t place = i + tb_lane() < p.mine ? s->place[p.first + i + tb_lane()] : 0;
        uint32_t kept = __ballot_sync(TB_WHOLE_WARP, place >= floor && place);
        int64_t to = at + __popc(kept & ((1u << tb_lane()) - 1));
        if (turn == p.team.rank && (kept >> tb_lane() & 1) && to < capacity)
            ids[to] = (int32_t)tb_place_index(place);
        at += __popc(kept);
    }
#pragma unroll 1
    for (int64_t i = all + tb_pick_thread(p); i < capacity; i += tb_pick_threads(p)) ids[i] = -1;
}

/* Closes the gaps between the warps' parts of the list. */
TB_CALL void tb_pick_close_up(const tb_pick_row &p)
{
    tb_pick_shared *s = p.s;
    __syncthreads();
    if (tb_lane() == 0) s->count[tb_warp()] = p.mine;
    __syncthreads();
    const uint32_t before = tb_warp_sum(tb_lane() < tb_warp() ? s->count[tb_lane()] : 0);
    /* by the warps in turn: nothing is moved to where one has not read yet */
    for (uint32_t w = 0; w < blockDim.x / 32; w++) {
        for (uint32_t i = 0; w == tb_warp() && i < p.mine; i += 32) {
            uint64_t place = i + tb_lane() < p.mine ? s->place[p.first + i + tb_lane()] : 0;
            __syncwarp();
            if (i + tb_lane() < p.mine) s->place[before + i + tb_lane()] = place;
            __syncwarp();
        }
        __syncthreads();
    }
}

/* The greatest tokens, of `kept` that stay. The list is in another order afterwards. */
TB_DEV void tb_pick_write_top(tb_pick_row &p, const tombola_call &call, int64_t index, uint32_t kept,
                              uint64_t mass)
{
    tb_pick_shared *s = p.s;
    int32_t *ids = call.top_ids ? call.top_ids + index * call.top_count : NULL;
    float *logprobs = call.top_logprobs ? call.top_logprobs + index * call.top_count : NULL;
    const uint32_t n = kept < (uint32_t)call.top_count ? kept : (uint32_t)call.top_count;
    auto put = [&](uint32_t at, uint64_t place) {
        if (ids) ids[at] = (int32_t)tb_place_index(place);
        if (logprobs) logprobs[at] = tb_logprob(p.weigher, law_key_value(tb_place_key(place)), mass);
    };
    uint32_t crowd = TB_PICK_LIST;
    bool linear = !p.weigher.probabilities, equal = p.bound == p.greatest;
    tb_whole_bins bins;
    for (int way = 0; way < 2 && crowd > TB_PICK_CROWD && !equal; way++, linear = !linear)
        bins = tb_pick_fill(p, p.bound, p.greatest, linear, n - 1, &crowd);
    const uint32_t last = (uint32_t)s->word[0];
    if (crowd <= TB_PICK_CROWD) {
        tb_pick_refer(p, bins, 0, last);
        /* The order within a bin is each block's own, so bins are shared out: those that begin in the block's
         * part of the tokens. */
        const uint32_t end = s->bin[last], share = (end + p.team.size - 1) / p.team.size,
                       from = share * p.team.rank, to = from + share;
        for (uint32_t i = from + threadIdx.x; i < end && i < to + TB_PICK_CROWD; i += blockDim.x) {
            uint64_t place = s->place[s->ref[i]];
            uint32_t b = tb_pick_bin(bins, place), begin = b ? s->bin[b - 1] : 0;
            if (begin < from || begin >= to) continue;
            uint32_t at = begin + tb_pick_greater(s, place, begin, s->bin[b]);
            if (at < n) put(at, place);
        }
    } else {
        tb_pick_close_up(p);
        if (!equal) tb_sort_shared(s->place, p.listed, true); /* equal ones are in order */
        for (uint32_t i = tb_pick_thread(p); i < n; i += tb_pick_threads(p)) put(i, s->place[i]);
    }
#pragma unroll 1
    for (uint32_t i = n + tb_pick_thread(p); i < (uint32_t)call.top_count; i += tb_pick_threads(p)) {
        if (ids) ids[i] = -1;
        if (logprobs) logprobs[i] = -LAW_INF;
    }
}

/* All outputs from the list, which has what the chain
 * keeps (a `total_high` other than 0: between it and total_low is the mass that top_p is a fraction of). A
 * block writes elements [begin, end) of what is as long as the row. False, with nothing written, where the
 * mass is not known well enough. */
TB_CALL bool tb_pick_write(tb_pick_row &p, const tombola_call &call, const tb_whole_chain &chain,
                           uint64_t total_low, uint64_t total_high, int64_t index, int64_t start,
                           uint32_t status, uint32_t begin, uint32_t end)
{
    tb_pick_shared *s = p.s;
    const uint32_t bytes = tb_bytes(call.dtype);
    p.by_index = call.ties == TOMBOLA_TIES_INDEX;
    p.weigher = tb_make_weigher(call.kind == TOMBOLA_PROBABILITIES, law_key_value(p.greatest));
    const bool greedy = chain.temperature != 1.0f && !tb_set_temperature(&p.weigher, chain.temperature);
    if (greedy) p.by_index = true;
    uint64_t floor = 0, mass = 0;
    uint32_t kept = p.listed;
    auto keep = [&](uint32_t k) {
        if (k >= p.listed) return;
        uint64_t place = tb_pick_find(p, k - 1);
        if (!p.by_index) place = tb_floor_of_key(tb_place_key(place));
        if (place > floor) floor = place;
    };
    auto measure = [&]() {
        kept = 0;
        mass = 0;
        tb_pick_each(p, [&](uint64_t place, uint32_t) {
            if (place < floor) return;
            kept++;
            mass += tb_weight(p.weigher, law_key_value(tb_place_key(place)));
        });
        tb_block_sums(&s->scratch, &mass, &kept);
    };
    const bool top_p = chain.p < 1.0f && !greedy,
               top = call.top_count > 0 && (call.top_ids || call.top_logprobs);
    const uint32_t k = top_p || chain.k_before < chain.k_after ? chain.k_before : chain.k_after;
    const bool weigh = call.kept_mass || call.probabilities || call.top_logprobs;
    bool measured = false;
    keep(greedy ? 1 : k);
    if (top_p) {
        if (!total_high) {
            measure();
            total_low = total_high = mass;
        }
        const uint64_t least = law_top_p_target(chain.p, total_low),
                       most = law_top_p_target(chain.p, total_high);
        uint64_t place = tb_pick_cut(p, least);
        if (place > floor) floor = place;
        if (most > least) { /* what is kept of less has the mass that is wanted of more, too */
            measure();
            if (mass < most) return false;
            measured = true;
        }
        if (chain.k_after < k) keep(chain.k_after), measured = false;
    }
    if (!measured && (weigh || (floor && (call.kept_count || top)))) measure();
    if (threadIdx.x == 0 && p.team.rank == 0) {
        if (call.status) call.status[index] = status;
        if (call.kept_count) call.kept_count[index] = (int32_t)kept;
        if (call.kept_mass) call.kept_mass[index] = mass;
    }
    if (call.kept_ids && call.kept_capacity > 0)
        tb_pick_write_ids(p, call.kept_ids + index * call.kept_capacity, call.kept_capacity, floor);
    char *masked = call.masked_logits ? tb_masked_row(call, index, start) : NULL;
    float *out = call.probabilities ? call.probabilities + index * call.probabilities_stride : NULL;
    if (s->fill) tb_pick_fill_pieces(s, false);
    if (masked && masked != s->fill) tb_flood(masked, bytes, begin, end, tb_masked_word(call.dtype));
    if (out && (char *)out != s->fill) tb_flood((char *)out, 4, begin, end, 0);
    if (masked || out) {
        const char *data = (const char *)call.data + (size_t)start * bytes;
        const float scale = tb_renorm_scale(p.weigher, mass);
        __syncthreads();
        tb_pick_each(p, [&](uint64_t place, uint32_t) {
            uint32_t i = tb_place_index(place);
            if (place < floor || i < begin || i >= end) return;
            if (masked) tb_copy_element(masked, i, data, i, bytes);
            if (out)
                out[i] = tb_renormalised(p.weigher.probabilities,
                                         tb_ratio(p.weigher, law_key_value(tb_place_key(place))), scale);
        });
    }
    if (top) tb_pick_write_top(p, call, index, kept, mass);
    return true;
}

#endif
