/*
 * Where a row that lies in the shared memory of its team is cut: the last token with fewer than k greater
 * ones and less than `target` mass in them, found exactly.
 *
 * An interval of values that holds the cut is narrowed by histograms. Bins hold the exact counts, and where
 * there is a target the exact masses, of their tokens, so one bin is left each time; no bound on masses, no
 * second look at what lies above. The interval begins where it is known, or only likely, that the cut does
 * not lie below: only tokens in it are counted, which mostly are few. Is the guess wrong, then the rest of
 * the row is what is left, and all that was counted is above it. At last the bin's few tokens are listed and
 * each is ranked against all.
 */
#ifndef TB_CUDA_WHOLE_SELECT_CUH
#define TB_CUDA_WHOLE_SELECT_CUH

#include "whole_bins.cuh"

/* ---- lists ---- */

/* Lists the tokens of the interval (of one of its bins, if bin >= 0) above the floor, and their weights.
 * Returns their number; no list if it is more than TB_WHOLE_LIST. */
template <class R>
TB_DEV uint32_t tb_whole_gather(R &r, const tb_whole_bins &bins, int bin, const tb_cut &cut)
{
    tb_whole_shared *s = r.s;
    const tb_weigher w = r.weigher;
    const tb_team team = r.team;
    uint64_t *own = team.size == 1 ? s->list : s->own;
    tb_whole_reclaim(r);
    if (threadIdx.x == 0) s->cursor = s->few = 0;
    __syncthreads();
    bool full = false;
#pragma unroll 2
    for (uint32_t j = 0, loads = tb_whole_loads(r.part); j < loads; j++) {
        uint32_t vector = r.part.first + j * 32 + tb_lane();
        if (vector >= r.part.end) break;
        const uint4 v = r.keep[j * TB_WHOLE_THREADS + threadIdx.x];
        if (!tb_whole_reaches<R>(v, bins.least) || full) continue;
#pragma unroll 1
        for (int e = 0; e < R::width; e++) {
            float x = tb_whole_element<R>(v, e);
            uint32_t index = tb_whole_index(r, vector) + e;
            if (!(x >= bins.least && x <= bins.top)) continue;
            if (bin >= 0 && tb_whole_bin(bins, x) != (uint32_t)bin) continue;
            if (cut.partial && !tb_in_cut(cut, x, index)) continue;
            uint32_t at = atomicAdd(&s->cursor, 1u);
            if (at < TB_WHOLE_LIST)
                own[at] = tb_place(law_key(x), index);
            else
                full = true;
        }
    }
    tb_team_barrier(team);
    uint32_t mine = tb_lane() < team.size ? *tb_team_at(team, &s->cursor, tb_lane()) : 0;
    uint32_t end = tb_warp_scan(mine), total = tb_warp_sum(mine);
    r.pulled = team.size > 1;
    if (total > TB_WHOLE_LIST) return total;
    /* each warp takes over the tokens of some blocks */
    for (uint32_t from = tb_warp(); from < team.size; from += TB_WHOLE_WARPS) {
        uint32_t n = __shfl_sync(TB_WHOLE_WARP, mine, from),
                 start = __shfl_sync(TB_WHOLE_WARP, end, from) - n;
        const uint64_t *theirs = tb_team_at(team, own, from);
#pragma unroll 1
        for (uint32_t i = tb_lane(); i < n; i += 32) {
            uint64_t place = theirs[i];
            s->list[start + i] = place;
            s->weight[start + i] = tb_weight(w, law_key_value(tb_place_key(place)));
        }
    }
    __syncthreads();
    return total;
}

/* ---- few tokens: lists that come by mail ---- */

/* Makes this warp's part of an output row what tokens that are not kept get: 0, or -inf in the row's dtype.
 */
