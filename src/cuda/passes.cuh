/*
 * Passes of one block over a row: the row and its shared memory, the first pass (facts and the chunks'
 * greatest keys), masses and counts of a set, places of tokens, lists of a window.
 */
#ifndef TB_CUDA_PASSES_CUH
#define TB_CUDA_PASSES_CUH

#include "row.cuh"

#define TB_LIST 2048
#define TB_BINS 2048
#define TB_BATCH 128 /* draws at a time */

#define TB_NO_COUNT 0xffffffffu
#define TB_NO_TARGET 0xffffffffffffffffu
#define TB_NO_CEILING 0xffffffffffffffffu

/* The block's shared memory. */
typedef struct tb_room {
    union {
        struct {
            uint64_t list[TB_LIST];  /* places */
            uint64_t other[TB_LIST]; /* the kept ones in index order, index << 32 | key, while drawing */
        };
        struct {
            uint32_t bin_count[TB_BINS];
            uint32_t bin_low[TB_BINS], bin_high[TB_BINS]; /* mass = high << 32 | low */
        };
    };
    uint64_t chunk_mass[TB_MAX_CHUNKS];
    uint32_t chunk_key[TB_MAX_CHUNKS]; /* greatest key of K0 in a chunk, 0 if none */
    uint64_t rank_key[TB_BATCH];
    uint32_t rank_count[TB_BATCH];
    uint32_t drawn[TB_BATCH];
    uint64_t word[4]; /* one thread to all */
    uint32_t cursor;
    tb_scratch scratch;
    tb_gpu_row row;
} tb_room;

/* The row as passes over it see it. */
typedef struct tb_source {
    tb_span span;
    uint32_t pieces, chunks;
    tb_facts facts;
    float fill;
    tb_weigher weigher; /* of the temperature in force */
} tb_source;

/* The tokens with floor <= place < ceiling. */
typedef struct tb_set {
    uint64_t floor, ceiling;
    uint64_t mass;  /* if weighed: under the weigher in force */
    uint32_t count; /* if counted */
    bool listed, counted, weighed;
    bool chunked; /* chunk_mass holds its mass in each chunk */
} tb_set;

/* ---- passes over a row ---- */

/* x and its index are in the set { place >= floor }. */
typedef struct tb_cut {
    float value;
    uint32_t last; /* last index of that value that is in */
} tb_cut;

TB_DEV tb_cut tb_make_cut(uint64_t floor)
{
    uint32_t key = tb_place_key(floor);
    /* no value has the key below that of 0, which stands for -0: a floor there lets all zeros pass */
    tb_cut cut = {law_key_value(key), key == 0x7fffffffu ? ~0u : tb_place_index(floor)};
    return cut;
}

TB_DEV bool tb_in_cut(const tb_cut &cut, float x, uint32_t index)
{
    return x > cut.value || (x == cut.value && index <= cut.last);
}

/* Each warp takes its chunks in turn, leaving out those in which no key reaches `least`:
 * visit(x, first) for every 16 values of a lane (N = 16; tb_piece_at says where value j is in the row), or
 * for every 4 (N = 4: less code, for what is rarely asked for); then done(chunk), for the chunks left out
 * too. Every lane of a warp makes the same calls. */
template <int N, class Visit, class Done>
TB_DEV void tb_each_chunk(const tb_room *room, const tb_source &source, uint32_t least, Visit visit,
                          Done done)
{
    const tb_span span = source.span;
    for (uint32_t chunk = tb_warp(); chunk < source.chunks; chunk += blockDim.x / 32) {
        if (room->chunk_key[chunk] >= least) {
            uint32_t piece = chunk * span.chunk_pieces, end = piece + span.chunk_pieces;
            if (end > source.pieces) end = source.pieces;
#pragma unroll 1
            for (; piece < end; piece++) {
#pragma unroll 1
                for (int load = 0; load < 4; load += N / 4) {
                    float x[N];
                    tb_load_piece(span, piece, load, source.fill, x);
                    visit(x, tb_piece_first(span, piece) + load * 128);
                }
            }
        }
        done(chunk);
    }
}

