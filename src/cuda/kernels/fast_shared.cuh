/*
 * What the blocks of a row hold in shared memory while the streaming kernel (fast_stream.cuh) serves it, and
 * the barriers of the warps that finish the row.
 */
#ifndef TB_CUDA_FAST_SHARED_CUH
#define TB_CUDA_FAST_SHARED_CUH

#include "fast_parts.cuh"
#include "fast_turns.cuh"

#define TB_FEW 96           /* so many candidates are ranked by comparing all pairs */
#define TB_PAIRS 128        /* of more, so many tokens of a bin meet in pairs */
#define TB_BINS 128         /* of candidates, in value and in index */
#define TB_COUNT_AT 52      /* counts of candidates above their masses, at most 2^51, in one number */
#define TB_KEPT 0x80000000u /* marks the index of a token that is kept */
#define TB_PARTS 16         /* in which a group's sum counts, of its maximum's weight */
#define TB_MAX_GROUPS 16    /* of a thread */
#define TB_LEFT_BOXES 6     /* mbarriers of the wide code */

typedef struct __align__(16) tb_fast_token
{
    uint32_t key, index; /* law_key of its value */
    uint64_t weight;
}
tb_fast_token;

/* Counts of candidates and their exact masses, in two digits each. */
typedef struct __align__(16) tb_stream_bins
{
    uint32_t high[TB_BINS], low[TB_BINS], count[TB_BINS];
}
tb_stream_bins;

typedef struct __align__(16) tb_fast_warp
{
    uint32_t key, status; /* greatest key; status bits */
    uint64_t fixed;       /* f32 mass, 2^40 * 2^-r of it, r the reference exponent of the greatest value */
}
tb_fast_warp;

/* Adds to a shared word, and says what it was. As assembly: the compiler would have the threads that are
 * there add theirs up first, which they are here already. */
TB_DEV uint32_t tb_shared_add(uint32_t *to, uint32_t x)
{
    uint32_t old;
    asm volatile("atom.shared.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "r"(tb_shared_address(to)), "r"(x)
                 : "memory");
    return old;
}

TB_DEV void tb_shared_red(uint32_t *to, uint32_t x)
{
    asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(tb_shared_address(to)), "r"(x) : "memory");
}

/* Eight warps finish a row, however many threads read it: what is left is short and dependent, and a kernel
 * runs such code at the speed at which its instructions come, so few warps should ask for them. Before that
 * all warps but one seek the candidates; that one works out the interval of p * Z. Both barriers are of a
 * block's first threads: racecheck takes no others for the threads of a barrier of a part of them. */
#define TB_FINISHERS 256

TB_DEV void tb_finish_barrier(void)
{
    asm volatile("bar.sync 1, 256;" ::: "memory");
}

template <int NT> TB_DEV void tb_seek_barrier(void)
{
    asm volatile("bar.sync 2, %0;" ::"n"(NT - 32) : "memory");
}

/* Of all warps that read a row; a block's helping warp, which is beside them, does not take part. */
template <int NT, bool HELPED> TB_DEV void tb_reader_barrier(void)
{
    if (HELPED)
        asm volatile("bar.sync 3, %0;" ::"n"(NT) : "memory");
    else
        __syncthreads();
}

/* Of the same warps, when each has its sum: those that do not need the others' only say so. */
template <int NT> TB_DEV void tb_sums_barrier(void)
{
    asm volatile("bar.sync 4, %0;" ::"n"(NT) : "memory");
}

template <int NT> TB_DEV void tb_sums_arrive(void)
{
    asm volatile("bar.arrive 4, %0;" ::"n"(NT) : "memory");
}

/* An mbarrier for what one thread tells others of its block, once. */
TB_DEV void tb_told_init(uint64_t *told)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(tb_shared_address(told)) : "memory");
}

TB_DEV void tb_told_close(uint64_t *told)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(tb_shared_address(told)) : "memory");
}

TB_DEV void tb_tell(uint64_t *told)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(tb_shared_address(told)) : "memory");
}

TB_DEV void tb_told_wait(uint64_t *told)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again;\n}" ::"r"(tb_shared_address(told))
                 : "memory");
#else
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.test_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@done bra over;\nnanosleep.u32 100;\nbra again;\nover:\n}" ::"r"(tb_shared_address(told))
                 : "memory");
#endif
}