template <class R> TB_DEV void tb_whole_fill_part(const R &r, char *row, uint32_t bytes)
{
    const tb_whole_part &p = r.part;
    const uint32_t word = r.s->fill_word;
    uint32_t begin = p.first * R::width, end = p.end * R::width;
    begin = begin > p.shift ? begin - p.shift : 0;
    end = end > p.shift ? end - p.shift : 0;
    if (end > p.length) end = p.length;
    if (begin >= end) return;
    char *to = row + (size_t)begin * bytes;
    const uint32_t length = end - begin, per = 16 / bytes;
    uint32_t head = ((uint32_t)(0 - (uintptr_t)to) & 15u) / bytes;
    if (head > length) head = length;
    const uint32_t vectors = (length - head) / per, tail = head + vectors * per;
    for (uint32_t i = tb_lane(); i < vectors; i += 32)
        tb_store16(to + head * bytes + (size_t)i * 16, make_uint4(word, word, word, word));
#pragma unroll 1
    for (uint32_t i = tb_lane(); i < head + (length - tail); i += 32)
        tb_set_element(to, i < head ? i : tail + i - head, word, bytes);
}

/* Under a top_p so many of the 128 parts of the row are to reach the bound: some 150 tokens do. */
#define TB_WHOLE_LIKELY 88

/* Whether a row is for such a list: there is one, or few tokens are wanted, or the groups' greatest ones,
 * which are more than will be listed, hold nearly the mass that a top_p wants. */
template <class R> TB_DEV bool tb_whole_has_few(const R &r, uint32_t k, uint32_t least, uint64_t target)
{
    if (R::TOP || r.team.size < 4) return false;
    if (r.mailed) return r.s->few > 0;
    if (k <= TB_WHOLE_FOLDS / 2) return true;
    if (target == TB_NO_TARGET) return false;
    const uint32_t *key = (const uint32_t *)r.group;
    uint64_t mass = 0;
    for (uint32_t i = threadIdx.x; i < r.team.size * TB_WHOLE_GROUPS; i += TB_WHOLE_THREADS)
        if (key[i] >= least) mass += tb_weight(r.weigher, law_key_value(key[i]));
    return tb_block_sum64(&r.s->scratch, mass) >= target - target / 8;
}

/* Lists the block's tokens from a value on, in s->few_own. Returns their number. */
template <class R> TB_DEV uint32_t tb_whole_list_few(R &r, float least)
{
    constexpr uint32_t U = 8;
    tb_whole_shared *s = r.s;
    const uint32_t mine = r.part.end - r.part.first; /* vectors of the warp */
    const uint4 *at = r.keep + threadIdx.x;
#pragma unroll 1
    for (uint32_t j0 = 0; j0 * 32 < mine; j0 += U, at += U * TB_WHOLE_THREADS) {
        uint32_t hits = 0;
#pragma unroll
        for (uint32_t j = 0; j < U; j++)
            if ((j0 + j) * 32 + tb_lane() < mine)
                hits |= (uint32_t)tb_whole_reaches<R>(at[j * TB_WHOLE_THREADS], least) << j;
#pragma unroll 1
        for (; hits; hits &= hits - 1) {
            const uint32_t j = (uint32_t)__ffs((int)hits) - 1;
            const uint4 v = at[j * TB_WHOLE_THREADS];
            const uint32_t first = tb_whole_index(r, r.part.first + (j0 + j) * 32 + tb_lane());
#pragma unroll 1
            for (int e = 0; e < R::width; e++) {
                const float x = tb_whole_element<R>(v, e);
                if (!(x >= least)) continue;
                const uint32_t to = atomicAdd(&s->cursor, 1u);
                if (to < TB_WHOLE_LIST) s->few_own[to] = tb_place(law_key(x), first + e);
            }
        }
    }
    __syncthreads();
    return s->cursor;
}

/* Sends the n tokens that this block has listed to all blocks, and takes theirs over, in s->few_own. Returns
 * the number of all, and sets s->few; 0 where a block has no room for them. */
