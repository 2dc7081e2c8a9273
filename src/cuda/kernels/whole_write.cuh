/*
 * What the kernels for whole-row outputs write, and the order of their steps.
 */
#ifndef TB_CUDA_WHOLE_WRITE_CUH
#define TB_CUDA_WHOLE_WRITE_CUH

#include "whole_pick.cuh"

/* Renormalised probabilities. `stored`: the ratios lie where the values were, and all tokens are kept. */
template <class R>
TB_DEV void tb_whole_write_probabilities(const R &r, float *out, const tb_whole_set &set, bool stored)
{
    const tb_weigher w = r.weigher;
    const tb_cut cut = tb_make_cut(set.floor);
    const float scale = tb_renorm_scale(w, set.mass);
    /* 16 bytes at a time where a vector's place in the output suits */
    const bool aligned = (((uint32_t)((uintptr_t)out >> 2) - r.part.shift) & 3u) == 0;
    auto put = [&](const float(&p)[R::width], uint32_t vector, auto whole) {
        uint32_t first = tb_whole_index(r, vector);
        if (aligned && (whole.value || tb_whole_inside<R>(r.part, vector))) {
#pragma unroll
            for (int e = 0; e < R::width; e += 4)
                tb_store16(out + first + e, make_uint4(law_bits(p[e]), law_bits(p[e + 1]), law_bits(p[e + 2]),
                                                       law_bits(p[e + 3])));
            return;
        }
#pragma unroll
        for (int e = 0; e < R::width; e++)
            if (first + e < r.part.length) out[first + e] = p[e];
    };
    auto write = [&](auto ratio) {
        tb_whole_each(r, [&](float(&x)[R::width], uint32_t vector, uint4 *at, auto whole) {
            tb_whole_trim(r, cut, x, vector);
#pragma unroll
            for (int e = 0; e < R::width; e++) {
                float p = tb_renormalised(w.probabilities, ratio(x[e]), scale);
                x[e] = x[e] >= cut.value ? p : 0.0f;
            }
            put(x, vector, whole);
        });
    };
    if (stored)
        tb_whole_each(r, [&](float(&x)[R::width], uint32_t vector, uint4 *at, auto whole) {
#pragma unroll
            for (int e = 0; e < R::width; e++) x[e] *= scale;
            put(x, vector, whole);
        });
    else if (w.plain)
        write([&](float x) { return tb_ratio_plain(w, x); });
    else
        write([&](float x) { return w.flat ? 1.0f : x * w.scale * w.scale2; });
}

/* The row's own bits where kept, -inf elsewhere. */
template <class R> TB_DEV void tb_whole_write_masked(const R &r, char *out, const tb_whole_set &set)
{
    const tb_cut cut = tb_make_cut(set.floor);
    constexpr uint32_t none = R::dtype == TOMBOLA_F32   ? 0xff800000u
                              : R::dtype == TOMBOLA_F16 ? 0xfc00fc00u
                                                        : 0xff80ff80u;
    const bool aligned = (((uint32_t)((uintptr_t)out / R::bytes) - r.part.shift) & (R::width - 1)) == 0;
    tb_whole_each(r, [&](float(&x)[R::width], uint32_t vector, uint4 *at, auto whole) {
        const uint4 v = *at;
        uint32_t first = tb_whole_index(r, vector), word[4] = {v.x, v.y, v.z, v.w};
        tb_whole_trim(r, cut, x, vector);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (R::bytes == 4) {
                word[i] = x[i] >= cut.value ? word[i] : none;
            } else {
                uint32_t mask = (x[2 * i % R::width] >= cut.value ? 0xffffu : 0u) |
                                (x[(2 * i + 1) % R::width] >= cut.value ? 0xffff0000u : 0u);
                word[i] = (word[i] & mask) | (none & ~mask);
            }
        }
        if (aligned && (whole.value || tb_whole_inside<R>(r.part, vector))) {
            tb_store16(out + (size_t)first * R::bytes, make_uint4(word[0], word[1], word[2], word[3]));
            return;
        }
#pragma unroll
        for (int e = 0; e < R::width; e++) {
            if (first + e >= r.part.length) continue;
            if (R::bytes == 4)
                ((uint32_t *)out)[first + e] = word[e % 4];
            else
                ((uint16_t *)out)[first + e] = (uint16_t)(word[e / 2 % 4] >> e % 2 * 16);
        }
    });
}

