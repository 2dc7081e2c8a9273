/*
 * The first look at a row: its copy to the shared memory of its team, its greatest values and parameters; and
 * exact masses, by looks at that copy.
 */
#ifndef TB_CUDA_WHOLE_READ_CUH
#define TB_CUDA_WHOLE_READ_CUH

#include "whole_sort.cuh"

/* ---- the first look ---- */

/* Greatest of some vectors, NaN excluded; *nan tells of NaN. */
template <class R, int U> TB_DEV float tb_whole_greatest(uint4 (&v)[U], bool *nan)
{
#ifdef __CUDA_ARCH__
    float m = tb_tile_max<R::dtype, U>(v);
    if (!law_isnan(m)) return m;
    *nan = true;
    tb_drop_nan<R::dtype, U>(v);
    return tb_tile_max<R::dtype, U>(v);
#else
    float m = -LAW_INF;
    for (int j = 0; j < U; j++)
        for (int e = 0; e < R::width; e++) {
            float x = tb_whole_element<R>(v[j], e);
            *nan |= x != x;
            m = fmaxf(m, x);
        }
    return m;
#endif
}

/* Whether a value is less than 0; few vectors have a sign bit at all. */
template <class R, int U> TB_DEV bool tb_whole_negative(const uint4 (&v)[U])
{
    uint32_t signs = 0;
#pragma unroll
    for (int j = 0; j < U; j++) signs |= v[j].x | v[j].y | v[j].z | v[j].w;
    if (!(signs & (R::bytes == 4 ? 0x80000000u : 0x80008000u))) return false;
    bool negative = false;
#pragma unroll
    for (int j = 0; j < U; j++)
#pragma unroll
        for (int e = 0; e < R::width; e++) negative |= tb_whole_element<R>(v[j], e) < 0.0f;
    return negative;
}

/* By one warp: the row's parameters. Inlined, so that it reads the call as constants: from memory they would
 * be a dozen loads one after the other. */
TB_DEV void tb_whole_parse(const tb_cuda_params &params, bool located, int64_t slot, tb_whole_chain *out)
{
    const tombola_call &call = params.call;
    tb_whole_chain c = {TB_NO_COUNT, TB_NO_COUNT, 0.0f, 0.0f, 1.0f, 1.0f, !located || slot < 0};
    int lane = (int)tb_lane(), kind = 0, k = 0;
    float value = 0.0f;
    if (!c.bad && lane < params.checked_steps) {
        const tombola_step &step = params.steps[lane];
        kind = step.kind;
        k = step.k_per_slot ? step.k_per_slot[slot] : step.k;
        value = step.value_per_slot ? step.value_per_slot[slot] : step.value;
        if (kind != TOMBOLA_TOP_K && law_isnan(value)) c.bad = true;
        if (kind == TOMBOLA_TEMPERATURE && value < 0.0f) c.bad = true;
    }
    c.bad = __any_sync(TB_WHOLE_WARP, c.bad);
    bool after = false;
    for (int i = 0; i < call.step_count && !c.bad; i++) {
        int step_kind = __shfl_sync(TB_WHOLE_WARP, kind, i), step_k = __shfl_sync(TB_WHOLE_WARP, k, i);
        float step_value = __shfl_sync(TB_WHOLE_WARP, value, i);
        if (step_kind == TOMBOLA_TEMPERATURE) c.temperature = step_value;
        if (step_kind == TOMBOLA_TOP_P || step_kind == TOMBOLA_TOP_K_TOP_P) {
            after = true;
            if (step_value < 1.0f) c.p = step_value;
        }
        if ((step_kind == TOMBOLA_TOP_K || step_kind == TOMBOLA_TOP_K_TOP_P) && step_k > 0) {
            const uint32_t count = (uint32_t)step_k;
            c.k_before = !after && count < c.k_before ? count : c.k_before;
            c.k_after = after && count < c.k_after ? count : c.k_after;
        }
        if (step_kind == TOMBOLA_MIN_P && step_value > 0.0f) {
            c.q_before = !after && step_value > c.q_before ? step_value : c.q_before;
            c.q_after = after && step_value > c.q_after ? step_value : c.q_after;
        }
    }
    if (lane == 0) *out = c;
}

/* What all warps' first words say: the status bits that the values set, and in r.greatest the row's. */
template <class R> TB_DEV uint32_t tb_whole_seen(R &r, const tb_cuda_params &params)
{
    const bool probabilities = params.call.kind == TOMBOLA_PROBABILITIES;
    uint32_t flags = 0, key = 0;
    for (uint32_t i = tb_lane(); i < r.team.size * TB_WHOLE_WARPS; i += 32) {
        uint4 g = r.group[i];
        uint32_t a = g.x > g.y ? g.x : g.y, b = g.z > g.w ? g.z : g.w;
        a = a > b ? a : b;
        key = a > key ? a : key;
        flags |= r.flags[i];
    }
    r.greatest = tb_warp_max(key);
    flags = tb_warp_or(flags);
    if (r.greatest < (probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT))
        flags |= TOMBOLA_ROW_EMPTY;
    if (r.greatest == TB_KEY_POS_INF) flags |= TOMBOLA_ROW_POS_INF;
    return flags;
}