template <class R> TB_DEV uint32_t tb_whole_mail_few(R &r, uint32_t n)
{
    tb_whole_shared *s = r.s;
    const uint32_t size = r.team.size, room = 2 * TB_WHOLE_LIST / size, sent = n < room ? n : room;
    for (uint32_t to = tb_warp(); to < size; to += TB_WHOLE_WARPS) {
        if (tb_lane() == 0) {
            tb_mail_expect_at(&s->list_box, (int)to, sent * 8 + 4);
            tb_mail_4(&s->listed_by[r.team.rank], (int)to, n, &s->list_box);
        }
#pragma unroll 1
        for (uint32_t i = tb_lane(); i < sent; i += 32) {
            const uint64_t place = s->few_own[i];
            tb_mail_8(&s->slot[r.team.rank * room + i], (int)to, (uint32_t)place, (uint32_t)(place >> 32),
                      &s->list_box);
        }
    }
    if (s->fill) tb_whole_fill_part(r, s->fill, s->fill_bytes); /* while the lists are under way */
    tb_mail_await(&s->list_box);
    __syncthreads(); /* all have sent theirs */
    const uint32_t count = tb_lane() < size ? s->listed_by[tb_lane()] : 0, end = tb_warp_scan(count),
                   all = __shfl_sync(TB_WHOLE_WARP, end, 31);
    if (tb_warp_max(count) > room || all > TB_WHOLE_LIST) return 0;
    for (uint32_t i = threadIdx.x; i < 2 * TB_WHOLE_LIST; i += TB_WHOLE_THREADS) {
        const uint32_t from = i / room, number = i % room, its = __shfl_sync(TB_WHOLE_WARP, count, (int)from),
                       start = __shfl_sync(TB_WHOLE_WARP, end, (int)from) - its;
        if (number < its) s->few_own[start + number] = s->slot[i];
    }
    if (threadIdx.x == 0) s->few = all;
    __syncthreads();
    return all;
}

/* Those of the row's tokens with fewer than k greater ones and less than `target` mass in them, if those from
 * a bound on are few; with `weigh` their mass, too. `ok` is false where they are not, or there are not enough
 * of them; nothing has changed then but the block's lists. */
typedef struct tb_whole_few {
    uint64_t floor, mass;
    uint32_t count;
    bool ok;
} tb_whole_few;

template <class R>
TB_CALL tb_whole_few tb_whole_cut_few(R r, bool by_index, uint32_t k, uint64_t target, uint32_t bottom,
                                      bool weigh)
{
    tb_whole_shared *s = r.s;
    tb_whole_few few = {0, 0, 0, false};
    const bool by_mass = target != TB_NO_TARGET;
    uint32_t n = s->few; /* there may be a list, of the tokens that a top_k kept */
    if (!r.mailed) {
        const uint32_t wanted = by_mass && k > TB_WHOLE_LIKELY ? TB_WHOLE_LIKELY : k,
                       low = tb_whole_fold_bound(r, wanted, bottom);
        if (!low) return few;
        n = tb_whole_mail_few(r, tb_whole_list_few(r, law_key_value(low)));
    }
    if (!n || (!by_mass && n < k)) return few;
    /* each token by one lane, or where they are few by two or four, which share its comparisons */
    const uint32_t lanes = n <= TB_WHOLE_THREADS / 4   ? 4
                           : n <= TB_WHOLE_THREADS / 2 ? 2
                                                       : 1,
                   self = threadIdx.x / lanes;
    const uint64_t place = self < n ? s->few_own[self] : ~(uint64_t)0;
    uint64_t *cut = &s->scratch.team[0][0];
    uint32_t greater = 0;
    if (tb_warp() * 32 < n * lanes) {
#pragma unroll 4
        for (uint32_t j = threadIdx.x % lanes; j < n; j += lanes) greater += s->few_own[j] > place;
    }
    for (uint32_t d = 1; d < lanes; d *= 2) greater += __shfl_xor_sync(TB_WHOLE_WARP, greater, d);
    if (!by_mass) {
        if (self < n && greater == k - 1) *cut = place;
    } else { /* in order, for their running sums; where the tokens came by mail there is room */
        if (self < n && threadIdx.x % lanes == 0) {
            s->slot[greater] = tb_weight(r.weigher, law_key_value(tb_place_key(place)));
            s->slot[TB_WHOLE_LIST + greater] = place;
        }
        __syncthreads();
        const uint32_t i = threadIdx.x, stop = k < n ? k : n;
        const uint64_t mass = i < n ? s->slot[i] : 0;
        uint64_t all, before = tb_block_scan64(&s->scratch, mass, &all);
        if (all < target && n < k) return few;
        if (i < stop && before < target && !(i + 1 < stop && before + mass < target))
            *cut = s->slot[TB_WHOLE_LIST + i];
    }
    __syncthreads();
    few.ok = true;
    few.floor = by_index ? *cut : tb_floor_of_key(tb_place_key(*cut));
    if (!weigh) return few;
#pragma unroll 1
    for (uint32_t i = tb_lane(); i < n; i += 32) {
        const uint64_t its = s->few_own[i];
        if (its < few.floor) continue;
        few.count++;
        few.mass += tb_weight(r.weigher, law_key_value(tb_place_key(its)));
    }
    few.count = tb_warp_sum(few.count);
    few.mass = tb_warp_sum64(few.mass);
    return few;
}