/* Writes the kept ones of the few listed tokens, of those in this block's part. */
template <class R>
TB_DEV void tb_whole_write_few(const R &r, char *masked, float *out, const tb_whole_set &set)
{
    const tb_weigher w = r.weigher;
    const tb_whole_part &p = r.part;
    const float scale = tb_renorm_scale(w, set.mass);
    const uint32_t vectors = (p.shift + p.length + R::width - 1) / R::width,
                   share = tb_whole_block_share(r.team, vectors),
                   each = (share + TB_WHOLE_WARPS - 1) / TB_WHOLE_WARPS;
#pragma unroll 1
    for (uint32_t n = threadIdx.x; n < r.s->few; n += TB_WHOLE_THREADS) {
        const uint64_t place = r.s->few_own[n];
        const uint32_t index = tb_place_index(place), vector = (index + p.shift) / R::width,
                       inside =
                           vector - share * r.team.rank; /* of another block: wraps around, or too great */
        if (place < set.floor || inside >= share) continue;
        if (out) {
            const float x = law_key_value(tb_place_key(place));
            out[index] = tb_renormalised(w.probabilities, tb_ratio(w, x), scale);
        }
        if (masked) { /* the row's own bits */
            const uint32_t warp = inside / each, at = inside - warp * each;
            const char *v = (const char *)&r.keep[at / 32 * TB_WHOLE_THREADS + warp * 32 + at % 32];
            tb_copy_element(masked, index, v, (index + p.shift) % R::width, R::bytes);
        }
    }
}

/* A row without a token. `length` elements of it are written; none to a place that is not known. */
template <class R>
TB_DEV void tb_whole_write_void(const R &r, const tombola_call &call, int64_t index, bool placed,
                                int64_t start, uint32_t length, uint32_t status)
{
    uint32_t begin = (uint32_t)((uint64_t)length * r.team.rank / r.team.size);
    uint32_t end = (uint32_t)((uint64_t)length * (r.team.rank + 1) / r.team.size);
    if (call.probabilities)
        tb_flood((char *)(call.probabilities + index * call.probabilities_stride), 4, begin, end, 0);
    if (call.masked_logits && (placed || call.masked_logits != call.data))
        tb_flood(tb_masked_row(call, index, start), R::bytes, begin, end, tb_masked_word(R::dtype));
    if (r.team.rank) return;
    tb_fill_row(call.status, index, 1, status);
    tb_fill_row(call.kept_count, index, 1, 0);
    tb_fill_row(call.kept_ids, index, call.kept_capacity, -1);
    tb_fill_row(call.kept_mass, index, 1, (uint64_t)0);
    tb_fill_row(call.total_mass, index, 1, (uint64_t)0);
    tb_fill_row(call.top_ids, index, call.top_count, -1);
    tb_fill_row(call.top_logprobs, index, call.top_count, law_float(LAW_NAN_BITS));
}

/* A chain, on the row in shared memory. `measure`: mass or count of what stays will be needed. */
template <class R>
TB_DEV void tb_whole_run_chain(R &r, const tb_whole_chain &chain, bool by_index, bool measure,
                               tb_whole_set *set)
{
    const bool p_on = chain.p < 1.0f;
    bool greedy = chain.temperature != 1.0f && !tb_set_temperature(&r.weigher, chain.temperature);
    /* first what stands before top_p, which is everything where there is none; then top_p and the rest */
#pragma unroll 1
    for (int stage = 0; stage < (p_on && !greedy ? 2 : 1); stage++) {
        uint32_t k = stage ? chain.k_after : chain.k_before;
        float q = stage ? chain.q_after : chain.q_before;
        uint64_t target = TB_NO_TARGET;
        if (!stage && !p_on) {
            if (chain.k_after < k) k = chain.k_after;
            q = fmaxf(q, chain.q_after);
        }
        if (stage) {
            if (!set->measured) tb_whole_measure(r, set, TB_WEIGH);
            target = law_top_p_target(chain.p, set->mass);
        }
        if (greedy) k = 1, q = 0.0f;
        if (k != TB_NO_COUNT || target != TB_NO_TARGET)
            tb_whole_select(r, by_index || greedy, k, target, p_on || measure, set);
        if (q > 0.0f) {
            uint64_t least = law_min_p_weight(q, tb_weight(r.weigher, r.weigher.maximum));
            uint64_t floor = tb_floor_of_key(tb_whole_key_of_weight(r, tb_place_key(set->floor), least));
            if (floor > set->floor) set->floor = floor, set->measured = false;
        }
    }
}

