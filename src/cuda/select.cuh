/*
 * Exact selection on a row, by one block: which tokens a step keeps, found without sorting the row.
 *
 * A kept set is { place >= floor } (row.cuh). It is held in one of two ways:
 *   wide    only the floor is known; the row is read again where its tokens matter
 *   listed  all its tokens, at most TB_LIST, lie in shared memory, greatest first
 * A step on a listed set is a scan of the list. On a wide set the cut is bracketed by a histogram of
 * counts over an interval of values; from the counts and the weights at the bins' edges follow bounds on
 * the mass above each bin, so the bracket is rigorous. The bracket's tokens are then listed and the cut is
 * found among them in exact integers. A bracket with too many tokens is cut again, by exact masses over
 * equal intervals of keys: each time 2048 times narrower, down to a single value.
 */
#ifndef TB_CUDA_SELECT_CUH
#define TB_CUDA_SELECT_CUH

#include "bins.cuh"

/* ---- the cut ---- */

/* The k-th greatest of the chunks' greatest keys: k tokens of K0 reach it. 1 <= k <= chunks. */
TB_CALL uint32_t tb_chunk_bound(tb_room *room, uint32_t chunks, uint32_t k)
{
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < chunks; c += blockDim.x) {
        uint32_t key = room->chunk_key[c], rank = 0;
        for (uint32_t i = 0; i < chunks; i++) {
            uint32_t other = room->chunk_key[i];
            rank += other > key || (other == key && i < c);
        }
        if (rank == k - 1) room->word[0] = key;
    }
    __syncthreads();
    uint32_t bound = (uint32_t)room->word[0];
    __syncthreads();
    return bound;
}

/* Lists the set, which has at most TB_LIST tokens (else nothing happens, and false). */
TB_CALL bool tb_list_set(tb_room *room, const tb_source &source, tb_set *set, uint64_t floor)
{
    tb_gather(room, source, floor, set->ceiling);
    uint32_t n = room->cursor;
    if (n > TB_LIST) return false;
    tb_sort(room->list, n, true);
    set->floor = floor;
    set->count = n;
    set->listed = set->counted = true;
    set->weighed = set->chunked = false;
    return true;
}

/* Cuts a listed set. */
TB_CALL void tb_select_listed(tb_room *room, const tb_source &source, bool by_index, uint32_t k,
                              uint64_t target, tb_set *set)
{
    uint32_t n = set->count;
    set->count = tb_cut_list(room, source.weigher, by_index, n, k, target, 0, 0, &set->mass);
    set->weighed = true;
    if (set->count < n) set->chunked = false;
    if (set->count > 0) set->floor = room->list[set->count - 1];
}

/*
 * Keeps the tokens of the set with fewer than k greater ones and less than `target` mass in them (k, target
 * >= 1; TB_NO_COUNT and TB_NO_TARGET: no limit). With a target the set must be weighed and counted.
 */