/* Cuts a list of n tokens, `above` tokens of mass `mass_above` being greater than all of it: lowers *set to
 * the last token that stays. */
template <class R>
TB_DEV void tb_whole_cut_list(R &r, bool by_index, uint32_t n, uint32_t k, uint64_t target, uint32_t above,
                              uint64_t mass_above, bool mass_known, tb_whole_set *set)
{
    tb_whole_shared *s = r.s;
    /* each token by one lane, or where they are few by two or four, which share its comparisons */
    const uint32_t lanes = n <= TB_WHOLE_THREADS / 4 ? 4 : n <= TB_WHOLE_THREADS / 2 ? 2 : 1;
    const uint32_t self = threadIdx.x / lanes;
    uint64_t place = self < n ? s->list[self] : 0, mass = 0;
    uint64_t least = by_index ? place : tb_floor_of_key(tb_place_key(place) + 1) - 1;
    uint32_t greater = 0;
    const bool weigh = target != TB_NO_TARGET;
    if (tb_warp() * 32 < n * lanes) {
        if (weigh) {
#pragma unroll 4
            for (uint32_t j = threadIdx.x % lanes; j < n; j += lanes) {
                bool over = s->list[j] > least;
                greater += over;
                mass += over ? s->weight[j] : 0;
            }
        } else {
#pragma unroll 4
            for (uint32_t j = threadIdx.x % lanes; j < n; j += lanes) greater += s->list[j] > least;
        }
    }
    for (uint32_t d = 1; d < lanes; d *= 2) {
        greater += __shfl_xor_sync(TB_WHOLE_WARP, greater, d);
        mass += __shfl_xor_sync(TB_WHOLE_WARP, mass, d);
    }
    bool stays = self < n && threadIdx.x % lanes == 0 && above + greater < k && mass_above + mass < target;
    uint64_t floor = tb_warp_max64(stays ? ~(by_index ? place : tb_floor_of_key(tb_place_key(place))) : 0);
    uint64_t kept_mass = stays ? s->weight[self] : 0;
    uint32_t kept = stays;
    if (tb_lane() == 0) tb_whole_words(s)[tb_warp()] = floor;
    tb_block_sums(&s->scratch, &kept_mass, &kept);
    floor = tb_warp_max64(tb_lane() < TB_WHOLE_WARPS ? tb_whole_words(s)[tb_lane()] : 0);
    if (kept && ~floor > set->floor) set->floor = ~floor;
    set->count = above + kept;
    set->mass = mass_above + kept_mass;
    set->measured = mass_known;
}

