/*
 * Exact selection on a row, by a block or a cluster of them: which tokens a step keeps, found without sorting
 * the row.
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

/* Lists the set from `floor` on, if that is at most TB_LIST tokens; else nothing happens, and false. */
TB_DEV bool tb_list_set(tb_room *room, tb_set *set, uint64_t floor)
{
    uint32_t n = tb_gather(room, floor, set->ceiling);
    if (n > TB_LIST) return false;
    tb_sort_shared(room->list, n, true);
    set->floor = floor;
    set->count = n;
    set->listed = set->counted = true;
    set->weighed = set->chunked = false;
    return true;
}

/* Cuts a listed set. */
TB_DEV void tb_select_listed(tb_room *room, bool by_index, uint32_t k, uint64_t target, tb_set *set)
{
    uint32_t n = set->count;
    tb_measured kept = tb_cut_list(room, by_index, n, k, target, 0, 0);
    set->count = kept.count;
    set->mass = kept.mass;
    set->weighed = true;
    if (set->count < n) set->chunked = false;
    if (set->count > 0) set->floor = room->list[set->count - 1];
}

/* The work of tb_select on a wide set. */
TB_DEV void tb_select_wide(tb_room *room, bool by_index, uint32_t k, uint64_t target, tb_set *set)
{
    const tb_source &source = room->source;
    const bool weigh = target != TB_NO_TARGET, whole = set->ceiling == TB_NO_CEILING;
    uint32_t high = source.facts.greatest, low = tb_place_key(set->floor);
    if (!whole && tb_place_key(set->ceiling) < high) high = tb_place_key(set->ceiling);
    if (low < source.facts.least) low = source.facts.least;
    if (low > high) { /* nothing between floor and ceiling */
        set->count = 0;
        set->listed = set->counted = true;
        return;
    }

    /* a lower bound of the last kept value, and perhaps a list at once */
    bool few = set->counted && set->count <= TB_LIST;
    if (!few && whole && k <= source.chunks) {
        uint32_t bound = tb_chunk_bound(room, source.chunks, k);
        if (bound >= low) low = bound, few = true;
    }
    if (!few && weigh) {
        /* n tokens of weight at most w, with n * w <= mass - target, are none of the first `target` mass */
        uint64_t least = (set->mass - target) / set->count + 1;
        low = tb_key_of_weight(room, low, high, least);
    }
    uint64_t place = tb_floor_of_key(low);
    if (place < set->floor) place = set->floor;
    if (few && tb_list_set(room, set, place)) return;

    uint32_t above = 0; /* tokens of the set greater than the interval [low, high], and their mass */
    uint64_t mass_above = 0;
    bool exact = false;
    set->weighed = set->chunked = set->counted = false;
    while (low < high) {
        const tb_bins bins = tb_make_bins(low, high, !exact);
        uint64_t end = tb_floor_of_key(high + 1);
        if (end > set->ceiling) end = set->ceiling;
        tb_fill_bins(room, bins, place, end, exact && weigh);
        const tb_bracket bracket =
            tb_bracket_bins(room, bins, k - above, weigh ? target - mass_above : TB_NO_TARGET, exact);
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
            tb_list_set(room, set, place);
            return;
        }
        bool within = bracket.inside <= TB_LIST;
        if (within) {
            tb_gather(room, place, end);
            tb_sort_shared(room->list, bracket.inside, true);
        } else if (!exact) {
            tb_range(room, place, end, &low, &high);
        }
        if (weigh && !exact && above) mass_above = tb_measure(room, end, false).mass;
        if (within) {
            tb_measured kept = tb_cut_list(room, by_index, bracket.inside, k, target, above, mass_above);
            set->floor = room->list[kept.count - 1];
            set->count = above + kept.count;
            set->mass = kept.mass;
            set->counted = true;
            set->weighed = weigh;
            return;
        }
        exact = true;
        place = tb_floor_of_key(low);
        if (place < set->floor) place = set->floor;
    }

    /* a single value, of many tokens */
    if (by_index) {
        uint64_t w = tb_weight(source.weigher, law_key_value(low));
        uint64_t number = k == TB_NO_COUNT ? TB_NO_TARGET : k - above; /* of them that stay */
        if (weigh && w) {
            uint64_t by_mass = (target - mass_above + w - 1) / w;
            if (by_mass < number) number = by_mass;
        }
        if (number < (1u << LAW_INDEX_BITS)) {
            uint64_t last = tb_locate_tie(room, low, set->ceiling, (uint32_t)number - 1);
            if (last > place) place = last;
        }
    }
    set->floor = place;
}

/*
 * Keeps those tokens of room->set with fewer than k greater ones and less than `target` mass in them (k,
 * target >= 1; TB_NO_COUNT and TB_NO_TARGET: no limit). With a target the set must be weighed and counted.
 */