#define TB_WHOLE_UNROLL 8

/* Copies the warp's vectors to shared memory and tells the team of their greatest values and oddities.
 * Returns the status bits that the values set; r.greatest is the row's. */
template <class R>
TB_DEV uint32_t tb_whole_read(R &r, const tb_cuda_params &params, bool located, int64_t slot,
                              tb_whole_sorter *sorter)
{
    const bool probabilities = params.call.kind == TOMBOLA_PROBABILITIES;
    const uint32_t none = probabilities ? 0u : tb_masked_word(R::dtype), loads = tb_whole_loads(r.part);
    const char *from = r.part.base + (size_t)(r.part.first + tb_lane()) * 16;
    uint4 *to = r.keep + threadIdx.x;
    float top = -LAW_INF;
    bool nan = false, negative = false, parsed = tb_warp() != TB_WHOLE_WARPS - 1;
#pragma unroll 1
    for (uint32_t j0 = 0; j0 < loads || (R::SORT ? !j0 : !parsed); j0 += TB_WHOLE_UNROLL) {
        uint4 v[TB_WHOLE_UNROLL];
        const bool inner = j0 + TB_WHOLE_UNROLL <= r.part.inner;
        tb_whole_load_vectors(r, j0, from, none, v);
        if (!parsed) tb_whole_parse(params, located, slot, &r.s->chain);
        parsed = true;
        if (R::SORT && j0 == 0) *sorter = tb_whole_prepare_sort(r, params);
#pragma unroll
        for (int j = 0; j < TB_WHOLE_UNROLL; j++)
            if (inner || r.part.first + (j0 + j) * 32 + tb_lane() < r.part.end)
                to[j * TB_WHOLE_THREADS] = v[j];
        if (probabilities) negative |= tb_whole_negative<R>(v);
        top = fmaxf(top, tb_whole_greatest<R>(v, &nan));
        from += TB_WHOLE_UNROLL * 512;
        to += TB_WHOLE_UNROLL * TB_WHOLE_THREADS;
    }
    uint32_t key = law_key(top), flags = 0;
    uint4 spread_word = make_uint4(0, 0, 0, 0);
    uint32_t middle = 0;
    if (R::TOP) { /* each lane's number in the order of them all; of equal ones, in any */
        const uint32_t mine = (key & ~31u) | tb_lane();
        uint32_t before = 0;
#pragma unroll
        for (int d = 1; d < 32; d++) before += __shfl_xor_sync(TB_WHOLE_WARP, mine, d) > mine;
        auto number = [&](uint32_t n) {
            return __shfl_sync(TB_WHOLE_WARP, key, __ffs((int)__ballot_sync(TB_WHOLE_WARP, before == n)) - 1);
        };
        spread_word.x = number(4);
        spread_word.y = number(12);
        spread_word.z = number(20);
        spread_word.w = number(28);
        if (R::SORT) middle = number(sorter->number);
    }
#pragma unroll
    for (int d = 1; d < 8; d *= 2) {
        uint32_t other = __shfl_xor_sync(TB_WHOLE_WARP, key, d);
        if (other > key) key = other;
    }
    uint4 word;
    word.x = __shfl_sync(TB_WHOLE_WARP, key, 0);
    word.y = __shfl_sync(TB_WHOLE_WARP, key, 8);
    word.z = __shfl_sync(TB_WHOLE_WARP, key, 16);
    word.w = __shfl_sync(TB_WHOLE_WARP, key, 24);
    if (__any_sync(TB_WHOLE_WARP, nan)) flags |= TOMBOLA_ROW_NAN;
    if (__any_sync(TB_WHOLE_WARP, negative)) flags |= TOMBOLA_ROW_NEGATIVE;
    tb_whole_wait(r); /* all blocks run */
    tb_whole_send<true>(r, r.group, word, spread_word, middle, flags);
    return tb_whole_seen(r, params);
}

/* ---- masses ---- */

struct tb_yes {
    static constexpr bool value = true;
};

struct tb_no {
    static constexpr bool value = false;
};

/* Calls visit(values, vector number, its place in shared memory, whether it surely is inside the row) for
 * each of a lane's vectors. */
