/*
 * Passes over a row by a block, or by a cluster of blocks that each have a share of it: the row and the
 * shared memory that describes it, the first pass (facts and the chunks' greatest keys), masses and counts of
 * a set, places of tokens, lists of a window.
 */
#ifndef TB_CUDA_PASSES_CUH
#define TB_CUDA_PASSES_CUH

#include "row.cuh"

#define TB_LIST 2048
#define TB_SELECT_BINS 2048
#define TB_BATCH 128 /* draws at a time */

#define TB_NO_COUNT 0xffffffffu
#define TB_NO_TARGET 0xffffffffffffffffu
#define TB_NO_CEILING 0xffffffffffffffffu

/* The row as passes over it see it. A block of a team reads the chunks [first_chunk, end_chunk), and may have
 * copied them to its shared memory; what is learned of chunks, every block knows of all of them. */
typedef struct tb_source {
    tb_team team;
    tb_span span;
    uint32_t pieces, chunks, first_chunk, end_chunk;
    tb_facts facts;
    float fill;
    bool probabilities, by_index;
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

/* x and its index are in the set { place >= floor }. */
typedef struct tb_cut {
    float value;
    uint32_t last; /* last index of that value that is in */
    bool partial;  /* others of that value are not */
} tb_cut;

/* What the outputs share, once the chain has run. */
typedef struct tb_outcome {
    tb_set set;         /* the final one */
    tb_weigher weigher; /* of the final temperature */
    tb_weigher raw;     /* temperature 1 */
    tb_cut cut, all;    /* the set's and K0's */
    uint64_t mass, raw_mass, total_mass;
    bool ordered; /* room->other holds the set in index order */
} tb_outcome;

/* The block's shared memory. What describes the row lies here too, once for the block: thread 0 writes it,
 * then the block meets at a barrier. (Kept by each thread it would fill the cache with copies.) */
typedef struct tb_room {
    union {
        struct {
            uint64_t list[TB_LIST];  /* places */
            uint64_t other[TB_LIST]; /* the kept ones in index order, index << 32 | key, while drawing */
        };
        struct {
            uint32_t bin_count[TB_SELECT_BINS];
            uint32_t bin_low[TB_SELECT_BINS], bin_high[TB_SELECT_BINS]; /* mass = high << 32 | low */
        };
    };
    uint64_t chunk_mass[TB_MAX_CHUNKS];
    uint32_t chunk_key[TB_MAX_CHUNKS]; /* greatest key of K0 in a chunk, 0 if none */
    uint64_t rank_key[TB_BATCH];
    uint32_t rank_count[TB_BATCH];
    uint32_t drawn[TB_BATCH];
    uint64_t word[4]; /* one thread to all */
    uint32_t cursor;
    bool masses_used; /* blocks of the team may be reading their chunk_mass */
    tb_scratch scratch;
    tombola_call call;
    tb_gpu_row row;
    tb_source source;
    tb_set set; /* what the chain keeps so far */
    tb_outcome outcome;
} tb_room;

/* All threads have the same `value`; afterwards *shared has it. */
template <class T> TB_DEV void tb_share(T *shared, const T &value)
{
    __syncthreads();
    if (threadIdx.x == 0) *shared = value;
    __syncthreads();
}

/* ---- passes over a row ---- */

TB_DEV tb_cut tb_make_cut(uint64_t floor)
{
    uint32_t key = tb_place_key(floor);
    /* no value has the key below that of 0, which stands for -0: a floor there lets all zeros pass */
    bool partial = (floor & TB_PLACE_LOW) && key != 0x7fffffffu;
    tb_cut cut = {law_key_value(key), partial ? tb_place_index(floor) : ~0u, partial};
    return cut;
}

TB_DEV bool tb_in_cut(const tb_cut &cut, float x, uint32_t index)
{
    return x > cut.value || (x == cut.value && index <= cut.last);
}

/* Makes `x >= cut.value` the whole test for a lane's 16 values. */
TB_DEV void tb_trim(const tb_cut &cut, float (&x)[16], uint32_t first)
{
    if (!cut.partial) return;
#pragma unroll
    for (int j = 0; j < 16; j++)
        if (x[j] == cut.value && tb_piece_at(first, j) > cut.last) x[j] = -LAW_INF;
}

/* Each warp takes its chunks in turn, leaving out those in which no key reaches `least`:
 * visit(x, first) for every 16 values of a lane (N = 16; tb_piece_at says where value j is in the row), or
 * for every 4 (N = 4: less code, for what is rarely asked for); then done(chunk), for the chunks left out
 * too. Every lane of a warp makes the same calls. */
template <int N, class Visit, class Done>
TB_DEV void tb_each_chunk(const tb_room *room, uint32_t least, Visit visit, Done done)
{
    const tb_span span = room->source.span;
    const uint32_t pieces = room->source.pieces, end_chunk = room->source.end_chunk;
    const float fill = room->source.fill;
    for (uint32_t chunk = room->source.first_chunk + tb_warp(); chunk < end_chunk; chunk += blockDim.x / 32) {
        if (room->chunk_key[chunk] >= least) {
            uint32_t piece = chunk * span.chunk_pieces, end = piece + span.chunk_pieces;
            if (end > pieces) end = pieces;
#pragma unroll 1
            for (; piece < end; piece++) {
#pragma unroll 1
                for (int load = 0; load < 4; load += N / 4) {
                    float x[N];
                    tb_load_piece(span, piece, load, fill, x);
                    visit(x, tb_piece_first(span, piece) + load * 128);
                }
            }
        }
        done(chunk);
    }
}

/* Before chunk_mass is written, in all blocks of the team: waits until nobody reads it any more. The caller
 * meets at a barrier of the team before it is read. */
TB_DEV void tb_claim_masses(tb_room *room)
{
    if (room->source.team.size == 1) {
        __syncthreads();
        return;
    }
    if (room->masses_used)
        tb_team_barrier(room->source.team);
    else
        __syncthreads();
    if (threadIdx.x == 0)
        room->masses_used = true; /* read by the others before, and again behind a barrier */
}

/* Starts copying the block's chunks to shared memory, every group by the lane that will read it. */
TB_CALL void tb_stage(const tb_room *room, char *stage)
{
    const tb_source &source = room->source;
    const tb_span span = source.span;
    bool wide = span.dtype == TOMBOLA_F32;
    uint32_t bytes = wide ? 16 : 8, begin = source.first_chunk * span.chunk_pieces;
    for (uint32_t chunk = source.first_chunk + tb_warp(); chunk < source.end_chunk;
         chunk += blockDim.x / 32) {
        for (uint32_t i = 0; i < span.chunk_pieces * 4; i++) {
            uint32_t group = (chunk * span.chunk_pieces * 4 + i) * 32 + tb_lane();
            if (!tb_group_inside(span, group * 4 - span.shift)) continue;
            tb_copy_to_shared(stage + (size_t)(group - begin * 128) * bytes, span.row + (size_t)group * bytes,
                              wide);
        }
    }
}

/* The first pass: facts of the row, and the chunks' greatest keys. */
TB_CALL void tb_survey(tb_room *room)
{
    const tb_source *source = &room->source;
    const tb_span span = source->span;
    const tb_team team = source->team;
    const bool probabilities = source->probabilities;
    const float fill = source->fill;
    float least = LAW_INF;
    uint32_t members = 0, greatest = 0;
    bool nan = false, negative = false;
    for (uint32_t chunk = source->first_chunk + tb_warp(); chunk < source->end_chunk;
         chunk += blockDim.x / 32) {
        uint32_t piece = chunk * span.chunk_pieces, end = piece + span.chunk_pieces;
        if (end > source->pieces) end = source->pieces;
        float most = -LAW_INF;
#pragma unroll 1
        for (; piece < end; piece += 2) { /* two at a time: there is little else to do while they come */
            float x[2][16];
            tb_load_piece(span, piece, 0, fill, x[0]);
            tb_load_piece(span, piece + 1, 0, fill, x[1]);
#pragma unroll
            for (int j = 0; j < 32; j++) {
                float y = x[j / 16][j % 16];
                nan |= y != y;
                if (y > fill) most = fmaxf(most, y), least = fminf(least, y), members++;
            }
            if (probabilities) {
#pragma unroll
                for (int j = 0; j < 32; j++) negative |= x[j / 16][j % 16] < 0.0f;
            }
        }
        uint32_t key = tb_warp_max(most > fill ? law_key(most) : 0u);
        if (tb_lane() < team.size) *tb_team_at(team, &room->chunk_key[chunk], tb_lane()) = key;
        greatest = greatest > key ? greatest : key;
    }
    uint32_t flags = (nan ? TOMBOLA_ROW_NAN : 0u) | (negative ? TOMBOLA_ROW_NEGATIVE : 0u);
    members = tb_warp_sum(members);
    flags = tb_warp_or(flags);
    least = law_key_value(tb_warp_min(least < LAW_INF ? law_key(least) : TB_KEY_POS_INF));
    __syncthreads();
    if (tb_lane() == 0) {
        room->scratch.word[tb_warp()] = (uint64_t)greatest << 32 | ~law_key(least);
        room->scratch.word2[tb_warp()] = (uint64_t)flags << 32 | members;
    }
    __syncthreads();
    bool there = tb_lane() < blockDim.x / 32;
    uint64_t keys = there ? room->scratch.word[tb_lane()] : 0,
             counts = there ? room->scratch.word2[tb_lane()] : 0;
    uint64_t mine[2], theirs[2];
    mine[0] = (uint64_t)tb_warp_max((uint32_t)(keys >> 32)) << 32 | tb_warp_max((uint32_t)keys);
    mine[1] = (uint64_t)tb_warp_or((uint32_t)(counts >> 32)) << 32 | tb_warp_sum((uint32_t)counts);
    tb_team_tell(team, &room->scratch, mine, theirs);
    tb_facts facts;
    facts.greatest = tb_warp_max((uint32_t)(theirs[0] >> 32));
    facts.least = ~tb_warp_max((uint32_t)theirs[0]);
    facts.status = tb_warp_or((uint32_t)(theirs[1] >> 32));
    facts.all = tb_warp_sum((uint32_t)theirs[1]);
    if (facts.all == 0) facts.status |= TOMBOLA_ROW_EMPTY;
    if (facts.greatest == TB_KEY_POS_INF) { /* +inf entries: only they are in K0 */
        uint32_t infinite = 0;
        uint64_t none = 0;
        tb_each_chunk<4>(
            room, TB_KEY_POS_INF,
            [&](const float(&x)[4], uint32_t) {
                for (int j = 0; j < 4; j++) infinite += x[j] == LAW_INF;
            },
            [](uint32_t) {});
        tb_team_sums(team, &room->scratch, &none, &infinite);
        facts.all = infinite;
        facts.least = TB_KEY_POS_INF;
        facts.status |= TOMBOLA_ROW_POS_INF;
    }
    tb_share(&room->source.facts, facts);
}

typedef struct tb_measured {
    uint64_t mass;
    uint32_t count;
} tb_measured;

/* Mass and count of the tokens with place >= floor. `keep`: room->chunk_mass receives the chunks' masses. */
TB_CALL tb_measured tb_measure(tb_room *room, uint64_t floor, bool keep)
{
    const tb_source &source = room->source;
    const tb_weigher weigher = source.weigher;
    const tb_cut cut = tb_make_cut(floor);
    const tb_team team = source.team;
    bool sparse = tb_place_key(floor) > source.facts.least;
    uint64_t total = 0;
    uint32_t n = 0, high = 0, low = 0, values = 0;
    if (keep) tb_claim_masses(room);
    tb_each_chunk<16>(
        room, tb_place_key(floor),
        [&](float(&x)[16], uint32_t first) {
            tb_trim(cut, x, first);
            if (sparse) {
                bool any = false;
#pragma unroll
                for (int j = 0; j < 16; j++) any |= x[j] >= cut.value;
                if (!__any_sync(TB_WHOLE_WARP, any)) return;
            }
            values += 16;
            auto add = [&](float y, float r) {
                bool in = y >= cut.value;
                uint32_t h, l;
                tb_split_ratio(in ? r : 0.0f, &h, &l);
                n += in;
                high += h;
                low += l;
            };
            if (weigher.plain) {
#pragma unroll
                for (int j = 0; j < 16; j++) add(x[j], tb_ratio_plain(weigher, x[j]));
            } else {
#pragma unroll
                for (int j = 0; j < 16; j++)
                    add(x[j], weigher.flat ? 1.0f : x[j] * weigher.scale * weigher.scale2);
            }
        },
        [&](uint32_t chunk) {
            uint64_t sum =
                tb_warp_sum54(tb_join_sums(high - values * TB_HIGH_BIAS, low - values * TB_LOW_BIAS));
            if (keep && tb_lane() < team.size) *tb_team_at(team, &room->chunk_mass[chunk], tb_lane()) = sum;
            if (tb_lane() == 0) total += sum;
            high = low = values = 0;
        });
    tb_team_sums(team, &room->scratch, &total, &n);
    tb_measured result = {total, n};
    return result;
}

/* One warp finds, in a chunk, the first index whose inclusive prefix sum of measure(x, index) exceeds `rest`;
 * ~0 if there is none. Sums stay below 2^54. */
template <class Measure>
TB_DEV uint32_t tb_find_in_chunk(const tb_room *room, uint32_t chunk, uint64_t rest, Measure measure)
{
    const uint32_t pieces = room->source.pieces;
    const float fill = room->source.fill;
    tb_span span = room->source.span;
    span.base = span.row; /* any block's chunk */
    uint32_t piece = chunk * span.chunk_pieces, end = piece + span.chunk_pieces;
    if (end > pieces) end = pieces;
#pragma unroll 1
    for (; piece < end; piece++) {
        float x[16];
        uint32_t first = tb_piece_first(span, piece);
        tb_load_piece(span, piece, 0, fill, x);
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
#pragma unroll 1
    for (uint32_t i = first; i < end; i++) sum += room->chunk_mass[i];
    uint64_t prefix = tb_block_scan64(&room->scratch, sum, &total);
#pragma unroll 1
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
TB_CALL uint64_t tb_locate_tie(tb_room *room, uint32_t key, uint64_t ceiling, uint32_t number)
{
    const tb_source &source = room->source;
    const tb_team team = source.team;
    float value = law_key_value(key);
    auto is = [&](float x, uint32_t index) -> uint64_t {
        return x == value && tb_place(key, index) < ceiling ? 1 : 0;
    };
    uint32_t n = 0;
    tb_claim_masses(room);
    tb_each_chunk<4>(
        room, key,
        [&](const float(&x)[4], uint32_t first) {
#pragma unroll
            for (int j = 0; j < 4; j++) n += (uint32_t)is(x[j], first + j);
        },
        [&](uint32_t chunk) {
            n = tb_warp_sum(n);
            if (tb_lane() < team.size) *tb_team_at(team, &room->chunk_mass[chunk], tb_lane()) = n;
            n = 0;
        });
    tb_team_barrier(team);
    tb_scan_chunks(room, source.chunks);
    if (room->chunk_mass[source.chunks - 1] <= number) return tb_floor_of_key(key);
    uint32_t chunk = tb_first_above(room->chunk_mass, source.chunks, number);
    uint64_t before = chunk ? room->chunk_mass[chunk - 1] : 0;
    if (tb_warp() == 0) {
        uint32_t index = tb_find_in_chunk(room, chunk, number - before, is);
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

/* Lists the tokens with low <= place < high, in no order, and returns their number; no list if it is more
 * than TB_LIST. Each block finds its own, and takes those of the others. */
TB_CALL uint32_t tb_gather(tb_room *room, uint64_t low, uint64_t high)
{
    const tb_source &source = room->source;
    const tb_window window = tb_make_window(low, high);
    const tb_span span = source.span;
    const tb_team team = source.team;
    uint64_t *own = team.size == 1 ? room->list : room->other;
    __syncthreads();
    if (threadIdx.x == 0) room->cursor = 0;
    __syncthreads();
    tb_each_chunk<16>(
        room, tb_place_key(low),
        [&](const float(&x)[16], uint32_t first) {
            uint32_t taken = tb_in_window(window, span, x, first);
            if (!__any_sync(TB_WHOLE_WARP, taken)) return;
            uint32_t n = __popc(taken), inclusive = tb_warp_scan(n), at = 0;
            if (tb_lane() == 31) at = atomicAdd(&room->cursor, inclusive);
            at = __shfl_sync(TB_WHOLE_WARP, at, 31) + inclusive - n;
            for (; taken && at < TB_LIST; taken &= taken - 1, at++) {
                uint32_t index = tb_piece_at(first, __ffs((int)taken) - 1);
                own[at] = tb_place(law_key(tb_load(span, index)), index);
            }
        },
        [](uint32_t) {});
    __syncthreads();
    uint64_t mine[1] = {room->cursor}, theirs[1];
    tb_team_tell(team, &room->scratch, mine, theirs);
    uint32_t n = (uint32_t)theirs[0], end = tb_warp_scan(n), total = tb_warp_sum(n);
    if (team.size == 1 || total > TB_LIST) return total;
    for (uint32_t r = 0; r < team.size; r++) {
        uint32_t stop = __shfl_sync(TB_WHOLE_WARP, end, r), start = stop - __shfl_sync(TB_WHOLE_WARP, n, r);
        const uint64_t *from = tb_team_at(team, room->other, r);
#pragma unroll 1
        for (uint32_t i = start + threadIdx.x; i < stop; i += blockDim.x) room->list[i] = from[i - start];
    }
    tb_team_barrier(team); /* room->other may be written again */
    return total;
}

#endif