TB_CALL void tb_select(tb_room *room, bool by_index, uint32_t k, uint64_t target)
{
    tb_set set = room->set;
    if (!set.listed) tb_select_wide(room, by_index, k, target, &set);
    /* a wide set that has become a list is still to be cut; one that stayed wide is cut */
    if (set.listed) tb_select_listed(room, by_index, k, target, &set);
    tb_share(&room->set, set);
}

/* ---- the chain ---- */

/* Makes mass and count of room->set known. */
TB_CALL void tb_weigh_set(tb_room *room)
{
    tb_set set = room->set;
    if (set.weighed && set.counted) return;
    if (set.listed) {
        const tb_weigher weigher = room->source.weigher;
        uint64_t sum = 0;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < set.count; i += blockDim.x)
            sum += tb_weight(weigher, law_key_value(tb_place_key(room->list[i])));
        set.mass = tb_block_sum64(&room->scratch, sum);
    } else {
        tb_measured measured = tb_measure(room, set.floor, true);
        set.mass = measured.mass;
        set.count = measured.count;
        set.chunked = true;
    }
    set.weighed = set.counted = true;
    tb_share(&room->set, set);
}

/* Keeps the greatest token alone, the lowest index among equals. */
TB_DEV void tb_keep_greatest(tb_room *room, tb_set *set)
{
    if (!set->listed) {
        uint64_t place = tb_locate_tie(room, room->source.facts.greatest, TB_NO_CEILING, 0);
        tb_share(&room->list[0], place);
    }
    set->floor = room->list[0];
    set->count = 1;
    set->listed = set->counted = true;
}

/* Keeps the tokens of at least this weight. */
TB_DEV void tb_keep_weight(tb_room *room, uint64_t least)
{
    tb_set set = room->set;
    if (set.listed) {
        const tb_weigher weigher = room->source.weigher;
        uint32_t n = 0;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < set.count; i += blockDim.x)
            n += tb_weight(weigher, law_key_value(tb_place_key(room->list[i]))) >= least;
        n = tb_block_sum(&room->scratch, n);
        if (n == set.count) return;
        set.count = n;
        set.floor = room->list[n - 1];
    } else {
        uint32_t low = tb_place_key(set.floor), high = room->source.facts.greatest;
        if (low < room->source.facts.least) low = room->source.facts.least;
        uint32_t key = tb_key_of_weight(room, low, high, least);
        if (key == low) return; /* they all stay */
        set.floor = tb_floor_of_key(key);
        set.counted = false;
    }
    set.weighed = set.chunked = false;
    tb_share(&room->set, set);
}

/* All of K0, at temperature 1. */
TB_DEV void tb_begin_chain(tb_room *room)
{
    const tb_facts facts = room->source.facts;
    const bool probabilities = room->source.probabilities;
    tb_set set = {
        tb_floor_of_all(facts, probabilities), TB_NO_CEILING, 0, facts.all, false, true, false, false};
    __syncthreads();
    if (threadIdx.x == 0) {
        room->source.weigher = tb_make_weigher(probabilities, law_key_value(facts.greatest));
        room->set = set;
    }
    __syncthreads();
}

/* Applies the row's steps [0, count) to room->set. Returns the mass before the first filter, if `want_total`.
 */
TB_CALL uint64_t tb_run_chain(tb_room *room, int32_t count, bool want_total)
{
    bool filtered = false;
    uint64_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        const tb_gpu_step step = room->row.steps[i];
        if (step.kind == TOMBOLA_TEMPERATURE) {
            tb_weigher weigher = room->source.weigher;
            bool greedy = !tb_set_temperature(&weigher, step.value);
            tb_share(&room->source.weigher, weigher);
            tb_set set = room->set;
            set.weighed = set.chunked = false;
            if (greedy) tb_keep_greatest(room, &set);
            tb_share(&room->set, set);
            continue;
        }
        if (!filtered && want_total) {
            tb_weigh_set(room);
            total = room->set.mass;
        }
        filtered = true;
        if (step.kind == TOMBOLA_MIN_P) {
            if (step.value <= 0.0f) continue;
            uint64_t greatest = tb_weight(room->source.weigher, room->source.weigher.maximum);
            tb_keep_weight(room, law_min_p_weight(step.value, greatest));
            continue;
        }
        uint32_t k = step.kind != TOMBOLA_TOP_P && step.k > 0 ? (uint32_t)step.k : TB_NO_COUNT;
        uint64_t target = TB_NO_TARGET;
        if (step.kind != TOMBOLA_TOP_K && step.value < 1.0f) {
            tb_weigh_set(room);
            target = law_top_p_target(step.value, room->set.mass);
        }
        if (room->set.counted && k >= room->set.count) k = TB_NO_COUNT;
        if (k != TB_NO_COUNT || target != TB_NO_TARGET) tb_select(room, room->source.by_index, k, target);
    }
    if (!filtered && want_total) {
        tb_weigh_set(room);
        total = room->set.mass;
    }
    return total;
}

#endif
