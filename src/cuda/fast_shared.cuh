/*
 * What the blocks of a row hold in shared memory while the streaming kernel (fast_stream.cuh) serves it, and
 * the barriers of the warps that finish the row.
 */
#ifndef TB_CUDA_FAST_SHARED_CUH
#define TB_CUDA_FAST_SHARED_CUH

#include "fast_parts.cuh"

#define TB_PAIRS 128     /* so many tokens are ranked by comparing all pairs */
#define TB_PAIR_STEP 16  /* tokens by which they are filled up */
#define TB_MAX_GROUPS 16 /* of a thread */

typedef struct __align__(16) tb_fast_token
{
    uint32_t key, index; /* law_key of its value */
    uint64_t weight;
}
tb_fast_token;

/* Fills a list up: less than any token, and after them all. */
TB_DEV tb_fast_token tb_no_token(void)
{
    tb_fast_token none = {0, 0xffffffffu, 0};
    return none;
}

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

/* Eight warps finish a row, however many threads read it: what is left is short and dependent, and a kernel
 * runs such code at the speed at which its instructions come, so few warps should ask for them. Before that
 * all warps but one seek the candidates; that one works out the interval of p * Z. Both barriers are of a
 * block's first threads: racecheck takes no others for the threads of a barrier of a part of them. */
#define TB_FINISHERS 256
#define TB_INTERVAL_WARP (S::WARPS - 1)

TB_DEV void tb_finish_barrier(void)
{
    asm volatile("bar.sync 1, 256;" ::: "memory");
}

template <int NT> TB_DEV void tb_seek_barrier(void)
{
    asm volatile("bar.sync 2, %0;" ::"n"(NT - 32) : "memory");
}

/* The verdict, to the threads of a block that do not finish its row: at an mbarrier. */
TB_DEV void tb_told_init(uint64_t *told)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(tb_shared_address(told)) : "memory");
}

TB_DEV void tb_told_close(uint64_t *told)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(tb_shared_address(told)) : "memory");
}

/* The finishers, to those that wait. */
template <class S> TB_DEV void tb_tell_block(S &s, uint32_t verdict)
{
    if (threadIdx.x != 0) return;
    s.verdict = verdict;
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(tb_shared_address(&s.told)) : "memory");
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
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again;\n}" ::"r"(tb_shared_address(&s.told))
                 : "memory");
#else
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.test_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@done bra over;\nnanosleep.u32 100;\nbra again;\nover:\n}" ::"r"(tb_shared_address(&s.told))
                 : "memory");
#endif
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
} tb_stream_rule;

template <int C, int NT, int CAP, int SEG, int CAUGHT> struct tb_stream_shared {
    static constexpr int WARPS = NT / 32, FOLDS = 128;
    static constexpr bool ALONE = C == 1;
    static constexpr int WORDS = C == 1 ? WARPS : C;    /* of what the row's warps or blocks said */
    static constexpr int CAPACITY = CAP, SEGMENT = SEG; /* candidates of the row, of one block */
    static constexpr int LIST = CAP / 2, QUEUE = 64;    /* groups of a block, of a warp */
    static constexpr int CATCH = CAUGHT;                /* vectors of a warp */
    tb_fast_token token[CAP];
    uint2 raw[C > 1 ? C *SEG : 1];                         /* value bits, index: C segments */
    float group[TB_MAX_GROUPS * NT];                       /* maxima */
    uint4 caught[CAUGHT ? WARPS : 1][CAUGHT ? CAUGHT : 1]; /* each warp's vectors, and their numbers */
    uint32_t caught_vector[CAUGHT ? WARPS : 1][CAUGHT ? CAUGHT : 1];
    uint32_t caught_count[WARPS];
    float caught_least[WARPS]; /* what is at least this was caught, if there was room */
    union {
        uint32_t queue[WARPS][QUEUE]; /* groups that a warp looks at again */
        uint32_t list[LIST];          /* groups whose mass narrows the interval */
    };
    tb_fast_token kept[TB_PAIRS];
    uint64_t own_pair[C == 1 && !CAUGHT ? TB_FINISHERS / 32 : 1][C == 1 && !CAUGHT ? TB_PAIRS : 1];
    tb_fast_warp warp[WARPS], word[C > 1 ? C : 1]; /* what each warp says; of each block */
    alignas(16) float fold[FOLDS]; /* maxima rounded down, all different; -FLT_MAX and up: none */
    uint32_t group_count[256], group_count_all[C > 1 ? 256 : 1];
    uint32_t count[256], low[256];
    union {
        uint32_t high[256];
        uint32_t fold_part[8][32]; /* counts of greater folds, of each warp's share of them */
    };
    tb_fast_chain chain;
    tb_stream_rule rule;
    tb_fast_slice slice;
    uint64_t random;
    uint64_t mail_first, mail_sums, mail_second, mail_histogram[2], mail_verdict, mail_narrow; /* mbarriers */
    uint64_t told;                         /* likewise: of the verdict, to the block's other threads */
    uint4 histogram[2][C][C > 1 ? 32 : 1]; /* of every block, 8 counts of 16 bits a vector */
    uint4 narrow[C]; /* of each block: exact mass of the candidates' groups, and the binary64 of their f32
                        sums */
    alignas(8) uint2 pushed[C]; /* of each block: its candidates; greedy: the lowest index */
    uint32_t own_pushed, own_first, verdict, last_verdict, list_length;
    float bound, bound_try, bound_w;  /* of the candidates; the least value of a min_p */
    uint64_t target_low, target_high; /* of top_p, from the interval of Z */
    double relative, unit;
    uint32_t sum_high, sum_low, before_high, before_low, kept_high, kept_low, kept_count, ambiguous,
        list_count;
    uint32_t bin, base_count;
    uint64_t base_mass, cut, position;
    double own_taken;

    /* Frees the memory for other uses, by one thread, when all of the block are done with it. */
    TB_MEMBER void close()
    {
        uint64_t *const boxes[] = {&mail_first,        &mail_sums,    &mail_second, &mail_histogram[0],
                                   &mail_histogram[1], &mail_verdict, &mail_narrow};
        for (uint64_t *box : boxes) tb_mail_close(box);
    }
};

/* Where the finishing warps put what they found of pairs: memory that is free by then. */
template <int C, int NT, int CAP, int SEG, int CAUGHT>
TB_DEV uint64_t *tb_pair_room(tb_stream_shared<C, NT, CAP, SEG, CAUGHT> &s)
{
    constexpr size_t bytes = (TB_FINISHERS / 32) * TB_PAIRS * sizeof(uint64_t);
    static_assert(C > 1 ? sizeof s.raw >= bytes : !CAUGHT || sizeof s.caught >= bytes, "");
    return C > 1 ? (uint64_t *)s.raw : CAUGHT ? (uint64_t *)s.caught : s.own_pair[0];
}

extern __shared__ __align__(128) unsigned char tb_fast_bytes[];

#endif