/* Mass and count of the tokens with place >= floor. chunk_mass (shared) may be NULL. */
TB_CALL void tb_measure(tb_room *room, const tb_source &source, uint64_t floor, uint64_t *chunk_mass,
                        uint64_t *mass, uint32_t *count)
{
    const tb_weigher weigher = source.weigher;
    const tb_cut cut = tb_make_cut(floor);
    uint64_t total = 0;
    uint32_t n = 0, high = 0, low = 0, values = 0;
    __syncthreads();
    tb_each_chunk<16>(
        room, source, tb_place_key(floor),
        [&](const float(&x)[16], uint32_t first) {
            uint32_t members = 0;
#pragma unroll
            for (int j = 0; j < 16; j++)
                members |= (uint32_t)tb_in_cut(cut, x[j], tb_piece_at(first, j)) << j;
            if (!__any_sync(TB_WHOLE_WARP, members)) return;
            n += __popc(members);
            values += 16;
            auto add = [&](int j, float r) {
                uint32_t h, l;
                tb_split_ratio(members >> j & 1 ? r : 0.0f, &h, &l);
                high += h;
                low += l;
            };
            if (weigher.plain) {
#pragma unroll
                for (int j = 0; j < 16; j++) add(j, tb_ratio_plain(weigher, x[j]));
            } else {
#pragma unroll
                for (int j = 0; j < 16; j++)
                    add(j, weigher.flat ? 1.0f : x[j] * weigher.scale * weigher.scale2);
            }
        },
        [&](uint32_t chunk) {
            uint64_t sum =
                tb_warp_sum54(tb_join_sums(high - values * TB_HIGH_BIAS, low - values * TB_LOW_BIAS));
            if (tb_lane() == 0) {
                if (chunk_mass) chunk_mass[chunk] = sum;
                total += sum;
            }
            high = low = values = 0;
        });
    *mass = tb_block_sum64(&room->scratch, total);
    *count = tb_block_sum(&room->scratch, n);
}

/* One warp finds, in a chunk, the first index whose inclusive prefix sum of measure(x, index) exceeds `rest`;
 * ~0 if there is none. Sums stay below 2^54. */