/* Whether it has been told. */
TB_DEV bool tb_told_yet(uint64_t *told)
{
    uint32_t yes;
    asm volatile("{\n.reg .pred done;\nmbarrier.test_wait.parity.shared::cta.b64 done, [%1], 0;\n"
                 "selp.u32 %0, 1, 0, done;\n}"
                 : "=r"(yes)
                 : "r"(tb_shared_address(told))
                 : "memory");
    return yes != 0;
}

/* Sets up the boxes of rows that are left, by one thread: words of all warps, of two exchanges; bins from all
 * blocks, and to all; their lists; their counts. */
template <int C, int WARPS> TB_DEV void tb_left_boxes(uint64_t *box)
{
    tb_mail_init(&box[0], WARPS);
    tb_mail_init(&box[1], WARPS);
    tb_mail_init(&box[2], 1);
    tb_mail_init(&box[3], 1);
    tb_mail_init(&box[4], C);
    tb_mail_init(&box[5], 1);
    tb_mail_init_done();
}

/* The verdict, from the finishers to the threads of their block that do not finish the row. */
template <class S> TB_DEV void tb_tell_block(S &s, uint32_t verdict)
{
    if (threadIdx.x != 32) return;
    s.verdict = verdict;
    tb_tell(&s.told);
}

/* Whether the row is left, for the threads that do not finish it. */
template <int C, class S> TB_DEV bool tb_await_verdict(S &s, bool leader)
{
    if (C > 1 && !leader) {
        tb_mail_await(&s.mail_verdict);
        if (s.verdict != TB_ROW_NARROWED) return s.verdict == TB_ROW_LEFT;
        tb_mail_wait(&s.mail_first, 1);
        return s.last_verdict == TB_ROW_LEFT;
    }
    tb_told_wait(&s.told);
    return s.verdict == TB_ROW_LEFT;
}

/* A thread's number among those that seek. */
TB_DEV int tb_seeker(void)
{
    return (int)threadIdx.x;
}

/* What of a chain bounds the candidates: a top_k and a least weight. */
typedef struct tb_stream_rule {
    int32_t k; /* TB_OFF: none */
    uint64_t w;
    bool p_whole;     /* a top_p whose Z is the row's */
    bool before_only; /* a top_p whose Z is a sum over candidates: only what stands before it bounds them */
    uint64_t counted; /* the least weight of a candidate that may matter to others */
} tb_stream_rule;