/* The place of token number `number` (from 0) in index order among those of one key in the cut. There is
 * such a token. */
template <class R> TB_DEV uint64_t tb_whole_locate_tie(R &r, uint32_t key, const tb_cut &cut, uint32_t number)
{
    const float value = law_key_value(key);
    uint32_t n = 0;
    auto is = [&](float x, uint32_t index) {
        return x == value && (!cut.partial || tb_in_cut(cut, x, index));
    };
    tb_whole_each(r, [&](float(&x)[R::width], uint32_t vector, uint4 *, auto) {
#pragma unroll
        for (int e = 0; e < R::width; e++) n += is(x[e], tb_whole_index(r, vector) + e);
    });
    n = tb_warp_sum(n);
    const uint4 *all = tb_whole_exchange(r, make_uint4(n, 0, 0, 0));
    uint32_t self = r.team.rank * TB_WHOLE_WARPS + tb_warp(), before = 0, index = ~0u;
#pragma unroll 1
    for (uint32_t i = tb_lane(); i < self; i += 32) before += all[i].x;
    before = tb_warp_sum(before);
    if (before <= number && number - before < n) {
        uint32_t rest = number - before;
#pragma unroll 1
        for (uint32_t j = 0, loads = tb_whole_loads(r.part); j < loads; j++) { /* whole warps */
            uint32_t vector = r.part.first + j * 32 + tb_lane(), here = 0;
            bool there = vector < r.part.end;
            uint4 v = there ? r.keep[j * TB_WHOLE_THREADS + threadIdx.x] : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int e = 0; e < R::width; e++)
                here += there && is(tb_whole_element<R>(v, e), tb_whole_index(r, vector) + e);
            uint32_t inclusive = tb_warp_scan(here), whole = __shfl_sync(TB_WHOLE_WARP, inclusive, 31);
            if (rest >= whole) {
                rest -= whole;
                continue;
            }
            uint32_t prefix = inclusive - here, mine = ~0u;
#pragma unroll
            for (int e = 0; e < R::width; e++) {
                uint32_t i = tb_whole_index(r, vector) + e;
                bool member = there && is(tb_whole_element<R>(v, e), i);
                if (member && prefix == rest) mine = i;
                prefix += member;
            }
            index = tb_warp_min(mine);
            break;
        }
    }
    all = tb_whole_exchange(r, make_uint4(index, 0, 0, 0));
    index = ~0u;
#pragma unroll 1
    for (uint32_t i = tb_lane(); i < r.team.size * TB_WHOLE_WARPS; i += 32)
        index = index < all[i].x ? index : all[i].x;
    return tb_place(key, tb_warp_min(index));
}

/* Cuts a value that `inside` tokens have: with ties INDEX fewer than k of them, and those with less than
 * `target` mass before them, stay. Count and mass of those that do in *set. */
template <class R>
TB_DEV void tb_whole_cut_value(R &r, bool by_index, uint32_t key, uint32_t inside, uint32_t k,
                               uint64_t target, const tb_cut &cut, tb_whole_set *set)
{
    uint64_t w = tb_weight(r.weigher, law_key_value(key)), place = tb_floor_of_key(key);
    uint32_t stay = inside;
    if (by_index) {
        if (k < stay) stay = k;
        if (target != TB_NO_TARGET && w && (target + w - 1) / w < stay)
            stay = (uint32_t)((target + w - 1) / w);
        if (stay < inside) place = tb_whole_locate_tie(r, key, cut, stay - 1);
    }
    if (place > set->floor) set->floor = place;
    set->count = stay;
    set->mass = stay * w;
}

/* ---- the cut ---- */

/*
 * Keeps those tokens of *set with fewer than k greater ones and less than `target` mass in them (k, target >=
 * 1; TB_NO_COUNT and TB_NO_TARGET: no limit). With a target the set must be measured. `measure`: what stays
 * should be, if that is not for nothing.
 */