/* Keeps the compiler from knowing what it knows of a value. */
template <class T> TB_DEV void tb_forget(T *value)
{
    if constexpr (sizeof *value == 8)
        asm volatile("" : "+l"(*(uint64_t *)value));
    else
        asm volatile("" : "+r"(*(uint32_t *)value));
}

/* One row, start to end, by a team. */
template <int dtype, bool TOP, bool SORT>
TB_DEV void tb_whole_run(const tb_cuda_params &params, char *memory, tb_team team, int64_t index)
{
    typedef tb_whole_row<dtype, TOP, SORT> R;
    const tombola_call &call = params.call;
    R r;
    tb_whole_lay_out(r, memory, team);
    int64_t start, length;
    const bool located = tb_fast_locate(call, index, &start, &length);
    r.part =
        tb_whole_share(r, (const char *)call.data + (size_t)start * R::bytes, located ? (uint32_t)length : 0);
    const int64_t slot = tb_gpu_slot(call, index);
    if (!TOP && call.step_count && threadIdx.x == 0) { /* known to all after the first exchange */
        tb_whole_shared *s = r.s;
        s->cursor = s->few = 0;
        s->fill = NULL;
        if (!call.masked_logits != !call.probabilities) {
            s->fill_bytes = call.masked_logits ? R::bytes : 4;
            s->fill_word = call.masked_logits ? tb_masked_word(dtype) : 0;
            s->fill = call.masked_logits ? tb_masked_row(call, index, start)
                                         : (char *)(call.probabilities + index * call.probabilities_stride);
        }
    }
    if (SORT && threadIdx.x == 0) r.s->cursor = 0;
    const bool writes = threadIdx.x == 0 && r.team.rank == 0;
    if (call.advance_offsets && slot >= 0 && writes) tb_next_offsets(params)[index] = call.offsets[slot] + 1;
    tb_whole_sorter sorter = {false, 0, 0};
    uint32_t status = tb_whole_read(r, params, located, slot, &sorter);
    if (r.s->chain.bad) status = TOMBOLA_ROW_BAD_PARAM;
    if (status & (TOMBOLA_ROW_BAD_PARAM | TOMBOLA_ROW_EMPTY)) {
        tb_whole_arrive(r);
        tb_whole_write_void(r, call, index, located, start, (uint32_t)length, status);
        tb_whole_wait(r);
        return;
    }
    bool crowded = false;
    if (SORT && sorter.sorts) {
        const tb_whole_outcome outcome = tb_whole_sort(r, sorter, params, index, status);
        if (outcome == TB_SORT_DONE) return;
        crowded = outcome == TB_SORT_CROWDED;
        /* Everything is found once more, lest it lie in registers, which the sort needs, all the while. */
        tb_forget(&index);
        tb_forget(&team.rank);
        tb_whole_lay_out(r, memory, team);
        r.turn = 1;
        const bool there = tb_fast_locate(call, index, &start, &length);
        r.part = tb_whole_share(r, (const char *)call.data + (size_t)start * R::bytes,
                                there ? (uint32_t)length : 0);
        status = tb_whole_seen(r, params);
    }
    const bool probabilities = call.kind == TOMBOLA_PROBABILITIES,
               ids = call.kept_ids && call.kept_capacity > 0;
    r.weigher = tb_make_weigher(probabilities, law_key_value(r.greatest));
    const tb_facts facts = {status, 0, r.greatest, 0};
    const uint64_t all = tb_floor_of_all(facts, probabilities);
    tb_whole_set set = {all, 0, 0, false};
    if (TOP && !crowded && tb_pick_kind(&call, params.steps) == TB_PICK_BY_COUNT &&
        tb_whole_pick(r, call, index, start, status))
        return;
    const bool top = TOP && tb_wants_top(&call);
    const bool weigh =
        !SORT && (call.probabilities || call.kept_mass || call.total_mass || (top && call.top_logprobs));
    char *masked = call.masked_logits && !SORT ? tb_masked_row(call, index, start) : NULL;
    float *out = call.probabilities && !SORT ? call.probabilities + index * call.probabilities_stride : NULL;
    tb_whole_chain chain = r.s->chain;
    if (SORT) chain.k_after = TB_NO_COUNT, chain.q_before = chain.q_after = 0.0f, chain.p = 1.0f;
    uint64_t mass = 0;
    /* what the chain keeps, and then of that the greatest tokens, if they are wanted: by the same code */
#pragma unroll 1
    for (bool first = true;; first = false) {
        if (!first || call.step_count)
            tb_whole_run_chain(r, chain, !first || call.ties == TOMBOLA_TIES_INDEX,
                               first && (weigh || call.kept_count), &set);
        bool stored = false;
        const uint4 *counts = NULL;
        if (!first || ids || (!set.measured && (weigh || call.kept_count))) {
            /* softmax alone: what is written is made from the ratios, once */
            stored = !SORT && R::dtype == TOMBOLA_F32 && r.weigher.plain &&
                     r.weigher.scale >= TB_LEAST_SCALE && !(status & TOMBOLA_ROW_NAN) && set.floor == all &&
                     call.probabilities && !call.masked_logits && !ids && !call.kept_count && !top;
            counts = tb_whole_measure(r, &set,
                                      stored                            ? TB_WEIGH_AND_STORE
                                      : first && weigh && !set.measured ? TB_WEIGH
                                                                        : TB_COUNT_ONLY);
        }
        if (first && writes) {
            if (call.status) call.status[index] = status;
            if (call.kept_count) call.kept_count[index] = (int32_t)set.count;
            if (call.kept_mass) call.kept_mass[index] = set.mass;
            if (call.total_mass) call.total_mass[index] = set.mass; /* the plan: without filters only */
        }
        if (!first || ids)
            tb_whole_write_ids(r,
                               first ? call.kept_ids + index * call.kept_capacity : tb_whole_top(call, index),
                               first ? call.kept_capacity : call.top_count, set, counts);
        if (!first) break;
        if (!top) tb_whole_arrive(r);
        if (!TOP && call.step_count && r.s->fill && r.s->few) {
            tb_whole_write_few(r, masked, out, set);
        } else {
            if (masked) tb_whole_write_masked(r, masked, set);
            if (out) tb_whole_write_probabilities(r, out, set, stored);
        }
        if (!top) break;
        mass = set.mass;
        chain = {(uint32_t)call.top_count, TB_NO_COUNT, 0.0f, 0.0f, 1.0f, 1.0f, false};
    }
    if (top) tb_whole_write_top(r, call, index, start, set, mass);
    tb_whole_wait(r); /* nobody leaves whose shared memory is being read */
}

template <int dtype, bool TOP, bool SORT = false>
TB_DEV void tb_whole_kernel(const tb_cuda_params &params, char *memory)
{
    const tb_team team = tb_cluster_team();
#if __CUDA_ARCH__ >= 900
    if (team.size > 1) {
        if (threadIdx.x == 0) {
            tb_whole_shared *s = (tb_whole_shared *)memory;
            tb_mail_init(&s->box[0], TB_WHOLE_WARPS);
            tb_mail_init(&s->box[1], TB_WHOLE_WARPS);
            tb_mail_init(&s->list_box, team.size);
            if (SORT) tb_mail_init(&s->kept_box, 1);
            tb_mail_init_done();
        }
        __syncwarp();
        tb_cluster_arrive_relaxed<2>(); /* the others wait for it in tb_whole_read */
    }
#endif
    tb_wait_for_inputs();
    tb_whole_run<dtype, TOP, SORT>(params, memory, team, blockIdx.x >> (__ffs((int)team.size) - 1));
}

#endif
