/*
 * Softmax of few rows: each is the work of a cluster of 16 blocks, which have all of it in their registers.
 * No row follows another, so nothing is copied to shared memory, and each step is all warps': they take the
 * greatest value, which goes to all blocks; weigh, exactly; tell all blocks the mass; and write.
 *
 * Rows of all kinds are served, as by the pipe (whole_pipe.cuh).
 */
#ifndef TB_CUDA_WHOLE_ONCE_CUH
#define TB_CUDA_WHOLE_ONCE_CUH

#include "blank.cuh"
#include "fast_flat_pipe_parts.cuh"
#include "once_parts.cuh"

#include <type_traits>

#define TB_ONCE_BLOCKS 16
#define TB_ONCE_WARPS (TB_WHOLE_ONCE_THREADS / 32)

typedef struct tb_once_shared {
    tb_once_maximum<TB_ONCE_BLOCKS, TB_ONCE_WARPS> maximum;
    uint64_t mail_mass;                /* mbarrier */
    uint64_t warp_mass[TB_ONCE_WARPS]; /* of greedy rows: lowest index */
    uint2 mass[TB_ONCE_BLOCKS];
    tb_pipe_row row; /* its chain */
} tb_once_shared;

/* What a thread has of the row; all its loops are unrolled (a loop that moves vectors on: 5.5 for 4.8 us). */
template <int dtype> struct tb_once {
    static constexpr int width = tb_fast_vector<dtype>::width, U = TB_WHOLE_ONCE_WEIGHTS / width;
    typedef std::conditional_t<dtype == TOMBOLA_F32, tb_double_sum, tb_digit_sum> usual_sum;
    uint4 v[U]; /* its vectors, */
    uint32_t
        first[U]; /* the index in the row of each one's first element, which before the row wraps around, */
    float e[U * width]; /* and E(t) of their elements, 0 for what weighs nothing or is not kept */

    /* visit(element, its E(t), its index) */
    template <class Visit> TB_MEMBER void each(Visit visit)
    {
#pragma unroll
        for (int j = 0; j < U; j++)
#pragma unroll
            for (int k = 0; k < width; k++) visit(tb_element<dtype>(v[j], k), e[j * width + k], first[j] + k);
    }

    template <class Sum, class Exponent> TB_MEMBER uint64_t weigh(Exponent exponent)
    {
        Sum sum;
        sum.clear();
        each([&](float x, float &now, uint32_t) { now = tb_power_of_two(exponent(x), -64.0f); });
#pragma unroll
        for (int k = 0; k < U * width; k += 2) sum.add_powers(e[k], e[k + 1]);
        each([&](float, float &now, uint32_t) { now = now >= 0x1p-40f ? now : 0.0f; });
        return sum.total();
    }

    /* Of rows that the usual arithmetic does not serve. */
    TB_MEMBER uint64_t weigh_slowly(const tb_pipe_row &row, bool equal, float maximum)
    {
        const float least = maximum == LAW_INF ? LAW_INF : TB_LEAST, scale = row.scale, least_t = row.least_t;
        uint64_t sum = 0;
        each([&](float x, float &now, uint32_t) {
            const float t = law_exponent(x, maximum, scale);
            const bool kept = x >= least && (equal || t >= least_t);
            now = !kept ? 0.0f : equal ? 1.0f : tb_renormalised(false, tb_exp2(t), 1.0f);
            sum += !kept ? 0 : equal ? LAW_ONE : law_weight(t);
        });
        return sum;
    }

    TB_MEMBER uint32_t find_lowest(float maximum)
    {
        uint32_t lowest = 0xffffffffu;
        each([&](float x, float &, uint32_t index) {
            if (x == maximum) lowest = min(lowest, index);
        });
        return lowest;
    }

    /* E(t) times the scale, of the elements that lie in the row. */
    TB_MEMBER void write(float *out, uint32_t length, float scale)
    {
#pragma unroll
        for (int j = 0; j < U; j++) {
            const uint32_t index = first[j];
            const float *from = e + j * width;
            const bool inside = index < length && index + width <= length;
            if (inside && ((uintptr_t)(out + index) & 15) == 0) {
#pragma unroll
                for (int k = 0; k < width; k += 4)
                    tb_store16(out + index + k,
                               make_uint4(law_bits(from[k] * scale), law_bits(from[k + 1] * scale),
                                          law_bits(from[k + 2] * scale), law_bits(from[k + 3] * scale)));
            } else {
#pragma unroll
                for (int k = 0; k < width; k++)
                    if (index + k < length) out[index + k] = from[k] * scale;
            }
        }
    }
};

TB_DEV void tb_once_words(const tombola_call &call, int64_t index, uint32_t status, uint64_t mass)
{
    if (call.status) call.status[index] = status;
    if (call.kept_mass) call.kept_mass[index] = mass;
    if (call.total_mass) call.total_mass[index] = mass;
}