template <int C, int NT, int CAP, int SEG, int CAUGHT> struct tb_stream_shared {
    static constexpr int WARPS = NT / 32, FOLDS = 128;
    static constexpr int INTERVAL_WARP = WARPS - 1;        /* the one that works out the interval of p * Z */
    static constexpr bool ALONE = C == 1, HELPED = C >= 8; /* HELPED: a warp more reads the chain */
    static constexpr bool TELLS = HELPED || NT > TB_FINISHERS;
    static constexpr bool TURNS = ALONE && NT > TB_FINISHERS; /* a multiprocessor has two blocks */
    static constexpr int WORDS = C == 1 ? WARPS : C;          /* of what the row's warps or blocks said */
    static constexpr int CAPACITY = CAP, SEGMENT = SEG;       /* candidates of the row, of one block */
    static constexpr int LIST = CAP;                          /* groups of a block */
    static constexpr int CATCH = CAUGHT;                      /* vectors of a warp */
    /* mbarriers: of the code for rows that are left, which has them here too; */
    uint64_t left_mail[TB_LEFT_BOXES];
    uint64_t mail_first, mail_sums, mail_second, mail_histogram[2], mail_verdict, mail_narrow;
    /* and within the block: the verdict, or of blocks that have a warp more, the chain; and of these, that
     * the folds are there, and the bound */
    uint64_t told, told_folds, told_bound;
    tb_fast_token token[CAP];
    uint2 raw[C > 1 ? C *SEG : 1];                         /* value bits, index: C segments */
    alignas(16) float group[TB_MAX_GROUPS * NT];           /* maxima */
    uint4 caught[CAUGHT ? WARPS : 1][CAUGHT ? CAUGHT : 1]; /* each warp's vectors, and their numbers */
    uint32_t caught_vector[CAUGHT ? WARPS : 1][CAUGHT ? CAUGHT : 1];
    uint32_t caught_count[WARPS];
    float caught_least[WARPS];    /* what is at least this was caught, if there was room */
    uint16_t list[LIST];          /* groups that are looked at again, or whose mass narrows the interval */
    tb_stream_bins bins[2];       /* of the candidates' values, of the kept ones' indices */
    tb_fast_token pair[TB_PAIRS]; /* tokens that meet in pairs; few candidates: all, in order of the index */
    uint64_t own_pair[C == 1 && !CAUGHT ? TB_FINISHERS / 32 : 1][C == 1 && !CAUGHT ? TB_FEW : 1];
    uint16_t pair_at[TB_PAIRS];                    /* their places among all candidates */
    tb_fast_warp warp[WARPS], word[C > 1 ? C : 1]; /* what each warp says; of each block */
    alignas(16) float fold[FOLDS];         /* maxima rounded down, all different; -FLT_MAX and up: none */
    alignas(16) uint32_t group_count[256]; /* of a histogram's bins */
    alignas(16) uint32_t helper_count[HELPED ? FOLDS : 1];
    alignas(16) uint32_t group_count_all[C > 1 ? 256 : 1];
    tb_fast_chain chain;
    tb_stream_rule rule;
    tb_fast_slice slice;
    tb_turns *turns; /* the block takes turns: where they are counted */
    uint64_t random;
    uint4 histogram[2][C][C > 1 ? 32 : 1]; /* of every block, 8 counts of 16 bits a vector */
    uint4 narrow[C]; /* of each block: exact mass of the candidates' groups, and the binary64 of their f32
                        sums */
    alignas(8) uint2 pushed[C]; /* of each block: its candidates; greedy: the lowest index */
    uint32_t own_pushed, own_first, verdict, last_verdict, list_length, narrow_length;
    float bound, bound_try, bound_w;  /* of the candidates; the least value of a min_p */
    float value_bins;                 /* bins of the candidates in a unit */
    uint32_t finished;                /* warps with the pass */
    uint64_t target_low, target_high; /* of top_p, from the interval of Z */
    double relative, unit;
    uint32_t listed[3];           /* tokens in s.pair: for the cut, twice, and for the draw */
    uint32_t rest_high, rest_low; /* sums, as they are needed */
    uint32_t drawn_key, before_high, before_low, ambiguous;
    unsigned long long depth_first, depth_last, base_mass;
    double own_taken;

    /* Where the folds are counted: by a warp of its own beside other work, if there is one. */
    TB_MEMBER uint32_t *fold_count()
    {
        return HELPED ? helper_count : group_count;
    }

    /* The groups' sums, in parts of their maxima's weights, until the candidates need the memory. */
    TB_MEMBER uint16_t *group_parts()
    {
        static_assert(2 * sizeof token >= sizeof group, "");
        return (uint16_t *)token;
    }

    /* Sets up the mail, by one thread. */
    TB_MEMBER void open()
    {
        tb_mail_init(&mail_first, 1);
        tb_mail_init(&mail_sums, 1);
        tb_mail_init(&mail_second, C);
        tb_mail_init(&mail_verdict, 1);
        tb_mail_init(&mail_histogram[0], 1);
        tb_mail_init(&mail_histogram[1], 1);
        tb_mail_init(&mail_narrow, 1);
        if (HELPED) {
            tb_told_init(&told);
            tb_told_init(&told_folds);
            tb_told_init(&told_bound);
        }
        tb_mail_init_done();
        tb_mail_expect(&mail_first, C * 8 + FOLDS * 4);
        tb_mail_expect(&mail_sums, C * 8);
        tb_mail_expect(&mail_verdict, 4);
        tb_mail_expect(&mail_histogram[0], C * 512);
        tb_mail_expect(&mail_histogram[1], C * 512);
        tb_mail_expect(&mail_narrow, C * 16);
    }
};

/* Where the finishing warps put what they found of pairs: memory that is free by then. */
template <int C, int NT, int CAP, int SEG, int CAUGHT>
TB_DEV uint64_t *tb_pair_room(tb_stream_shared<C, NT, CAP, SEG, CAUGHT> &s)
{
    constexpr size_t bytes = (TB_FINISHERS / 32) * TB_FEW * sizeof(uint64_t);
    static_assert(C > 1 ? sizeof s.raw >= bytes : !CAUGHT || sizeof s.caught >= bytes, "");
    return C > 1 ? (uint64_t *)s.raw : CAUGHT ? (uint64_t *)s.caught : s.own_pair[0];
}

extern __shared__ __align__(128) unsigned char tb_fast_bytes[];

#endif