template <class Measure>
TB_DEV uint32_t tb_find_in_chunk(const tb_source &source, uint32_t chunk, uint64_t rest, Measure measure)
{
    uint32_t piece = chunk * source.span.chunk_pieces, end = piece + source.span.chunk_pieces;
    if (end > source.pieces) end = source.pieces;
#pragma unroll 1
    for (; piece < end; piece++) {
        float x[16];
        uint32_t first = tb_piece_first(source.span, piece);
        tb_load_piece(source.span, piece, 0, source.fill, x);
#pragma unroll 1
        for (int l = 0; l < 4; l++, first += 128) {
            float y[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                y[j] = l == 0 ? x[j] : l == 1 ? x[4 + j] : l == 2 ? x[8 + j] : x[12 + j];
            uint64_t part[4], sum = 0;
#pragma unroll
            for (int j = 0; j < 4; j++) sum += part[j] = measure(y[j], first + j);
            uint64_t whole = tb_warp_sum54(sum);
            if (rest >= whole) {
                rest -= whole;
                continue;
            }
            uint64_t inclusive = tb_warp_scan64(sum), prefix = inclusive - sum;
            unsigned over = __ballot_sync(TB_WHOLE_WARP, inclusive > rest);
            uint32_t found = 0; /* values before the one looked for */
#pragma unroll
            for (int j = 0; j < 3; j++) found += (prefix += part[j]) <= rest;
            return __shfl_sync(TB_WHOLE_WARP, first + found, __ffs((int)over) - 1);
        }
    }
    return ~0u;
}

/* Turns chunk_mass into inclusive prefix sums. */
TB_CALL void tb_scan_chunks(tb_room *room, uint32_t chunks)
{
    uint32_t per = (chunks + blockDim.x - 1) / blockDim.x, first = threadIdx.x * per;
    uint32_t end = first + per < chunks ? first + per : chunks;
    uint64_t sum = 0, total;
    __syncthreads();
    for (uint32_t i = first; i < end; i++) sum += room->chunk_mass[i];
    uint64_t prefix = tb_block_scan64(&room->scratch, sum, &total);
    for (uint32_t i = first; i < end; i++) room->chunk_mass[i] = prefix += room->chunk_mass[i];
    __syncthreads();
}

/* The least i < n with sums[i] > u; sums ascends and the last one exceeds u. */
TB_DEV uint32_t tb_first_above(const uint64_t *sums, uint32_t n, uint64_t u)
{
    uint32_t low = 0, high = n - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (sums[middle] > u)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The place of token number `number` (from 0), in index order, among those of this key below the ceiling;
 * the key's floor when there are not so many. Uses chunk_mass. */
TB_CALL uint64_t tb_locate_tie(tb_room *room, const tb_source &source, uint32_t key, uint64_t ceiling,
                               uint32_t number)
{
    float value = law_key_value(key);
    auto is = [&](float x, uint32_t index) -> uint64_t {
        return x == value && tb_place(key, index) < ceiling ? 1 : 0;
    };
    uint64_t n = 0;
    __syncthreads();
    tb_each_chunk<4>(
        room, source, key,
        [&](const float(&x)[4], uint32_t first) {
#pragma unroll
            for (int j = 0; j < 4; j++) n += is(x[j], tb_piece_at(first, j));
        },
        [&](uint32_t chunk) {
            n = tb_warp_sum54(n);
            if (tb_lane() == 0) room->chunk_mass[chunk] = n;
            n = 0;
        });
    tb_scan_chunks(room, source.chunks);
    if (room->chunk_mass[source.chunks - 1] <= number) return tb_floor_of_key(key);
    uint32_t chunk = tb_first_above(room->chunk_mass, source.chunks, number);
    uint64_t before = chunk ? room->chunk_mass[chunk - 1] : 0;
    if (tb_warp() == 0) {
        uint32_t index = tb_find_in_chunk(source, chunk, number - before, is);
        if (tb_lane() == 0) room->word[0] = tb_place(key, index);
    }
    __syncthreads();
    uint64_t place = room->word[0];
    __syncthreads();
    return place;
}

/* Which of a lane's 16 values have low <= place < high. The first test is of values alone. */
typedef struct tb_window {
    uint64_t low, high;
    float least, greatest;
    bool edges; /* an end lies within the tokens of one value */
} tb_window;

TB_DEV tb_window tb_make_window(uint64_t low, uint64_t high)
{
    uint32_t top = tb_place_key(high - 1);
    if (top > TB_KEY_POS_INF) top = TB_KEY_POS_INF;
    tb_window w = {low, high, law_key_value(tb_place_key(low)), law_key_value(top), false};
    w.edges = (low & TB_PLACE_LOW) || (high != TB_NO_CEILING && (high & TB_PLACE_LOW));
    return w;
}

TB_DEV uint32_t tb_in_window(const tb_window &w, const tb_span &span, const float (&x)[16], uint32_t first)
{
    uint32_t inside = 0;
#pragma unroll
    for (int j = 0; j < 16; j++) inside |= (uint32_t)(x[j] >= w.least && x[j] <= w.greatest) << j;
    if (!w.edges) return inside;
    for (uint32_t rest = inside; rest; rest &= rest - 1) {
        int j = __ffs((int)rest) - 1;
        uint32_t index = tb_piece_at(first, j);
        uint64_t place = tb_place(law_key(tb_load(span, index)), index);
        if (place < w.low || place >= w.high) inside &= ~(1u << j);
    }
    return inside;
}

/* Lists the tokens with low <= place < high, in no order; room->cursor counts them, also those for which
 * there is no room. */
TB_CALL void tb_gather(tb_room *room, const tb_source &source, uint64_t low, uint64_t high)
{
    const tb_window window = tb_make_window(low, high);
    const tb_span span = source.span;
    __syncthreads();
    if (threadIdx.x == 0) room->cursor = 0;
    __syncthreads();
    tb_each_chunk<16>(
        room, source, tb_place_key(low),
        [&](const float(&x)[16], uint32_t first) {
            uint32_t taken = tb_in_window(window, span, x, first);
            if (!__any_sync(TB_WHOLE_WARP, taken)) return;
            uint32_t n = __popc(taken), inclusive = tb_warp_scan(n), at = 0;
            if (tb_lane() == 31) at = atomicAdd(&room->cursor, inclusive);
            at = __shfl_sync(TB_WHOLE_WARP, at, 31) + inclusive - n;
            for (; taken && at < TB_LIST; taken &= taken - 1, at++) {
                uint32_t index = tb_piece_at(first, __ffs((int)taken) - 1);
                room->list[at] = tb_place(law_key(tb_load(span, index)), index);
            }
        },
        [](uint32_t) {});
    __syncthreads();
}

#endif
