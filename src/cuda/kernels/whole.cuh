/*
 * Outputs over the whole row without a draw: probabilities (softmax, renormalisation), masked logits, kept
 * ids. The row is read from memory once, into the shared memory of the blocks that share it, and every later
 * look is at that copy: exact masses of all tokens, the search of the cut (whole_select.cuh), and the write
 * (whole_write.cuh).
 *
 * A row is the work of a team: one block, or a cluster of up to 16. Each warp has one contiguous part of the
 * row. What the warps find (greatest values, masses) they send to all blocks of the team as one message of 16
 * bytes each; every block then draws the same conclusions from the same numbers.
 */
#ifndef TB_CUDA_WHOLE_CUH
#define TB_CUDA_WHOLE_CUH

#include "blank.cuh"
#include "../whole_shapes.h"
#include "fast_parts.cuh"

#define TB_WHOLE_WARPS (TB_WHOLE_THREADS / 32)
#define TB_WHOLE_BINS 384              /* a multiple of the greatest team */
#define TB_WHOLE_LIST TB_WHOLE_THREADS /* one token a thread */
#define TB_WHOLE_SEGMENT 94            /* listed tokens of a warp: so many fit the place of the bins */
#define TB_WHOLE_OWN (TB_WHOLE_SEGMENT * TB_WHOLE_WARPS)
#define TB_WHOLE_GROUPS (TB_WHOLE_WARPS * 4) /* of a block: eight lanes' elements, whose maximum is known */

/* A chain with at most one temperature, before the filters, and at most one top_p: top_k and min_p steps
 * commute, and only what stands before top_p decides the mass that p is a fraction of. */
typedef struct tb_whole_chain {
    uint32_t k_before, k_after; /* TB_NO_COUNT: none */
    float q_before, q_after;    /* min_p; 0: none */
    float p;                    /* 1: none */
    float temperature;
    bool bad;
} tb_whole_chain;

/* The tokens with place >= floor. */
typedef struct tb_whole_set {
    uint64_t floor, mass;
    uint32_t count;
    bool measured; /* mass and count are known */
} tb_whole_set;

typedef struct tb_whole_shared {
    uint64_t box[2];        /* mbarriers of the exchanges, in turns */
    uint64_t list_box;      /* of the blocks' lists, which each sends to all once */
    uint64_t kept_box;      /* of how many tokens of its list each keeps */
    uint32_t listed_by[16]; /* the lists' lengths, */
    uint32_t kept_by[16];   /* and those numbers */
    uint32_t few;           /* tokens of all of them, in few_own: all that may be kept; 0: no such list */
    uint32_t fill_bytes, fill_word; /* of an element of a row of output that is filled, with what, */
    char *fill;                     /* and where, or NULL: few tokens of it will be kept */
    tb_whole_chain chain;
    tb_scratch scratch;
    uint32_t cursor;
    union alignas(16) { /* few_own begins with words that are read by fours */
        struct {
            uint32_t count[TB_WHOLE_BINS];
            uint32_t digit[3][TB_WHOLE_BINS]; /* of masses: TB_DIGIT_BITS each, their sums */
        };
        struct {
            uint64_t own[TB_WHOLE_LIST], list[TB_WHOLE_LIST]; /* places: this block's, and the team's */
            uint64_t weight[TB_WHOLE_LIST];
        };
        struct {
            uint64_t few_own[TB_WHOLE_LIST],
                slot[2 * TB_WHOLE_LIST]; /* places: the same, as they come by mail */
        };
        struct {
            uint64_t listed[TB_WHOLE_OWN]; /* places, a segment for each warp: where few tokens are wanted */
        };
        struct {
            float sort_value[TB_WHOLE_SORT_ROOM];    /* of the block's list, in no order; -inf behind them */
            uint32_t sort_index[TB_WHOLE_SORT_ROOM]; /* in the row */
            uint32_t sort_order[TB_WHOLE_SORT_ROOM]; /* likewise, of the sorted list */
            uint32_t sort_kept[TB_WHOLE_SORT_WORDS]; /* a bit for each token of the block's share */
        };
    };
} tb_whole_shared;

/* A warp's part of a row, in vectors of 16 bytes; vector 0 begins `shift` elements before the row. Vector
 * first + 32 * j + lane lies in the block's shared memory at keep[j * TB_WHOLE_THREADS + thread]: nobody but
 * its thread reads or writes it there. */
typedef struct tb_whole_part {
    const char *base;
    uint32_t shift, length, first, end;
    uint32_t inner; /* vectors of each lane, from the first on, that surely lie inside the row */
} tb_whole_part;

/* A word for each warp, of those in the scratch that nothing else here needs. */
TB_DEV uint64_t *tb_whole_words(tb_whole_shared *s)
{
    static_assert(TB_WHOLE_WARPS == 8, "tb_scratch");
    return &s->scratch.team[0][0];
}

