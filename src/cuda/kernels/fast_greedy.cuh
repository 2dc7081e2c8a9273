/*
 * The greedy kernel: a temperature of 0 for all rows, so that the first of a row's greatest tokens is the
 * result, whatever filters follow. C blocks of NT threads read a row once (a cluster where C > 1). A thread
 * keeps the greatest vector of its tiles, the first of equal ones; one message from each block to the first,
 * and the row is done.
 */
#ifndef TB_CUDA_FAST_GREEDY_CUH
#define TB_CUDA_FAST_GREEDY_CUH

#include "fast_parts.cuh"

/* The greatest token of a part of a row: the key of its value, its index, and the status bits. */
typedef struct __align__(16) tb_greedy_word
{
    uint32_t key, index, status, unused;
}
tb_greedy_word;

template <int C, int NT> struct tb_greedy_shared {
    static constexpr int WARPS = NT / 32;
    uint64_t mail; /* mbarrier */
    tb_greedy_word warp[WARPS], block[C];
    uint32_t bad;
};

/* By one warp, of the words of as many parts as `count`. */
TB_DEV tb_greedy_word tb_greatest_word(const tb_greedy_word *words, int count)
{
    tb_greedy_word word = {0, ~0u, 0, 0};
    if ((int)tb_lane() < count) word = words[tb_lane()];
    const uint32_t key = tb_warp_max(word.key);
    return {key, tb_warp_min(word.key == key ? word.index : ~0u), tb_warp_or(word.status), 0};
}

/* By one warp: whether a step of the chain has a value that makes the row a bad one. */
TB_DEV bool tb_has_bad_step(const tb_cuda_params &params, bool located, int64_t slot)
{
    bool bad = !located || slot < 0;
    if (!bad && (int)tb_lane() < params.checked_steps) {
        const tombola_step &step = params.steps[tb_lane()];
        const float value = step.value_per_slot ? step.value_per_slot[slot] : step.value;
        bad = (step.kind != TOMBOLA_TOP_K && law_isnan(value)) ||
              (step.kind == TOMBOLA_TEMPERATURE && value < 0.0f);
    }
    return __any_sync(TB_WHOLE_WARP, bad);
}

/* By one thread: the outputs; kept_ids but for the first are written before. */
TB_DEV void tb_write_greedy(const tombola_call &call, int64_t row, const tb_greedy_word &word, bool bad)
{
    const bool empty = bad || word.key < TB_KEY_LEAST_LOGIT;
    const uint32_t status = bad                          ? (uint32_t)TOMBOLA_ROW_BAD_PARAM
                            : empty                      ? word.status | TOMBOLA_ROW_EMPTY
                            : word.key == TB_KEY_POS_INF ? word.status | TOMBOLA_ROW_POS_INF
                                                         : word.status;
    const int32_t token = empty ? -1 : (int32_t)word.index;
    const tb_fast_result result = {token, empty ? 0 : 1, 0, status, 0.0f, empty ? 0 : LAW_ONE};
    if (call.kept_ids && call.kept_capacity > 0) call.kept_ids[row * call.kept_capacity] = token;
    tb_fast_write(call, row, result);
    if (call.total_mass) call.total_mass[row] = result.mass;
    if (call.entropy && !empty) call.entropy[row] = 0.0f;
}

template <int dtype, int C, int NT> TB_DEV void tb_run_greedy(const tb_cuda_params &params)
{
    typedef tb_greedy_shared<C, NT> S;
    constexpr int WARPS = S::WARPS, width = tb_fast_vector<dtype>::width, U = 32 / width;
    __shared__ S s;
    const tombola_call &call = params.call;
    const int64_t row = blockIdx.x / C;
    const int rank = C == 1 ? 0 : (int)(blockIdx.x % C), warp = (int)tb_warp(), lane = (int)tb_lane();
    if (C > 1) {
        if (threadIdx.x == 0) {
            tb_mail_init(&s.mail, 1);
            tb_mail_init_done();
            if (rank == 0) tb_mail_expect(&s.mail, C * sizeof(tb_greedy_word));
        }
        __syncwarp();
        tb_cluster_arrive_relaxed<C>();
    }
    tb_wait_for_inputs(params.part);
    int64_t start, count;
    const bool located = tb_fast_locate(call, row, &start, &count);
    const tb_fast_slice slice =
        tb_make_slice<dtype>((const char *)call.data + (size_t)start * tb_fast_vector<dtype>::bytes,
                             located ? (uint32_t)count : 0, rank, C);
    bool asks = rank == 0 && warp == WARPS - 1; /* this warp has the chain to look at, too */
    float best = -LAW_INF;
    uint32_t best_at = slice.first, status = 0;
    constexpr uint32_t none = tb_minus_infinity<dtype>();
    uint4 best_vector = make_uint4(none, none, none, none);
#pragma unroll 1
    for (uint32_t at = slice.first; at < slice.end || asks; at += NT * U) {
        uint4 v[U];
        if (at >= slice.whole_first && at + NT * U <= min(slice.end, slice.whole_end))
            tb_load_inner_tile<NT, U>(slice.base + (size_t)(at + threadIdx.x) * 16, v);
        else
            tb_load_tile<dtype, NT, U>(slice, at, v);
        if (asks) { /* while they are under way */
            const int64_t slot = tb_gpu_slot(call, row);
            const bool bad = tb_has_bad_step(params, located, slot);
            if (lane == 0) {
                s.bad = bad;
                tb_fast_advance(params, row, slot);
            }
            asks = false;
        }
        float m = tb_tile_max<dtype, U>(v);
        if (law_isnan(m)) {
            status = TOMBOLA_ROW_NAN;
            tb_drop_nan<dtype, U>(v);
            m = tb_tile_max<dtype, U>(v);
        }
        if (m > best) {
            best = m;
#pragma unroll
            for (int j = U - 1; j >= 0; j--)
                if (tb_vector_max<dtype>(v[j]) == m) best_vector = v[j], best_at = at + j * NT;
        }
    }
    tb_greedy_word word = {tb_warp_max(law_key(best + 0.0f)), ~0u, tb_warp_or(status), 0}; /* -0 is 0 */
    uint32_t index = ~0u;
    if (law_key(best + 0.0f) == word.key) {
#pragma unroll
        for (int e = width - 1; e >= 0; e--)
            if (tb_element<dtype>(best_vector, e) == best)
                index = (best_at + threadIdx.x) * width + e - slice.shift;
    }
    word.index = tb_warp_min(index);
    if (lane == 0) s.warp[warp] = word;
    __syncwarp();
    tb_cluster_wait<C>(); /* all blocks run */
    __syncthreads();
    if (rank == 0 && call.kept_ids) /* one at most */
#pragma unroll 1
        for (int64_t i = 1 + threadIdx.x; i < call.kept_capacity; i += NT)
            call.kept_ids[row * call.kept_capacity + i] = -1;
    if (warp) return;
    word = tb_greatest_word(s.warp, WARPS);
    if (C > 1) {
        if (lane == 0)
            tb_mail_16(&s.block[rank], 0, make_uint4(word.key, word.index, word.status, 0), &s.mail);
        if (rank) return;
        tb_mail_await(&s.mail);
        word = tb_greatest_word(s.block, C);
    }
    if (lane == 0) tb_write_greedy(call, row, word, s.bad);
}

#endif
