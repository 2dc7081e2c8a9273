/*
 * What the wide code (fast_wide.cuh) is made of: what its blocks hold in shared memory, words and
 * histograms brought together from all blocks of a row, and the looks over the row.
 */
#ifndef TB_CUDA_FAST_WIDE_PARTS_CUH
#define TB_CUDA_FAST_WIDE_PARTS_CUH

#include "fast_candidates.cuh"
#include "fast_entropy.cuh"

extern __shared__ __align__(128) unsigned char tb_wide_bytes[];

#define TB_WIDE_BINS 256
#define TB_WIDE_DEPTH 41.0f /* t below it: no weight */
#define TB_NO_LIMIT 0xffffffffu
#define TB_NO_MASS (~(uint64_t)0)
#define TB_LAST_INDEX ((1u << LAW_INDEX_BITS) - 1)

/* A floor of a kept set: the tokens of greater key, and of this key those of index up to `last`. */
TB_DEV uint64_t tb_wide_floor(uint32_t key, uint32_t last)
{
    /* no value has the key between those of zero and of the greatest negative number, which floats would
     * call equal to zero */
    if (key == 0x7fffffffu) key++, last = TB_LAST_INDEX;
    return tb_place(key, last);
}

/* The greatest value below x. */
TB_DEV float tb_wide_below(float x)
{
    uint32_t key = law_key(x) - 1;
    return law_key_value(key == 0x7fffffffu ? key - 1 : key);
}

TB_DEV float tb_wide_above(float x)
{
    uint32_t key = law_key(x) + 1;
    return law_key_value(key == 0x7fffffffu ? key + 1 : key);
}

TB_DEV float tb_warp_scan_float(float x)
{
#pragma unroll
    for (unsigned d = 1; d < 32; d *= 2) {
        float below = __shfl_up_sync(TB_WHOLE_WARP, x, d);
        if (tb_lane() >= d) x += below;
    }
    return x;
}

/* +inf becomes 0, anything else -inf: of a row with +inf entries only they are in K0, all equal. */
template <int dtype> TB_DEV uint4 tb_only_infinite(uint4 v)
{
    uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (dtype == TOMBOLA_F32) {
            word[i] = word[i] == 0x7f800000u ? 0u : 0xff800000u;
        } else {
            constexpr uint32_t infinite = dtype == TOMBOLA_F16 ? 0x7c00u : 0x7f80u,
                               least = infinite | 0x8000u;
            word[i] = ((word[i] & 0xffffu) == infinite ? 0u : least) |
                      (word[i] >> 16 == infinite ? 0u : least << 16);
        }
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* A vector to shared memory, which the thread waits for later. */
TB_DEV void tb_copy_vector(uint4 *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(tb_shared_address(to)), "l"(from)
                 : "memory");
}