/* What each thread knows of its row. */
template <int dtype_, bool TOP_ = false, bool SORT_ = false> struct tb_whole_row {
    static constexpr bool TOP = TOP_, /* the greatest tokens in order are wanted, too; */
        SORT = SORT_;                 /* or nothing but ids, of few tokens, by 16 blocks */
    static constexpr int dtype = dtype_, bytes = dtype == TOMBOLA_F32 ? 4 : 2, width = 16 / bytes;
    tb_whole_shared *s;
    uint4 *group;    /* [warps of the team] keys of the greatest of each eight lanes */
    uint4 *spread;   /* [warps of the team] keys number 4, 12, 20 and 28 of its lanes' greatest ones */
    uint4 *mail;     /* [2][warps of the team] */
    uint32_t *flags; /* [warps of the team] */
    uint4 *keep;
    tb_team team;
    uint32_t turn; /* exchanges so far */
    bool pulled;   /* other blocks may be reading this one's shared memory */
    bool mailed;   /* too late for lists by mail: there is one, if r.s->few, or there will be none */
    tb_whole_part part;
    uint32_t greatest; /* key */
    tb_weigher weigher;
};

static_assert(sizeof(tb_whole_shared) <= TB_WHOLE_FIXED_BYTES && TB_WHOLE_FIXED_BYTES % 16 == 0,
              "plan_whole.c");

/* [warps of the team] With SORT: key of one of its lanes' greatest ones, to go by (whole_sort.cuh). */
template <class R> TB_DEV uint32_t *tb_whole_middle(const R &r)
{
    return (uint32_t *)(r.spread + r.team.size * TB_WHOLE_WARPS);
}

template <class R> TB_DEV void tb_whole_lay_out(R &r, char *memory, const tb_team &team)
{
    uint32_t warps = team.size * TB_WHOLE_WARPS;
    r.s = (tb_whole_shared *)memory;
    r.group = (uint4 *)(memory + TB_WHOLE_FIXED_BYTES);
    r.mail = r.group + warps;
    r.flags = (uint32_t *)(r.mail + 2 * warps);
    r.keep = (uint4 *)(r.flags + warps);
    r.spread = r.keep;
    r.team = team;
    if (R::TOP) r.keep += warps;
    if (R::SORT) r.keep += warps / 4;
    r.turn = 0;
    r.pulled = r.mailed = false;
}

/* Vectors of a block's share of so many. */
TB_DEV uint32_t tb_whole_block_share(const tb_team &team, uint32_t vectors)
{
    return (vectors + team.size - 1) >> (__ffs((int)team.size) - 1);
}

/* This warp's part of `length` elements at `data`. */
template <class R> TB_DEV tb_whole_part tb_whole_share(const R &r, const char *data, uint32_t length)
{
    tb_whole_part p;
    p.shift = ((uint32_t)(uintptr_t)data & 15u) / R::bytes;
    p.length = length;
    p.base = data - p.shift * R::bytes;
    uint32_t vectors = (p.shift + length + R::width - 1) / R::width;
    uint32_t share = tb_whole_block_share(r.team, vectors),
             each = (share + TB_WHOLE_WARPS - 1) / TB_WHOLE_WARPS, end = share * (r.team.rank + 1);
    if (end > vectors) end = vectors;
    p.first = share * r.team.rank + each * tb_warp();
    if (p.first > end) p.first = end;
    p.end = p.first + each < end ? p.first + each : end;
    uint32_t whole_end = (p.shift + length) / R::width;
    if (whole_end > p.end) whole_end = p.end;
    p.inner = (p.shift == 0 || p.first > 0) && whole_end > p.first ? (whole_end - p.first) / 32 : 0;
    return p;
}

/* ---- exchanges ---- */

/* Sends a warp's word (the same in all its lanes) to `all` of every block of the team, with the first one
 * also its flags (with TOP spread, with SORT middle); returns when all words have come. Whose n-th has come
 * may send its (n+1)-th, so words and barriers of even and odd turns are apart. */
template <bool FIRST, class R>
TB_DEV void tb_whole_send(R &r, uint4 *all, uint4 word, uint4 spread, uint32_t middle, uint32_t flags)
{
    uint32_t turn = r.turn++, at = r.team.rank * TB_WHOLE_WARPS + tb_warp();
    if (r.team.size == 1) {
        if (tb_lane() == 0) {
            all[at] = word;
            if (FIRST) r.flags[at] = flags;
            if (FIRST && R::TOP) r.spread[at] = spread;
        }
        __syncthreads();
        return;
    }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    uint64_t *box = &r.s->box[turn & 1];
    if (tb_lane() < r.team.size) {
        tb_mail_16(&all[at], (int)tb_lane(), word, box);
        if (FIRST && R::TOP) tb_mail_16(&r.spread[at], (int)tb_lane(), spread, box);
        if (FIRST && R::SORT) tb_mail_4(&tb_whole_middle(r)[at], (int)tb_lane(), middle, box);
        if (FIRST) tb_mail_4(&r.flags[at], (int)tb_lane(), flags, box);
    }
    __syncwarp();
    if (threadIdx.x == 0)
        tb_mail_expect(box, r.team.size * TB_WHOLE_WARPS * (!FIRST ? 16 : R::SORT ? 40 : R::TOP ? 36 : 20));
    else if (tb_lane() == 0)
        tb_mail_arrive(box);
    tb_mail_wait(box, turn >> 1 & 1);
#endif
}

