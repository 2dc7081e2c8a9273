/*
 * What the blocks of a cluster share while rows from whose few greatest tokens one is drawn go through it
 * (few_draw_pipe.cuh).
 */
#ifndef TB_CUDA_FEW_DRAW_PARTS_CUH
#define TB_CUDA_FEW_DRAW_PARTS_CUH

#include "few_pipe_rows.cuh"

#define TB_FEW_DRAW_SENT 72    /* listed tokens of a block, at most */
#define TB_FEW_DRAW_LISTED 128 /* of a row: four a lane; more are cut by loops */
#define TB_FEW_DRAW_KEPT 64    /* candidates that are weighed, two a lane */

/* What is known of a row before its values: its chain, too (fast_parts.cuh). */
typedef struct __align__(16) tb_few_draw_row : tb_pipe_row
{
    uint64_t w_before, w_last; /* least weights: before the top_p, and of all min_ps */
    uint32_t k, k_last; /* greatest tokens that a top_p takes its part of, or that are kept; of all top_ks */
    float p;            /* 1: none */
}
tb_few_draw_row;

/* What a block says of its share of a row: its listed tokens, the least key that may be kept, the row's
 * status and greatest key. */
#define TB_FEW_DRAW_CLASS 0x80000000u /* with the number of tokens: those of the least key are not listed */

/* A candidate, where it stands in the order and what it weighs. */
typedef struct __align__(16) tb_few_draw_token
{
    uint64_t place, weight;
}
tb_few_draw_token;

/* Of a row's tokens. */
template <int WARPS> union tb_few_draw_sums {
    struct { /* bins: tokens, their mass in digits of 20 bits */
        alignas(16) uint32_t count[TB_FEW_PIPE_BINS], high[TB_FEW_PIPE_BINS], low[TB_FEW_PIPE_BINS];
    };
    struct { /* the chunks' */
        unsigned long long mass[WARPS];
        uint32_t equal[WARPS];
    };
};

template <int dtype, int C> struct tb_few_draw_shared {
    typedef tb_few_draw_row row_type;
    static constexpr bool DRAWS = false, LOGITS = true;
    static constexpr int ROOM = 1;
    static constexpr int WARPS = C * TB_PIPE_WARPS, LOOKS = C * TB_PIPE_LOOKERS;
    static constexpr int GROUPS = TB_FEW_PIPE_PARTS / LOOKS; /* parts of a looker: of 32 / GROUPS lanes */
    static constexpr int SENT = TB_FEW_DRAW_SENT;
    static_assert(TB_FEW_PIPE_MOST_K <= SENT && TB_FEW_PIPE_MOST_K <= TB_FEW_DRAW_KEPT, "the cut is listed");
    static constexpr int DRAWN = TB_PIPE_KNOWN / C; /* rows that wait for a block to draw them */
    static constexpr int DRAWERS = TB_FEW_DRAWERS(C), THREADS = 32 * (TB_PIPE_OTHERS + DRAWERS);
    static constexpr int DONE_WITH_ROW = TB_PIPE_WARPS + DRAWERS, DONE_WITH_PLACE = TB_PIPE_WARPS;
    static constexpr int MASSES = 0;
    static constexpr uint32_t MASS_BYTES = 0;
    alignas(16) uint32_t maximum[TB_PIPE_RING][TB_FEW_PIPE_PARTS]; /* keys */
    uint4 said[DRAWN][C];                                          /* by each block of a row */
    uint32_t equal[DRAWN][WARPS]; /* chunks' numbers of tokens that are not listed */
    uint64_t sent[DRAWN][C][SENT];
    uint64_t own[2][SENT];                       /* the block's listed tokens: places */
    uint64_t place[DRAWERS][TB_FEW_DRAW_LISTED]; /* of a row's tokens, without gaps */
    tb_few_draw_token token[DRAWERS][TB_FEW_DRAW_KEPT];
    tb_few_draw_sums<WARPS> sums[DRAWERS];
    alignas(16) uint32_t bin[TB_FEW_PIPE_BINS], part_bin[TB_FEW_PIPE_BINS];
    uint32_t looked[TB_PIPE_RING][LOOKS]; /* status */
    tb_few_draw_row row[TB_PIPE_KNOWN];
    tb_few_verdict verdict[TB_PIPE_RING];
    uint32_t cursor[4];         /* tokens on the lists of this row and the next ones */
    uint32_t greatest, raised;  /* of a block whose list is too short: a warp's greatest key; the new bound */
    uint32_t gathered[DRAWERS]; /* tokens of `place` */
    uint32_t placed, known;     /* numbers of rows */
    /* mbarriers */
    uint64_t mail_maximum[TB_PIPE_RING], decided[TB_PIPE_RING], free[TB_PIPE_KNOWN / TB_PIPE_GROUP];
    uint64_t filled[TB_PIPE_LOOKERS][TB_PIPE_SLOTS], empty[TB_PIPE_SLOTS];
    uint64_t mail_lists[DRAWN], mail_mass[1];

    TB_MEMBER void set_up(int lane)
    {
        if (lane < DRAWN) tb_mail_init(&mail_lists[lane], C);
        if (lane < 4) cursor[lane] = 0;
        if (lane == 0) greatest = 0;
    }
};

#endif