TB_DEV void tb_copies_wait(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Counts a token in `bin` where it is between `low` and `high`, else in `other`. As assembly: the compiler
 * makes a branch for each, and the warp meets again after it, which takes longer than the counting. */
TB_DEV void tb_wide_count(float x, float low, float high, uint32_t bin, uint32_t other)
{
    asm volatile("{\n.reg .pred passes;\n.reg .u32 at;\n"
                 "setp.ge.f32 passes, %0, %1;\n"
                 "setp.le.and.f32 passes, %0, %2, passes;\n"
                 "selp.u32 at, %3, %4, passes;\n"
                 "red.shared.add.u32 [at], 1;\n}" ::"f"(x),
                 "f"(low), "f"(high), "r"(bin), "r"(other)
                 : "memory");
}

/* What the exact look has found. */
typedef struct tb_wide_sums {
    uint64_t mass, total; /* from the lower end of the bracket up; of the row */
    uint64_t target;      /* of top_p */
    uint32_t count;       /* from the lower end up */
    uint32_t between;     /* in the bracket */
} tb_wide_sums;

/* A bin of a histogram, with what lies above it. */
typedef struct tb_wide_found {
    uint32_t held, count;
    uint64_t mass;
    float low, high; /* its least and greatest value */
    int bin;
} tb_wide_found;

typedef struct tb_wide_bracket {
    float low, high;
} tb_wide_bracket;

template <int dtype, int C, int NT, int U, int CAP, size_t STAGE> struct tb_wide {
    static constexpr int WARPS = NT / 32, ROW_WARPS = C * WARPS, width = tb_fast_vector<dtype>::width;
    /* Pieces of a row; no thread has 4096 elements of one, so that 32-bit sums of digits hold. */
    static constexpr int ROW_PIECES = 128, PIECES = ROW_PIECES / ROW_WARPS; /* and of a warp */
    static constexpr bool COUNTED = C >= 4;    /* all tokens are counted, instead of those of a sample, */
    static constexpr int COUNTS = 512;         /* in so many bins */
    static constexpr bool STAGED = STAGE != 0; /* where in shared memory the row's copy is, if there is one */
    static_assert(NT >= TB_WIDE_BINS, "a thread for each bin");
    static_assert(PIECES * ROW_WARPS == ROW_PIECES && PIECES * C <= 32, "each warp has as many pieces");

    static constexpr int SAMPLE = 8192 / width; /* vectors */

    /* Of the block, but for a helping warp, which is done. */
    static TB_MEMBER void barrier()
    {
        tb_reader_barrier<NT, STAGED>();
    }

    /* What all warps say in an exchange: of each piece, and besides. */
    struct words {
        uint4 piece[ROW_PIECES]; /* mass, count, count in the bracket */
        uint4 warp[ROW_WARPS];
    };

    struct shared {
        uint64_t mail[2], mail_in, mail_bins, mail_list, mail_counts; /* mbarriers: tb_left_boxes() */
        uint64_t no_mail[10];                                         /* those of the streaming kernel */
        words word[2]; /* of this exchange and of the one before */
        alignas(16) uint32_t
            bin[4][TB_WIDE_BINS]; /* of this block; clear when not in use; not uint4, which share banks */
        uint4 in[C > 1 ? TB_WIDE_BINS / C : 1][C]; /* of all blocks, this block's share */
        uint4 all[TB_WIDE_BINS];                   /* of the row */
        uint4 part[TB_WIDE_BINS / 32];             /* of a scan */
        float rest[WARPS];                         /* of a sample's mass */
        uint32_t mark[8];                          /* of guess() */
        tb_wide_found found;
        tb_wide_sums sums;
        union { /* a block that is alone has them one after the other */
            uint4 sample_alone[C == 1 ? SAMPLE : 1];
            uint2 list[C][CAP]; /* of all blocks: value bits, index | piece of the block << 22 */
        };
        /* of every block, 8 counts of 16 bits a vector, and the mass of what is under all bins */
        uint4 counts[C][COUNTED ? COUNTS / 8 + 1 : 1];
        uint32_t listed[C]; /* their lengths; more than `limit`: it is of no use */
        uint32_t drop_high[ROW_PIECES], drop_low[ROW_PIECES], drop_count[ROW_PIECES];
        tb_fast_chain chain;
        tb_fast_slice slice;
        uint64_t random;
        uint32_t pushed, infinite, flat, status, estimated, at_top, seek_least;
        uint32_t share; /* vectors of a piece */
        uint32_t limit; /* of the list: no more than 4095 tokens of a piece, for the sums of their digits */
        int owner;
        float relative; /* about the mass of the row, of 2^40 */
        uint64_t kept_mass, position;
        uint32_t kept;
        uint32_t greatest_key;
        float greatest, least; /* of the row; of a sample of it */
        float spread;          /* between the greatest and the least of the folds' maxima */
        float maximum, scale;  /* of the weights: as of the row, 0 and 0 where all weigh the same */
        uint4 sample[C > 1 && !COUNTED ? SAMPLE : 1]; /* from here on no other block writes */
    };

    static TB_MEMBER shared &all()
    {
        return *(shared *)tb_wide_bytes;
    }

    static TB_MEMBER int block()
    {
        return C == 1 ? 0 : (int)(blockIdx.x % C);
    }

    /* ---- between blocks ---- */

    /* What this warp says of its i-th piece, to block `to` of the row. A barrier of the block must follow the
     * reading before a warp speaks again; so where all words of one exchange are there, those of the one
     * before have been read, and two buffers do. */
    static TB_MEMBER void tell(uint32_t turn, int i, int to, uint4 a)
    {
        words &word = all().word[turn & 1];
        if (C > 1)
            tb_mail_16(&word.piece[number(i)], to, a, &all().mail[turn & 1]);
        else
            word.piece[number(i)] = a;
    }

    /* What else it says to all; after its pieces, if it says something of them. */
    static TB_MEMBER void send(uint32_t turn, uint4 a, bool pieces)
    {
        shared &s = all();
        const int lane = (int)tb_lane(), which = turn & 1;
        uint4 *to = &s.word[which].warp[block() * WARPS + (int)tb_warp()];
        if (C == 1) {
            if (lane == 0) *to = a;
            return;
        }
        if (lane < C) tb_mail_16(to, lane, a, &s.mail[which]);
        __syncwarp();
        if (threadIdx.x == 0)
            tb_mail_expect(&s.mail[which], pieces ? sizeof(words) : sizeof(words::warp));
        else if (lane == 0)
            tb_mail_arrive(&s.mail[which]);
    }

    /* The words of all warps, once they have come: for the first warp, which reads them for all. Where the
     * block is alone a barrier must have come before. */
    static TB_MEMBER const words *await(uint32_t turn)
    {
        shared &s = all();
        if (C > 1 && tb_warp() == 0) tb_mail_await(&s.mail[turn & 1], turn >> 1 & 1);
        return &s.word[turn & 1];
    }

    /* That they have come, by all threads. */
    static TB_MEMBER void await_all(uint32_t turn)
    {
        if (C > 1) tb_mail_await(&all().mail[turn & 1], turn >> 1 & 1);
    }

    static TB_MEMBER const words *receive(uint32_t turn)
    {
        if (C == 1) barrier();
        return await(turn);
    }

    /* An exchange of a word of each warp, for all threads. */
    static __device__ __noinline__ const words *say(uint32_t turn, uint4 a)
    {
        barrier(); /* what came before has been read */
        send(turn, a, false);
        const words *word = receive(turn);
        barrier();
        return word;
    }

    /* The blocks' bins, added up: count, two greatest values, mass. Thread i gets bin i of the row. Each
     * block gets its share of the bins from all, and sends the sums to all. The blocks' own bins are cleared
     * on the way. */
    static __device__ __noinline__ uint4 merge(uint32_t parity)
    {
        shared &s = all();
        constexpr int SHARE = TB_WIDE_BINS / C;
        const int tid = (int)threadIdx.x;
        uint4 x = make_uint4(0, 0, 0, 0);
        barrier();
        if (tid < TB_WIDE_BINS) {
            x = make_uint4(s.bin[0][tid], s.bin[1][tid], s.bin[2][tid], s.bin[3][tid]);
            s.bin[0][tid] = s.bin[1][tid] = s.bin[2][tid] = s.bin[3][tid] = 0;
        }
        if (C == 1) return x;
        if (tid < TB_WIDE_BINS) tb_mail_16(&s.in[tid % SHARE][block()], tid / SHARE, x, &s.mail_in);
        if (tid == 0) tb_mail_expect(&s.mail_in, TB_WIDE_BINS * 16);
        __syncwarp();
        tb_mail_await(&s.mail_in, parity);
        __syncwarp();
        if (tid < TB_WIDE_BINS) x = s.in[tid / C][tid % C];
#pragma unroll
        for (int d = 1; d < C; d *= 2) {
            x.x += __shfl_xor_sync(TB_WHOLE_WARP, x.x, d);
            x.y = max(x.y, __shfl_xor_sync(TB_WHOLE_WARP, x.y, d));
            x.z = max(x.z, __shfl_xor_sync(TB_WHOLE_WARP, x.z, d));
            x.w += __shfl_xor_sync(TB_WHOLE_WARP, x.w, d);
        }
        if (tid < TB_WIDE_BINS) tb_mail_16(&s.all[block() * SHARE + tid / C], tid % C, x, &s.mail_bins);
        if (tid == 0) tb_mail_expect(&s.mail_bins, TB_WIDE_BINS * 16);
        __syncwarp();
        tb_mail_await(&s.mail_bins, parity);
        __syncwarp();
        if (tid < TB_WIDE_BINS) x = s.all[tid];
        return x;
    }

    /* ---- the row ---- */

    /* A piece of the row, in loads of 32 vectors. The row's pieces go round the blocks' warps, so that all of
     * them are in one part of the row at a time. */
    struct chunk {
        uint32_t first, end;
        int loads;
    };

    /* Which of the row's pieces is the `who`-th of a block, its warps' first ones, then their second ones. Of
     * a row that is in shared memory a block has every C-th: see fast_candidates.cuh. */
    static TB_MEMBER int number_of(int block, int who)
    {
        return STAGED ? who * C + block : (who / WARPS * C + block) * WARPS + who % WARPS;
    }

    static TB_MEMBER int owner_of(int number)
    {
        return STAGED ? number % C : number / WARPS % C;
    }

    /* Which of the row's pieces this warp's i-th is. */
    static TB_MEMBER int number(int i)
    {
        return number_of(block(), i * WARPS + (int)tb_warp());
    }

    static TB_MEMBER uint32_t share_of(uint32_t vectors)
    {
        constexpr uint32_t whole = 32 * U; /* what a look loads at a time */
        if (STAGED && vectors <= ROW_PIECES * NT) return NT;
        return (vectors + ROW_PIECES * whole - 1) / (ROW_PIECES * whole) * whole;
    }

    static TB_MEMBER chunk piece_of(const tb_fast_slice &slice, int number)
    {
        const uint32_t share = all().share;
        chunk c;
        c.first = min(slice.end, share * (uint32_t)number);
        c.end = min(slice.end, c.first + share);
        c.loads = (int)((c.end - c.first + 31) / 32);
        return c;
    }

    /* Where in shared memory a piece of a row that is there begins. */
    static TB_MEMBER const uint4 *stage_of(const chunk &c)
    {
        return (const uint4 *)(tb_wide_bytes + STAGE) + c.first / (C * NT) * NT;
    }

    /* A vector that may lie across an end of the row (the first one, and number whole_end, do) or of the
     * piece. */
    static __device__ __noinline__ uint4 load_near_end(uint32_t vector, uint32_t end)
    {
        const tb_fast_slice &slice = all().slice;
        constexpr uint32_t none = tb_minus_infinity<dtype>();
        const char *at = slice.base + (size_t)vector * 16;
        if (vector >= end) return make_uint4(none, none, none, none);
        if (vector >= slice.whole_first && vector < slice.whole_end) return tb_load_stream(at);
        return tb_load_edge<dtype, 1>(at, vector * width - slice.shift, slice.length);
    }

    /* Vectors j0 .. j0 + N of this thread's, from memory, or from the row's copy, which is -inf beyond its
     * end.
     */
    template <int N>
    static TB_MEMBER void load(const tb_fast_slice &slice, const chunk &c, int j0, uint4 (&v)[N])
    {
        if (STAGED && all().share == NT) {
            const uint4 *from = stage_of(c) + j0 * 32;
#pragma unroll
            for (int j = 0; j < N; j++) v[j] = from[j * 32 + tb_lane()];
            return;
        }
        uint32_t vector = c.first + (uint32_t)j0 * 32;
        if (vector >= slice.whole_first && vector + N * 32 <= min(c.end, slice.whole_end)) {
            const char *at = slice.base + (size_t)(vector + tb_lane()) * 16;
#pragma unroll
            for (int j = 0; j < N; j++) v[j] = tb_load_stream(at + j * 512);
            return;
        }
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = load_near_end(vector + tb_lane() + j * 32, c.end);
    }

    /* Load j of a piece. */
    static __device__ __noinline__ uint4 fetch(chunk c, int j)
    {
        const shared &s = all();
        uint4 v[1];
        load<1>(s.slice, c, j, v);
        return s.infinite ? tb_only_infinite<dtype>(v[0]) : v[0];
    }

    /* f(vector, index of its first element) for each vector of this warp's pieces, two on their way at once.
     */
    template <class F> static TB_MEMBER void each_fetched(const F &f)
    {
        const shared &s = all();
        const bool infinite = s.infinite;
#pragma unroll 1
        for (int i = 0; i < PIECES; i++) {
            const chunk c = piece_of(s.slice, number(i));
#pragma unroll 1
            for (int j0 = 0; j0 < c.loads; j0 += 2) {
                uint4 v[2];
                load<2>(s.slice, c, j0, v);
#pragma unroll 1
                for (int j = 0; j < 2; j++, v[0] = v[1]) {
                    if (infinite) v[0] = tb_only_infinite<dtype>(v[0]);
                    f(v[0], (c.first + (uint32_t)(j0 + j) * 32 + tb_lane()) * width - s.slice.shift);
                }
            }
        }
    }

    /* The exact weight of a token, in two digits. */
    static TB_MEMBER void weigh(float x, float maximum, float scale, uint32_t *high, uint32_t *low)
    {
        tb_weigh(fmaxf(law_exponent(x, maximum, scale), -64.0f), high, low);
        *high -= TB_HIGH_BIAS;
        *low -= TB_LOW_BIAS;
    }

    /* ---- scans over the bins, a thread each ---- */

    /* What the bins above this thread's hold, and all. Two barriers' worth of time; the second is the
     * caller's. */
    template <class T>
    static TB_MEMBER void scan(uint32_t n, T m, uint32_t *n_before, T *m_before, uint32_t *n_all, T *m_all)
    {
        shared &s = all();
        const int lane = (int)tb_lane(), warp = (int)tb_warp();
        uint32_t n_upto = n;
        T m_upto = m;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            uint32_t a = __shfl_up_sync(TB_WHOLE_WARP, n_upto, d);
            T b = __shfl_up_sync(TB_WHOLE_WARP, m_upto, d);
            if (lane >= d) n_upto += a, m_upto += b;
        }
        if (lane == 31 && warp < TB_WIDE_BINS / 32)
            s.part[warp] = make_uint4(n_upto, 0, (uint32_t)m_upto, (uint32_t)((uint64_t)m_upto >> 32));
        barrier();
        uint32_t n_sum = 0;
        T m_sum = 0;
        *n_before = n_upto - n;
        *m_before = m_upto - m;
#pragma unroll
        for (int i = 0; i < TB_WIDE_BINS / 32; i++) {
            uint4 x = s.part[i];
            if (i == warp) *n_before += n_sum, *m_before += m_sum;
            n_sum += x.x;
            m_sum += (T)((uint64_t)x.w << 32 | x.z);
        }
        *n_all = n_sum;
        *m_all = m_sum;
    }

    /* Of an exact histogram: a bin's count and mass, and what lies above it and in all bins. */
    struct scanned {
        uint32_t before, all;
        uint64_t mass_before, mass_all;
    };

    static __device__ __noinline__ scanned scan_exact(uint32_t count, uint64_t mass)
    {
        scanned out;
        scan<uint64_t>(count, mass, &out.before, &out.mass_before, &out.all, &out.mass_all);
        return out;
    }
};

#endif