template <class R> TB_DEV const uint4 *tb_whole_exchange(R &r, uint4 word)
{
    uint4 *all = r.mail + (r.turn & 1) * (r.team.size * TB_WHOLE_WARPS);
    tb_whole_send<false>(r, all, word, word, 0, 0);
    return all;
}

/* Before shared memory that other blocks read is written again. */
template <class R> TB_DEV void tb_whole_reclaim(R &r)
{
    if (r.pulled)
        tb_team_barrier(r.team);
    else
        __syncthreads();
    r.pulled = false;
}

/* A barrier of the team in two halves, which orders nothing but execution: at the start, until all blocks
 * run; at the end, until all have done with one another's shared memory. */
template <class R> TB_DEV void tb_whole_arrive(const R &r)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (r.team.size > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

template <class R> TB_DEV void tb_whole_wait(const R &r)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (r.team.size > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* ---- vectors ---- */

template <class R> TB_DEV float tb_whole_element(const uint4 &v, int e)
{
    if (R::dtype == TOMBOLA_F32) return law_float(e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w);
    uint32_t word = e / 2 == 0 ? v.x : e / 2 == 1 ? v.y : e / 2 == 2 ? v.z : v.w;
    if (R::dtype == TOMBOLA_F16) return tb_f16_value(e % 2 ? word >> 16 : word & 0xffffu);
    return law_float(e % 2 ? word & 0xffff0000u : word << 16);
}

/* Index in the row of a vector's first element; before the row it wraps around. */
template <class R> TB_DEV uint32_t tb_whole_index(const R &r, uint32_t vector)
{
    return vector * R::width - r.part.shift;
}

/* Whether all of a vector is in the row. */
template <class R> TB_DEV bool tb_whole_inside(const tb_whole_part &p, uint32_t vector)
{
    uint32_t first = vector * R::width - p.shift;
    return first < p.length && first + R::width <= p.length;
}

/* A vector across an end of the row; what is not in the row is -inf, or 0 among probabilities: in no K0. */
template <class R>
TB_CALL uint4 tb_whole_load_edge(const char *at, uint32_t first, uint32_t length, uint32_t none)
{
    uint32_t word[4] = {none, none, none, none};
#pragma unroll
    for (uint32_t e = 0; e < R::width; e++) {
        if (first + e >= length) continue;
        if (R::bytes == 4) {
            word[e % 4] = ((const uint32_t *)at)[e];
        } else {
            uint32_t bits = ((const uint16_t *)at)[e], move = e % 2 * 16;
            word[e / 2 % 4] = (word[e / 2 % 4] & ~(0xffffu << move)) | bits << move;
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* The vectors of a lane in a part. */
TB_DEV uint32_t tb_whole_loads(const tb_whole_part &p)
{
    return (p.end - p.first + 31) / 32;
}

/* Read once: not to be kept in L1. The row may be written later on, by the same thread. */
TB_DEV uint4 tb_whole_load(const char *at)
{
#ifdef __CUDA_ARCH__
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
#else
    return tb_load16(at);
#endif
}

/* A lane's vectors number j0 to j0 + U - 1 of its part, of which the first is at `from`; `none` is in all
 * elements that are not the part's. */
template <class R, int U>
TB_DEV void tb_whole_load_vectors(const R &r, uint32_t j0, const char *from, uint32_t none, uint4 (&v)[U])
{
    if (j0 + U <= r.part.inner) {
#pragma unroll
        for (int j = 0; j < U; j++) v[j] = tb_whole_load(from + j * 512);
    } else if (R::SORT && r.part.end == r.part.first + r.part.inner * 32) { /* less, but all of it inside */
#pragma unroll
        for (int j = 0; j < U; j++)
            v[j] = j0 + j < r.part.inner ? tb_whole_load(from + j * 512) : make_uint4(none, none, none, none);
    } else {
#pragma unroll
        for (int j = 0; j < U; j++) {
            uint32_t vector = r.part.first + (j0 + j) * 32 + tb_lane();
            v[j] = make_uint4(none, none, none, none);
            if (vector >= r.part.end) continue;
            v[j] =
                tb_whole_inside<R>(r.part, vector)
                    ? tb_whole_load(from + j * 512)
                    : tb_whole_load_edge<R>(from + j * 512, tb_whole_index(r, vector), r.part.length, none);
        }
    }
}

#endif