TB_CALL void tb_select(tb_room *room, const tb_source &source, bool by_index, uint32_t k, uint64_t target,
                       tb_set *set)
{
    if (set->listed) {
        tb_select_listed(room, source, by_index, k, target, set);
        return;
    }
    bool weigh = target != TB_NO_TARGET, whole = set->ceiling == TB_NO_CEILING;
    uint32_t high = source.facts.greatest, low = tb_place_key(set->floor);
    if (!whole && tb_place_key(set->ceiling) < high) high = tb_place_key(set->ceiling);
    if (low < source.facts.least) low = source.facts.least;

    /* a lower bound of the last kept value, and perhaps a list at once */
    bool bounded = set->counted && set->count <= TB_LIST;
    if (!bounded && whole && k <= source.chunks) {
        uint32_t bound = tb_chunk_bound(room, source.chunks, k);
        if (bound >= low) low = bound, bounded = true;
    }
    if (!bounded && weigh) {
        /* n tokens of weight at most w, with n * w <= mass - target, are none of the first `target` mass */
        uint64_t least = (set->mass - target) / set->count + 1;
        low = tb_key_of_weight(source.weigher, low, high, least);
    }
    uint64_t place = tb_floor_of_key(low);
    if (place < set->floor) place = set->floor;
    if (low > high) { /* nothing between floor and ceiling */
        set->count = 0;
        set->listed = set->counted = true;
        return;
    }
    if (bounded && tb_list_set(room, source, set, place)) {
        tb_select_listed(room, source, by_index, k, target, set);
        return;
    }

    uint32_t above = 0; /* tokens of the set greater than the interval [low, high], and their mass */
    uint64_t mass_above = 0;
    bool exact = false;
    set->weighed = set->chunked = set->counted = false;
    while (low < high) {
        tb_bins bins = tb_make_bins(low, high, !exact);
        uint64_t end = tb_floor_of_key(high + 1);
        if (end > set->ceiling) end = set->ceiling;
        tb_fill_bins(room, source, bins, place, end, exact && weigh);
        tb_bracket bracket = tb_bracket_bins(room, source.weigher, bins, k - above,
                                             weigh ? target - mass_above : TB_NO_TARGET, exact);
        if (bracket.inside == 0) {
            set->count = 0;
            set->listed = set->counted = true;
            return;
        }
        above += bracket.above;
        if (exact) mass_above += bracket.mass_above;
        tb_narrow(bins, bracket, &low, &high);
        place = tb_floor_of_key(low);
        if (place < set->floor) place = set->floor;
        end = tb_floor_of_key(high + 1);
        if (end > set->ceiling) end = set->ceiling;

        if (above + bracket.inside <= TB_LIST) {
            tb_list_set(room, source, set, place);
            tb_select_listed(room, source, by_index, k, target, set);
            return;
        }
        if (bracket.inside <= TB_LIST) {
            tb_gather(room, source, place, end);
            if (weigh && !exact && above) tb_measure(room, source, end, NULL, &mass_above, &above);
            tb_sort(room->list, bracket.inside, true);
            uint32_t n = tb_cut_list(room, source.weigher, by_index, bracket.inside, k, target, above,
                                     mass_above, &set->mass);
            set->floor = room->list[n - 1];
            set->count = above + n;
            set->counted = true;
            set->weighed = weigh;
            __syncthreads();
            return;
        }
        if (!exact) {
            tb_range(room, source, place, end, &low, &high);
            if (weigh && above) tb_measure(room, source, end, NULL, &mass_above, &above);
        }
        exact = true;
        place = tb_floor_of_key(low);
        if (place < set->floor) place = set->floor;
    }

    /* a single value, of many tokens */
    if (!by_index) {
        set->floor = place;
        return;
    }
    uint64_t w = tb_weight(source.weigher, law_key_value(low));
    uint64_t number = k == TB_NO_COUNT ? TB_NO_TARGET : k - above; /* of them that stay */
    if (weigh && w) {
        uint64_t by_mass = (target - mass_above + w - 1) / w;
        if (by_mass < number) number = by_mass;
    }
    if (number < (1u << LAW_INDEX_BITS)) {
        uint64_t last = tb_locate_tie(room, source, low, set->ceiling, (uint32_t)number - 1);
        if (last > place) place = last;
    }
    set->floor = place;
}

/* ---- the chain ---- */

TB_CALL uint64_t tb_list_mass(tb_room *room, const tb_weigher &weigher, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += tb_weight(weigher, law_key_value(tb_place_key(room->list[i])));
    return tb_block_sum64(&room->scratch, sum);
}

/* Makes mass and count of a set known. */
TB_CALL void tb_weigh_set(tb_room *room, const tb_source &source, tb_set *set)
{
    if (set->weighed && set->counted) return;
    if (set->listed) {
        set->mass = tb_list_mass(room, source.weigher, set->count);
    } else {
        tb_measure(room, source, set->floor, room->chunk_mass, &set->mass, &set->count);
        set->chunked = true;
    }
    set->weighed = set->counted = true;
}

