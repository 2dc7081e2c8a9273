/*
 * Candidates of the streaming kernel (fast_stream.cuh) and the groups of tiles that hold them: how a row
 * falls into tiles and groups, a candidate's way to the leader, and the groups' masses where the interval of
 * Z must be narrowed.
 */
#ifndef TB_CUDA_FAST_CANDIDATES_CUH
#define TB_CUDA_FAST_CANDIDATES_CUH

#include "fast_shared.cuh"

/* The row's vectors go round the blocks: vector j of a thread's tile t is number (t * U + j) * C * NT + rank
 * * NT + thread. So tokens that lie together, as frequent ones do, spread over blocks and folds. */
template <int C, int NT, int U> TB_DEV uint32_t tb_slice_tiles(const tb_fast_slice &slice, int *group_shift)
{
    uint32_t tiles = (slice.end + C * NT * U - 1) / (C * NT * U);
    *group_shift = 0;
    while (((tiles + (1u << *group_shift) - 1) >> *group_shift) > TB_MAX_GROUPS) ++*group_shift;
    return tiles;
}

/* A candidate to the leader's list, if `here`; a predicate rather than a branch. */
template <int C> TB_DEV void tb_push(uint2 *to, bool here, uint32_t bits, uint32_t index, uint64_t *box)
{
    uint32_t address = tb_shared_address(to);
    if (C == 1) {
        asm volatile(
            "{\n.reg .pred here;\nsetp.ne.u32 here, %0, 0;\n@here st.shared.v2.b32 [%1], {%2, %3};\n}" ::"r"(
                (uint32_t)here),
            "r"(address), "r"(bits), "r"(index)
            : "memory");
    } else {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
        asm volatile(
            "{\n.reg .pred here;\n.reg .b32 to, box;\nsetp.ne.u32 here, %0, 0;\n"
            "mapa.shared::cluster.u32 to, %1, 0;\nmapa.shared::cluster.u32 box, %4, 0;\n"
            "@here st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [to], {%2, %3}, [box];\n}" ::
                "r"((uint32_t)here),
            "r"(address), "r"(bits), "r"(index), "r"(tb_shared_address(box))
            : "memory");
#endif
    }
}

/* Vectors of the block's slice again, from the copy in shared memory where there is one. */
template <int dtype, int C, int NT, int U, bool STAGED>
TB_DEV uint4 tb_reload(const tb_fast_slice &slice, const uint4 *stage, uint32_t tile, int j, uint32_t column)
{
    constexpr uint32_t none = tb_minus_infinity<dtype>();
    if (STAGED) return stage[(tile * U + j) * NT + column];
    uint32_t vector = (tile * U + j) * (C * NT) + (C == 1 ? 0 : blockIdx.x % C * NT) + column;
    if (vector >= slice.end) return make_uint4(none, none, none, none);
    if (vector >= slice.whole_first && vector < slice.whole_end)
        return tb_load_stream(slice.base + (size_t)vector * 16);
    return tb_load_edge<dtype>(slice.base + (size_t)vector * 16,
                               vector * tb_fast_vector<dtype>::width - slice.shift, slice.length);
}

/* Exact masses and f32 sums of the candidates' groups, for the leader. By every block's seekers. */
template <int dtype, int C, int NT, int U, bool STAGED, class S>
static __device__ __noinline__ void tb_narrow(const uint4 *stage, float maximum)
{
    S &s = *(S *)tb_fast_bytes;
    const tb_fast_slice slice = s.slice;
    const float c = s.chain.scale, r_row = tb_reference_exponent(maximum, c);
    int group_shift;
    const uint32_t tiles = tb_slice_tiles<C, NT, U>(slice, &group_shift);
    double taken = 0.0;
    uint64_t exact = 0;
    for (uint32_t i = threadIdx.x; i < s.list_length; i += TB_SEEKERS) {
        uint32_t group = s.list[i] / NT, column = s.list[i] % NT,
                 end = min(tiles, (group + 1) << group_shift);
        for (uint32_t t = group << group_shift; t < end; t++) {
            uint4 v[U];
#pragma unroll
            for (int j = 0; j < U; j++) v[j] = tb_reload<dtype, C, NT, U, STAGED>(slice, stage, t, j, column);
            float m = tb_tile_max<dtype, U>(v);
            if (law_isnan(m)) {
                tb_drop_nan<dtype, U>(v);
                m = tb_tile_max<dtype, U>(v);
            }
            float r = tb_reference_exponent(m, c);
            taken += (double)tb_tile_sum<dtype, U>(v, c, r) * (double)tb_power(r - r_row) * 0x1p40;
            constexpr int width = tb_fast_vector<dtype>::width;
#pragma unroll
            for (int j = 0; j < U; j++)
#pragma unroll
                for (int e = 0; e < width; e++)
                    exact += law_weight(law_exponent(tb_element<dtype>(v[j], e), maximum, c));
        }
    }
    __syncwarp();
    exact = tb_warp_sum64(exact);
#pragma unroll
    for (int d = 16; d; d /= 2) taken += __shfl_xor_sync(TB_WHOLE_WARP, taken, d);
    if (tb_lane() == 0) {
        atomicAdd((unsigned long long *)&s.base_mass, (unsigned long long)exact);
        atomicAdd(&s.own_taken, taken);
    }
    tb_seek_barrier();
    if (threadIdx.x == 0) {
        int rank = C == 1 ? 0 : (int)(blockIdx.x % C);
        uint64_t bits = (uint64_t)__double_as_longlong(s.own_taken), mass = s.base_mass;
        uint4 word =
            make_uint4((uint32_t)mass, (uint32_t)(mass >> 32), (uint32_t)bits, (uint32_t)(bits >> 32));
        if (C == 1)
            s.narrow[0] = word;
        else
            tb_mail_16(&s.narrow[rank], 0, word, &s.mail_narrow);
    }
}

#endif
