/*
 * What the blocks of a cluster share while rows of which few tokens are kept go through it (few_pipe.cuh).
 */
#ifndef TB_CUDA_FEW_PIPE_PARTS_CUH
#define TB_CUDA_FEW_PIPE_PARTS_CUH

#include "fast_flat_pipe_rows.cuh"

#define TB_FEW_PIPE_PARTS 128 /* disjoint parts of a row, whose maxima bound what may be kept */
#define TB_FEW_PIPE_BINS 128  /* of the histograms of rows where more do */
#define TB_FEW_PIPE_NO_COUNT 0xffffffffu

/* What is known of a row before its values: its chain, too. */
typedef struct __align__(16) tb_few_row : tb_pipe_row
{
    float temperature;
    uint32_t k;
}
tb_few_row;

typedef enum tb_few_kind {
    TB_FEW_VOID,  /* nothing is kept */
    TB_FEW_LISTED /* tokens that reach the bound are listed: at least k, or all there are */
} tb_few_kind;

/* What the warps that list are told of a row once its parts' maxima are known. */
typedef struct __align__(16) tb_few_verdict
{
    uint32_t bound, greatest; /* keys */
    uint32_t k, status;
    tb_few_kind kind;
    uint32_t end, share, by_index;
}
tb_few_verdict;

/* A bin, the tokens in greater ones, and up to it. */
typedef struct tb_few_bin {
    uint32_t bin, before, upto;
} tb_few_bin;

/* Of a row that is searched the tokens greater than the cut and their mass, those equal to it, and of these
 * those of warps before. */
typedef struct tb_few_tally {
    uint64_t mass;
    uint32_t greater, equal, before;
} tb_few_tally;

template <int dtype, int C> struct tb_few_pipe_shared {
    static constexpr bool DRAWS = false, ROUND = true;
    static constexpr int ROOM = 1;
    static constexpr int WARPS = C * TB_PIPE_WARPS, LOOKS = C * TB_PIPE_LOOKERS;
    static constexpr int GROUPS = TB_FEW_PIPE_PARTS / LOOKS; /* parts of a looker: of 32 / GROUPS lanes */
    /* Rows in a block's shared memory, listed tokens of a row and of a block, at most. Of great tokens that
     * lie together a block has more than an eighth; three rows of 128256 f32 leave no room for longer lists.
     */
    static constexpr int SLOTS = C > 4 ? 3 : TB_PIPE_SLOTS, MOST = C > 4 ? 160 : 256,
                         SENT = C > 4 ? 62 : MOST / C;
    static constexpr int CUTTERS = 2, FILLERS = 2, THREADS = 32 * (TB_PIPE_OTHERS + TB_FEW_PIPE_FINISHERS);
    static constexpr int DONE_WITH_ROW = TB_PIPE_WARPS + CUTTERS, DONE_WITH_PLACE = TB_PIPE_WARPS + 1;
    static constexpr int MASSES = 2; /* histograms on their way: of odd and even rounds */
    static constexpr uint32_t MASS_BYTES = C * TB_FEW_PIPE_BINS * 2;
    alignas(16) uint32_t maximum[TB_PIPE_RING][TB_FEW_PIPE_PARTS]; /* keys */
    uint32_t looked[TB_PIPE_RING][LOOKS];                          /* status */
    uint64_t own[SLOTS][SENT];                                     /* the block's listed tokens: places */
    static constexpr int BOXES = SLOTS + 1; /* rows whose lists are on their way, or cut */
    uint64_t sent[BOXES][C][SENT];          /* all blocks' */
    alignas(16) uint32_t key[CUTTERS][MOST + 4], low[CUTTERS][MOST]; /* of a row */
    alignas(16) uint32_t bin[TB_FEW_PIPE_BINS], part_bin[TB_FEW_PIPE_BINS];
    alignas(16) uint16_t bins[2][C][TB_FEW_PIPE_BINS]; /* a share has fewer than 2^16 tokens: see the plan */
    alignas(16) uint4 tail[WARPS];                     /* mass, number equal, number greater */
    tb_few_row row[TB_PIPE_KNOWN];
    tb_few_verdict verdict[TB_PIPE_RING];
    uint32_t cursor[SLOTS], count[BOXES][C], searched[SLOTS];
    uint32_t placed, known; /* numbers of rows */
    /* mbarriers */
    uint64_t mail_maximum[TB_PIPE_RING], decided[TB_PIPE_RING], free[TB_PIPE_KNOWN / TB_PIPE_GROUP];
    uint64_t filled[TB_PIPE_LOOKERS][SLOTS], empty[SLOTS];
    uint64_t listed[SLOTS], outcome[SLOTS], mail_lists[BOXES], cut_done[BOXES],
        blank[BOXES]; /* the row of output is filled with what tokens that are not kept get */
    uint64_t mail_mass[MASSES], mail_tail;

    TB_MEMBER void set_up(int lane)
    {
        if (lane < BOXES) {
            tb_mail_init(&mail_lists[lane], C);
            tb_mail_init(&cut_done[lane], 1);
            tb_mail_init(&blank[lane], FILLERS);
        }
        if (lane < SLOTS) {
            tb_mail_init(&listed[lane], TB_PIPE_WARPS);
            tb_mail_init(&outcome[lane], 1);
            cursor[lane] = 0;
        }
        if (lane == 0) tb_mail_init(&mail_tail, 1);
    }
};

#endif