template <int dtype> TB_DEV void tb_run_once(const tb_cuda_params &params)
{
    constexpr int C = TB_ONCE_BLOCKS, WARPS = TB_ONCE_WARPS, U = tb_once<dtype>::U,
                  width = tb_once<dtype>::width;
    __shared__ tb_once_shared s;
    const tombola_call &call = params.call;
    const int64_t index = blockIdx.x / C;
    const int rank = (int)(blockIdx.x % C), warp = (int)tb_warp(), lane = (int)tb_lane();
    if (threadIdx.x == 0) {
        s.maximum.open();
        tb_mail_init(&s.mail_mass, 1);
        tb_mail_init_done();
        s.maximum.expect();
        tb_mail_expect(&s.mail_mass, C * 8);
    }
    __syncwarp();
    tb_cluster_arrive_relaxed<C>();
    tb_wait_for_inputs(params.part);
    int64_t start, count;
    const bool located = tb_fast_locate(call, index, &start, &count);
    const tb_fast_slice slice =
        tb_make_slice<dtype>((const char *)call.data + (size_t)start * tb_fast_vector<dtype>::bytes,
                             located ? (uint32_t)count : 0, rank, C);
    tb_once<dtype> mine;
    tb_load_tile<dtype, TB_WHOLE_ONCE_THREADS, U>(slice, slice.first, mine.v);
    if (warp == WARPS - 1) {
        const int64_t slot = tb_gpu_slot(call, index);
        tb_row_chain(params, located, slot, &s.row);
        if (rank == 0 && lane == 0) tb_fast_advance(params, index, slot);
    }
#pragma unroll
    for (int j = 0; j < U; j++) { /* vectors beyond the block's share are another's */
        const uint32_t vector = slice.first + threadIdx.x + j * TB_WHOLE_ONCE_THREADS;
        mine.first[j] = vector < slice.end ? vector * width - slice.shift : 0x80000000u;
    }
    uint32_t status = 0;
    float top = tb_tile_max<dtype, U>(mine.v);
    if (law_isnan(top)) {
        status = TOMBOLA_ROW_NAN;
        tb_drop_nan<dtype, U>(mine.v);
        top = tb_tile_max<dtype, U>(mine.v);
    }
    const uint2 told = s.maximum.agree(rank, top, status);
    const uint32_t greatest = told.x;
    status = told.y;
    const float maximum = law_key_value(greatest);
    const tb_pipe_kind kind = tb_pipe_kind_of(s.row, greatest);
    const bool says = rank == 0 && threadIdx.x == 0;
    float *out = call.probabilities + index * call.probabilities_stride;
    if (kind == TB_PIPE_VOID) {
        tb_gpu_locate(call, index, &start, &count); /* elements are written of rows that are nowhere, too */
        tb_flood((char *)out, 4, (uint32_t)(count * rank / C), (uint32_t)(count * (rank + 1) / C), 0);
        if (says)
            tb_once_words(call, index, s.row.bad ? TOMBOLA_ROW_BAD_PARAM : status | TOMBOLA_ROW_EMPTY, 0);
        return;
    }
    uint64_t mass;
    const float factor = s.row.scale * -0x1p-6f, most = s.row.least_t * -0x1p-6f;
    if (kind == TB_PIPE_GREEDY) {
        mass = mine.find_lowest(maximum);
        mass = tb_warp_min((uint32_t)mass);
    } else {
        if (kind != TB_PIPE_USUAL || s.row.scale < TB_LEAST_SCALE)
            mass = mine.weigh_slowly(s.row, kind == TB_PIPE_EQUAL, maximum);
        else if (most != 1.0f || (dtype == TOMBOLA_F32 && params.slow_doubles))
            mass = mine.template weigh<tb_digit_sum>([&](float x) {
                const float u = tb_scaled_exponent(x, maximum, factor);
                return u <= most ? u : 1.0f;
            });
        else
            mass = mine.template weigh<typename tb_once<dtype>::usual_sum>(
                [&](float x) { return tb_scaled_exponent(x, maximum, factor); });
        mass = tb_warp_sum54(mass);
    }
    if (lane == 0) s.warp_mass[warp] = mass;
    __syncthreads();
    if (warp == 0) {
        mass = lane < WARPS ? s.warp_mass[lane] : 0;
        if (kind == TB_PIPE_GREEDY)
            mass = tb_warp_min(lane < WARPS ? (uint32_t)mass : 0xffffffffu);
        else
            mass = tb_warp_sum64(mass);
        if (lane < C) tb_mail_8(&s.mass[rank], lane, (uint32_t)mass, (uint32_t)(mass >> 32), &s.mail_mass);
    }
    tb_mail_await(&s.mail_mass);
    const uint2 part = s.mass[lane % C];
    float scale = 1.0f;
    if (kind == TB_PIPE_GREEDY) {
        const uint32_t at = tb_warp_min(part.x);
        mine.each([&](float, float &now, uint32_t i) { now = i == at ? 1.0f : 0.0f; });
        mass = LAW_ONE;
    } else {
        mass = tb_warp_sum64(lane < C ? (uint64_t)part.y << 32 | part.x : 0);
        scale = law_renorm_scale(mass);
    }
    mine.write(out, slice.length, scale);
    if (says)
        tb_once_words(call, index, status | (greatest == TB_KEY_POS_INF ? TOMBOLA_ROW_POS_INF : 0u), mass);
    /* A block has waited for all messages to it, so none is on its way to one that has ended. */
}

#endif
