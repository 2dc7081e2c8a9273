/*
 * What the blocks of a cluster share while rows go through it (fast_flat_pipe.cuh), and how its warps wait
 * for each other.
 */
#ifndef TB_CUDA_FAST_FLAT_PIPE_PARTS_CUH
#define TB_CUDA_FAST_FLAT_PIPE_PARTS_CUH

#include "fast_flat.cuh"
#include "../fast_shapes.h"

/* The numbers of rows whose maxima, and of which anything is known at a time: see tb_pipe. */
#define TB_PIPE_RING (2 * TB_PIPE_SLOTS)
#define TB_PIPE_KNOWN 32
#define TB_PIPE_GROUP 8      /* rows that are given back together */
#define TB_PIPE_UNTESTED 3   /* rows after one of which every vector is weighed that are not asked about it */
#define TB_PIPE_ASKED 65536u /* bytes that a block asks memory for at a time */

/* What is known of a row before its values. */
typedef struct __align__(16) tb_pipe_row
{
    tb_fast_slice slice; /* the whole row */
    uint32_t share;      /* vectors of a chunk */
    float scale, least_t;
    uint8_t greedy, flat, bad;
    uint64_t random;
}
tb_pipe_row;

/* By one warp, of a row alone: its chain, a temperature and min_ps. */
TB_DEV void tb_row_chain(const tb_cuda_params &params, bool located, int64_t slot, tb_pipe_row *out)
{
    tb_pipe_row row = {};
    row.bad = !located || slot < 0;
    law_temper temper = {LAW_SCALED, LAW_LOG2E};
    uint64_t w = 0;
    for (int j = 0; j < params.call.step_count; j++) {
        const tombola_step &step = params.steps[j];
        const float value = !step.value_per_slot ? step.value : row.bad ? 1.0f : step.value_per_slot[slot];
        if (law_isnan(value) || (step.kind == TOMBOLA_TEMPERATURE && value < 0.0f)) {
            row.bad = true;
        } else if (step.kind == TOMBOLA_TEMPERATURE) {
            temper = law_temperature(value);
        } else if (value > 0.0f) {
            const uint64_t least = law_min_p_weight(value, LAW_ONE);
            w = least > w ? least : w;
        }
    }
    row.scale = temper.mode == LAW_SCALED ? temper.scale : 1.0f;
    row.least_t = w ? tb_least_exponent(w) : -64.0f;
    row.greedy = temper.mode == LAW_GREEDY;
    row.flat = temper.mode == LAW_FLAT;
    if (tb_lane() == 0) *out = row;
}

/* What a row's tokens weigh. */
typedef enum tb_pipe_kind {
    TB_PIPE_VOID,   /* nothing is drawn */
    TB_PIPE_GREEDY, /* the maximum's lowest index is wanted */
    TB_PIPE_EQUAL,  /* 2^40 each: all of K0, or all +inf */
    TB_PIPE_USUAL
} tb_pipe_kind;

TB_DEV tb_pipe_kind tb_pipe_kind_of(const tb_pipe_row &row, uint32_t greatest)
{
    if (row.bad || greatest < TB_KEY_LEAST_LOGIT) return TB_PIPE_VOID;
    if (row.greedy) return TB_PIPE_GREEDY;
    return row.flat || greatest == TB_KEY_POS_INF ? TB_PIPE_EQUAL : TB_PIPE_USUAL;
}

/* What the warps that weigh are told of a row once its maximum is known. */
typedef struct __align__(16) tb_pipe_verdict
{
    float maximum, factor, most; /* factor of u, see tb_scaled_exponent; the greatest u of a kept token */
    uint32_t usual, counted;     /* weights are sums of u's; tokens are looked at one by one */
    tb_pipe_kind kind;
    uint32_t end, share;
}
tb_pipe_verdict;

/* A token that is looked for: the mass of its row, and its position in the mass of a chunk of it. */
typedef struct __align__(16) tb_pipe_draw
{
    uint64_t position, total;
    uint32_t chunk, row; /* TB_PIPE_WRITTEN: nothing is left to do */
    int32_t kept;
    uint32_t status;
    float maximum;
    uint32_t equal; /* all tokens weigh the same */
}
tb_pipe_draw;

