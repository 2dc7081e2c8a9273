/*
 * Probabilities and masked logits where the chain keeps few tokens and the call draws: the draw's launch has
 * listed what it keeps, so a row is 0 or -inf with the kept tokens written over it, and is not read again.
 * Only where more tokens are kept than a list has room for, as ties at the cut are, the row is read.
 */
#ifndef TB_CUDA_KEPT_ROWS_CUH
#define TB_CUDA_KEPT_ROWS_CUH

#include "blank.cuh"

/* A temperature, the only one, in front of all filters; 1 without one. */
TB_DEV float tb_only_temperature(const tb_cuda_params &params, int64_t slot)
{
    float temperature = 1.0f;
    for (int i = 0; i < params.call.step_count; i++) {
        const tombola_step &step = params.steps[i];
        if (step.kind == TOMBOLA_TEMPERATURE)
            temperature = step.value_per_slot ? step.value_per_slot[slot] : step.value;
    }
    return temperature;
}

/* The blocks of a row, each for a part of it, are a cluster where the device has such. The output is filled
 * before the draw is waited for. */
extern "C" __global__ void __launch_bounds__(TB_KEPT_THREADS)
    tombola_kept_rows(const __grid_constant__ tb_cuda_params params)
{
    constexpr int EACH = TB_LISTED_MOST / 32, WARPS = TB_KEPT_THREADS / 32, U = 8;
    __shared__ uint32_t greatest_of[WARPS];
    const tombola_call &call = params.call;
    const uint32_t blocks = gridDim.x / (uint32_t)call.rows, bytes = tb_bytes(call.dtype);
    const int64_t row = blockIdx.x / blocks;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t start, count;
    tb_gpu_locate(call, row, &start, &count);
    const uint32_t length = (uint32_t)count, share = (length + blocks * 64 - 1) / (blocks * 64) * 64,
                   begin = min(length, blockIdx.x % blocks * share), end = min(length, begin + share);
    const char *source = (const char *)call.data + (size_t)start * bytes;
    float *probabilities =
        call.probabilities ? call.probabilities + row * call.probabilities_stride : nullptr;
    char *masked = call.masked_logits ? tb_masked_row(call, row, start) : nullptr;
    if (probabilities) tb_flood((char *)probabilities, 4, begin, end, 0);
    if (masked) tb_flood(masked, bytes, begin, end, tb_masked_word(call.dtype));
    tb_wait_for_dependencies();
    __syncthreads();

    const int32_t kept = call.kept_count[row];
    const bool all_listed = kept <= TB_LISTED_MOST;
    if (kept <= 0 || (all_listed && warp)) return;
    auto value = [&](uint32_t i) {
        const uint32_t bits = tb_element_bits(source, i, bytes);
        return call.dtype == TOMBOLA_F32   ? law_float(bits)
               : call.dtype == TOMBOLA_F16 ? tb_f16_value(bits)
                                           : law_float(bits << 16);
    };
    /* what is beyond is NaN */
    auto each_value = [&](uint32_t from, uint32_t to, auto visit) {
#pragma unroll 1
        for (uint32_t i = from + threadIdx.x; i < to; i += U * TB_KEPT_THREADS) {
            float x[U];
#pragma unroll
            for (int j = 0; j < U; j++) {
                const uint32_t at = i + j * TB_KEPT_THREADS;
                x[j] = at < to ? value(at) : law_float(LAW_NAN_BITS);
            }
#pragma unroll
            for (int j = 0; j < U; j++) visit(i + j * TB_KEPT_THREADS, x[j]);
        }
    };
    float listed[EACH];
    int32_t id[EACH];
    uint32_t greatest = 0, least = 0xffffffffu;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int at = i * 32 + lane;
        id[i] = at < kept ? call.kept_ids[row * TB_LISTED_MOST + at] : -1;
        if (id[i] < 0) continue;
        listed[i] = value((uint32_t)id[i]);
        greatest = max(greatest, law_key(listed[i]));
        least = min(least, law_key(listed[i]));
    }
    greatest = tb_warp_max(greatest);
    if (!all_listed) { /* the greatest may not be among those of the lowest ids */
        const tb_team team = tb_cluster_team();
        const bool together = team.size == blocks;
        each_value(together ? begin : 0, together ? end : length, [&](uint32_t, float x) {
            if (x > -LAW_INF) greatest = max(greatest, law_key(x));
        });
        greatest = tb_warp_max(greatest);
        if (lane == 0) greatest_of[warp] = greatest;
        tb_team_barrier(team);
        for (uint32_t i = 0; i < team.size; i++)
            greatest = max(greatest, *tb_team_at(team, &greatest_of[lane % WARPS], i));
        greatest = tb_warp_max(greatest);
        tb_team_barrier(team); /* all have read */
    }
    tb_weigher w = tb_make_weigher(false, law_key_value(greatest));
    tb_set_temperature(&w, tb_only_temperature(params, tb_gpu_slot(call, row)));
    const float scale = probabilities ? tb_renorm_scale(w, call.kept_mass[row]) : 0.0f;
    auto write = [&](uint32_t i, float x) {
        if (probabilities) probabilities[i] = tb_renormalised(false, tb_ratio(w, x), scale);
        if (masked) tb_copy_element(masked, i, source, i, bytes);
    };
    if (all_listed) {
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (id[i] >= (int32_t)begin && id[i] < (int32_t)end) write((uint32_t)id[i], listed[i]);
    } else {
        const float floor = law_key_value(tb_warp_min(least));
        each_value(begin, end, [&](uint32_t i, float x) {
            if (x >= floor) write(i, x);
        });
    }
}

#endif