template <class R>
TB_DEV void tb_whole_select(R &r, bool by_index, uint32_t k, uint64_t target, bool measure, tb_whole_set *set)
{
    const bool weigh = target != TB_NO_TARGET;
    const uint32_t groups = r.team.size * TB_WHOLE_GROUPS, bottom = tb_place_key(set->floor);
    const tb_cut cut = tb_make_cut(set->floor);
    uint32_t low = bottom, high = r.greatest, above = 0;
    uint64_t mass_above = 0;
    bool sure = true, linear = !r.weigher.probabilities, list = false; /* sure: the cut is not below `low` */
    /* n tokens of weight at most w, with n * w <= mass - target, are none of the first `target` mass */
    auto bound_by_mass = [&]() {
        return weigh ? tb_whole_key_of_weight(r, bottom, (set->mass - target) / set->count + 1) : bottom;
    };
    if ((r.mailed || !cut.partial) && tb_whole_has_few(r, k, bottom, target)) {
        const tb_whole_few few = tb_whole_cut_few(r, by_index, k, target, bottom, measure);
        if (few.ok) {
            if (few.floor > set->floor) set->floor = few.floor;
            set->count = few.count;
            set->mass = few.mass;
            set->measured = measure;
            r.mailed = true;
            return;
        }
    }
    r.mailed = true; /* the lists' memory is needed now, and no list is there any more */
    if (threadIdx.x == 0) r.s->few = 0;
    if (k <= groups) {
        uint32_t bound = tb_whole_group_bound(r, k, bottom);
        if (bound > low) low = bound;
        list = bound && k <= groups / 2 && k <= TB_WHOLE_LIST / 2; /* perhaps a list at once */
    } else if (!weigh || tb_whole_peaked(r, bottom, set->mass)) {
        /* Few tokens hold much of the mass, or k is not large: nearly all groups reach a value that the
         * cut probably lies above. */
        uint32_t bound = tb_whole_group_bound(r, groups - groups / 32, bottom);
        if (!weigh && bound && k > 2 * groups) { /* lower: in proportion to the range down to there */
            float top = law_key_value(r.greatest), down = top - law_key_value(bound);
            float least = top - down * (k > 16 * groups ? 2.5f : k > 4 * groups ? 1.5f : 1.25f);
            bound = least > -LAW_INF && least < top ? law_key(least) : 0;
        }
        if (bound > low) low = bound, sure = false;
    }
    if (sure && k > groups) low = bound_by_mass();
    for (;;) {
        const tb_whole_bins bins = tb_whole_make_bins(low, high, linear);
        int bin = -1;
        if (!list) {
            tb_whole_fill(r, bins, cut, weigh);
            const tb_whole_found found =
                tb_whole_find(r, k - above, weigh ? target - mass_above : target, weigh);
            if (!found.reached) { /* all of the interval stays */
                above += found.all;
                mass_above += found.all_mass;
                if (!sure) {
                    high = low - 1;
                    low = bound_by_mass();
                    sure = true;
                    continue;
                }
                if (tb_floor_of_key(low) > set->floor) set->floor = tb_floor_of_key(low);
                set->count = above;
                set->mass = mass_above;
                set->measured = weigh;
                return;
            }
            above += found.before;
            mass_above += found.mass;
            bin = (int)found.bin;
            if (found.inside > TB_WHOLE_LIST) {
                tb_whole_narrow(bins, found.bin, &low, &high);
                linear = false;
                sure = true;
                if (low < high) continue;
                tb_whole_cut_value(r, by_index, low, found.inside, k - above,
                                   weigh ? target - mass_above : target, cut, set);
                set->count += above;
                set->mass += mass_above;
                set->measured = weigh;
                return;
            }
        }
        uint32_t n = tb_whole_gather(r, bins, bin, cut);
        if (n <= TB_WHOLE_LIST) {
            tb_whole_cut_list(r, by_index, n, k, target, above, mass_above, weigh || !above, set);
            return;
        }
        list = false;
    }
}

#endif
