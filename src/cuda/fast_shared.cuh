/*
 * What the blocks of a row hold in shared memory while the streaming kernel (fast_stream.cuh) serves it, and
 * the barriers of the warps that finish the row.
 */
#ifndef TB_CUDA_FAST_SHARED_CUH
#define TB_CUDA_FAST_SHARED_CUH

#include "fast_parts.cuh"

#define TB_PAIRS 128     /* so many tokens are ranked by comparing all pairs */
#define TB_MAX_GROUPS 16 /* of a thread */

typedef struct __align__(16) tb_fast_token
{
    uint32_t key, index, high, low; /* law_key of its value; weight = high * 2^20 + low */
}
tb_fast_token;

typedef struct __align__(16) tb_fast_warp
{
    uint32_t key, status; /* greatest key; status bits */
    uint64_t fixed;       /* f32 mass, 2^40 * 2^-r of it, r the reference exponent of the greatest value */
}
tb_fast_warp;

/* Eight warps finish a row, however many threads read it: what is left is short and dependent, and a kernel
 * runs such code at the speed at which its instructions come, so few warps should ask for them. Seven of them
 * seek the candidates while the eighth works out the interval of p * Z. */
#define TB_FINISHERS 256
#define TB_SEEKERS 224

TB_DEV void tb_finish_barrier(void)
{
    asm volatile("bar.sync 1, 256;" ::: "memory");
}

TB_DEV void tb_seek_barrier(void)
{
    asm volatile("bar.sync 2, 224;" ::: "memory");
}

template <int C, int NT, int CAP, int SEG> struct tb_stream_shared {
    static constexpr int WARPS = NT / 32, ROW_WARPS = C * WARPS, FOLDS = 128;
    static constexpr int CAPACITY = CAP, SEGMENT = SEG; /* candidates of the row, of one block */
    static constexpr int LIST = CAP / 2;                /* groups that are re-read */
    tb_fast_token token[CAP];
    uint2 raw[C * SEG];              /* value bits, index: C segments */
    float group[TB_MAX_GROUPS * NT]; /* maxima */
    uint32_t list[LIST];
    tb_fast_token kept[TB_PAIRS];
    tb_fast_warp warp[ROW_WARPS];
    alignas(16) uint32_t fold[FOLDS];
    uint32_t group_count[256], group_count_all[256];
    uint32_t count[256], high[256], low[256];
    tb_fast_chain chain;
    tb_fast_slice slice;
    uint64_t random;
    uint64_t mail_first, mail_second, mail_histogram, mail_verdict, mail_narrow; /* mbarriers */
    uint4 histogram[C][32]; /* of every block, 8 counts of 16 bits a vector */
    uint4 narrow[C]; /* of each block: exact mass of the candidates' groups, and the binary64 of their f32
                        sums */
    alignas(8) uint2 pushed[C]; /* of each block: its candidates; greedy: the lowest index */
    uint32_t own_pushed, own_first, verdict, list_length, long_list;
    float bound, bound_final, bound_w;
    uint64_t target_low, target_high; /* of top_p, from the interval of Z */
    double relative, unit;
    uint32_t sum_high, sum_low, before_high, before_low, kept_high, kept_low, kept_count, ambiguous,
        list_count;
    uint32_t bin, base_count;
    uint64_t base_mass, cut, position;
    double own_taken;
};

extern __shared__ __align__(128) unsigned char tb_fast_bytes[];

#endif