#define TB_PIPE_WRITTEN 0xffffffffu

template <int C> struct tb_pipe_shared {
    static constexpr bool DRAWS = true, ROUND = false;
    static constexpr int SLOTS = TB_PIPE_SLOTS;
    static constexpr int ROOM = 1;                    /* for a row, of what it takes */
    static constexpr int WARPS = C * TB_PIPE_WARPS;   /* of a row: its chunks */
    static constexpr int LOOKS = C * TB_PIPE_LOOKERS; /* words that a row's maximum is the greatest of */
    static_assert(TB_PIPE_KNOWN == 32, "a row a lane");
    static constexpr int DRAWN = TB_PIPE_KNOWN / C; /* rows that wait for a block to draw them */
    uint4 mass[DRAWN][WARPS];                       /* mass, kept tokens, greedy: lowest index */
    static_assert(sizeof mass == TB_PIPE_ENTROPY_BYTES, "as much again for the entropy");
    /* Warps that draw: a draw takes several times as long as a row's turn. */
    static constexpr int DRAWERS = TB_PIPE_DRAWERS(C), THREADS = 32 * (TB_PIPE_OTHERS + DRAWERS);
    static constexpr uint32_t MASS_BYTES = WARPS * 16 + 8;
    /* Warps that are the last to use what is known of a row, and its place; rows whose masses are on their
     * way. */
    static constexpr int DONE_WITH_ROW = TB_PIPE_WARPS + DRAWERS, DONE_WITH_PLACE = TB_PIPE_WARPS,
                         MASSES = DRAWN;
    uint2 maximum[TB_PIPE_RING][LOOKS]; /* key, status */
    tb_pipe_row row[TB_PIPE_KNOWN];
    tb_pipe_verdict verdict[TB_PIPE_RING];
    uint2 drawn[DRAWN];     /* key of the maximum, status */
    uint32_t placed, known; /* numbers of rows */
    tb_pipe_draw last;      /* of the row that the block draws last */
    uint64_t group_mass[32];
    /* mbarriers; setting one up takes some 50 clocks, so they are few */
    uint64_t mail_maximum[TB_PIPE_RING], decided[TB_PIPE_RING], mail_mass[DRAWN],
        free[TB_PIPE_KNOWN / TB_PIPE_GROUP];
    uint64_t filled[TB_PIPE_LOOKERS][TB_PIPE_SLOTS], empty[TB_PIPE_SLOTS];
    uint64_t handed, groups_weighed;
};

/* Waits for what the block's own threads, or its copies, have done. */
TB_DEV void tb_wait_here(uint64_t *box, uint32_t parity)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(tb_shared_address(box)),
                 "r"(parity)
                 : "memory");
#endif
}

TB_DEV void tb_publish(uint32_t *count, uint32_t rows)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("st.release.cta.shared::cta.u32 [%0], %1;" ::"r"(tb_shared_address(count)), "r"(rows)
                 : "memory");
#endif
}

/* Waits until row `i` is published. */
TB_DEV void tb_wait_row(uint32_t *count, uint32_t i)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    uint32_t rows;
    do {
        asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];"
                     : "=r"(rows)
                     : "r"(tb_shared_address(count))
                     : "memory");
    } while (rows <= i);
#endif
}

/* By one thread: a copy of whole vectors to shared memory, which `box` counts; the thread arrives there, or
 * will later. */
TB_DEV void tb_copy_in(void *to, const void *from, uint32_t bytes, uint64_t *box, bool arrives = true)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    if (arrives)
        tb_mail_expect(box, bytes);
    else
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(tb_shared_address(box)),
                     "r"(bytes)
                     : "memory");
    if (!bytes) return;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            tb_shared_address(to)),
        "l"(from), "r"(bytes), "r"(tb_shared_address(box))
        : "memory");
#endif
}

/* What the thread wrote to shared memory comes before copies to there, which take another way. */
TB_DEV void tb_writes_before_copies(void)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* A row, and which of the block's places for its share it has; `filling` counts the fillings of that place.
 */
typedef struct tb_pipe_turn {
    uint32_t row, place, filling;
} tb_pipe_turn;

#endif