/* Keeps the greatest token alone, the lowest index among equals. */
TB_CALL void tb_keep_greatest(tb_room *room, const tb_source &source, tb_set *set)
{
    if (!set->listed) {
        uint64_t place = tb_locate_tie(room, source, source.facts.greatest, TB_NO_CEILING, 0);
        if (threadIdx.x == 0) room->list[0] = place;
        __syncthreads();
    }
    set->floor = room->list[0];
    set->count = 1;
    set->listed = set->counted = true;
    set->weighed = set->chunked = false;
}

TB_CALL void tb_keep_weight(tb_room *room, const tb_source &source, uint64_t least, tb_set *set)
{
    if (set->listed) {
        uint32_t n = 0;
        for (uint32_t i = threadIdx.x; i < set->count; i += blockDim.x)
            n += tb_weight(source.weigher, law_key_value(tb_place_key(room->list[i]))) >= least;
        n = tb_block_sum(&room->scratch, n);
        if (n == set->count) return;
        set->count = n;
        set->floor = room->list[n - 1];
    } else {
        uint32_t low = tb_place_key(set->floor);
        if (low < source.facts.least) low = source.facts.least;
        uint32_t key = tb_key_of_weight(source.weigher, low, source.facts.greatest, least);
        if (key == low) return; /* they all stay */
        set->floor = tb_floor_of_key(key);
        set->counted = false;
    }
    set->weighed = set->chunked = false;
}

/* All of K0, at temperature 1. */
TB_CALL void tb_begin_chain(tb_source *source, bool probabilities, tb_set *set)
{
    source->weigher = tb_make_weigher(probabilities, law_key_value(source->facts.greatest));
    set->floor = tb_floor_of_all(source->facts, probabilities);
    set->ceiling = TB_NO_CEILING;
    set->mass = 0;
    set->count = source->facts.all;
    set->counted = true;
    set->listed = set->weighed = set->chunked = false;
}

/* Applies the row's steps [0, count). *total_mass, if not NULL, becomes the mass before the first filter. */
TB_CALL void tb_run_chain(tb_room *room, tb_source *source, bool by_index, int32_t count, tb_set *set,
                          uint64_t *total_mass)
{
    bool filtered = false;
    for (int32_t i = 0; i < count; i++) {
        tb_gpu_step step = room->row.steps[i];
        if (step.kind == TOMBOLA_TEMPERATURE) {
            bool greedy = !tb_set_temperature(&source->weigher, step.value);
            set->weighed = set->chunked = false;
            if (greedy) tb_keep_greatest(room, *source, set);
            continue;
        }
        if (!filtered && total_mass) {
            tb_weigh_set(room, *source, set);
            *total_mass = set->mass;
        }
        filtered = true;
        if (step.kind == TOMBOLA_MIN_P) {
            if (step.value <= 0.0f) continue;
            uint64_t greatest = tb_weight(source->weigher, source->weigher.maximum);
            tb_keep_weight(room, *source, law_min_p_weight(step.value, greatest), set);
            continue;
        }
        uint32_t k = step.kind != TOMBOLA_TOP_P && step.k > 0 ? (uint32_t)step.k : TB_NO_COUNT;
        uint64_t target = TB_NO_TARGET;
        if (step.kind != TOMBOLA_TOP_K && step.value < 1.0f) {
            tb_weigh_set(room, *source, set);
            target = law_top_p_target(step.value, set->mass);
        }
        if (set->counted && k >= set->count) k = TB_NO_COUNT;
        if (k != TB_NO_COUNT || target != TB_NO_TARGET) tb_select(room, *source, by_index, k, target, set);
    }
    if (!filtered && total_mass) {
        tb_weigh_set(room, *source, set);
        *total_mass = set->mass;
    }
}

#endif