template <class R, class Visit> TB_DEV void tb_whole_each(const R &r, Visit visit)
{
    uint4 *at = r.keep + threadIdx.x;
    uint32_t vector = r.part.first + tb_lane(), stop = vector + r.part.inner * 32;
    float x[R::width];
#pragma unroll 2
    for (; vector < stop; vector += 32, at += TB_WHOLE_THREADS) {
        uint4 v = *at;
#pragma unroll
        for (int e = 0; e < R::width; e++) x[e] = tb_whole_element<R>(v, e);
        visit(x, vector, at, tb_yes());
    }
#pragma unroll 1
    for (; vector < r.part.end; vector += 32, at += TB_WHOLE_THREADS) {
        uint4 v = *at;
#pragma unroll
        for (int e = 0; e < R::width; e++) x[e] = tb_whole_element<R>(v, e);
        visit(x, vector, at, tb_no());
    }
}

/* Makes `x >= cut.value` the whole test for a vector's values. */
template <class R>
TB_DEV void tb_whole_trim(const R &r, const tb_cut &cut, float (&x)[R::width], uint32_t vector)
{
    if (!cut.partial) return;
#pragma unroll
    for (int e = 0; e < R::width; e++)
        if (x[e] == cut.value && tb_whole_index(r, vector) + e > cut.last) x[e] = -LAW_INF;
}

enum { TB_COUNT_ONLY, TB_WEIGH, TB_WEIGH_AND_STORE };

/*
 * Mass and count of the tokens with place >= set.floor; the words exchanged, {mass, count} of each warp, are
 * returned. TB_COUNT_ONLY leaves the mass out; TB_WEIGH_AND_STORE (f32 logits that are all kept, none of
 * them NaN, and a scale from TB_LEAST_SCALE on) puts the tokens' ratios where their values were, 0 for what
 * weighs nothing, and does not count.
 */
template <class R> TB_DEV const uint4 *tb_whole_measure(R &r, tb_whole_set *set, int how)
{
    const tb_cut cut = tb_make_cut(set->floor);
    const tb_weigher w = r.weigher;
    const float step = w.scale * -0x1p-6f;
    uint32_t high = 0, low = 0, n = 0, values = 0;
    auto add = [&](bool in, float ratio) {
        uint32_t h, l;
        tb_split_ratio(in ? ratio : 0.0f, &h, &l);
        n += in;
        high += h;
        low += l;
    };
    if (how == TB_COUNT_ONLY) {
        tb_whole_each(r, [&](float(&x)[R::width], uint32_t vector, uint4 *, auto) {
            tb_whole_trim(r, cut, x, vector);
#pragma unroll
            for (int e = 0; e < R::width; e++) n += x[e] >= cut.value;
        });
    } else if (how == TB_WEIGH_AND_STORE) {
        if (R::dtype == TOMBOLA_F32) /* the others' elements have no room for a ratio */
            tb_whole_each(r, [&](float(&x)[R::width], uint32_t, uint4 *at, auto) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float ratio = tb_power_of_two(tb_scaled_exponent(x[e], w.maximum, step), -64.0f);
                    float upper = __fadd_rz(ratio, 8.0f); /* as in tb_weigh_scaled */
                    high += law_bits(upper);
                    low += law_bits(__fadd_rz(ratio, (8.0f + 0x1p-17f) - upper));
                    x[e] = ratio >= 0x1p-40f ? ratio : 0.0f; /* what weighs nothing */
                }
                values += 4;
                *at = make_uint4(law_bits(x[0]), law_bits(x[1]), law_bits(x[2]), law_bits(x[3]));
            });
    } else if (w.plain) {
        tb_whole_each(r, [&](float(&x)[R::width], uint32_t vector, uint4 *, auto) {
            tb_whole_trim(r, cut, x, vector);
#pragma unroll
            for (int e = 0; e < R::width; e++) add(x[e] >= cut.value, tb_ratio_plain(w, x[e]));
            values += R::width;
        });
    } else {
        tb_whole_each(r, [&](float(&x)[R::width], uint32_t vector, uint4 *, auto) {
            tb_whole_trim(r, cut, x, vector);
#pragma unroll
            for (int e = 0; e < R::width; e++)
                add(x[e] >= cut.value, w.flat ? 1.0f : x[e] * w.scale * w.scale2);
            values += R::width;
        });
    }
    uint64_t mass = tb_warp_sum64(tb_join_sums(high - values * TB_HIGH_BIAS, low - values * TB_LOW_BIAS));
    n = tb_warp_sum(n);
    const uint4 *all = tb_whole_exchange(r, make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), n, 0));
    mass = n = 0;
    for (uint32_t i = tb_lane(); i < r.team.size * TB_WHOLE_WARPS; i += 32) {
        uint4 word = all[i];
        mass += (uint64_t)word.y << 32 | word.x;
        n += word.z;
    }
    if (how != TB_COUNT_ONLY) set->mass = tb_warp_sum64(mass);
    set->count = tb_warp_sum(n);
    set->measured = how != TB_COUNT_ONLY;
    return all;
}

#endif
