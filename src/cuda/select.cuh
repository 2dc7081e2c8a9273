/*
 * Exact selection on a row, by one block: which tokens a step keeps, found without sorting the row.
 *
 * A kept set is { place >= floor } (row.cuh). It is held in one of two ways:
 *   wide    only the floor is known; the row is read again where its tokens matter
 *   listed  all its tokens, at most TB_LIST, lie in shared memory, greatest first
 * A step on a listed set is a scan of the list. On a wide set the cut is bracketed by a histogram of
 * counts over an interval of values; from the counts and the weights at the bins' edges follow bounds on
 * the mass above each bin, so the bracket is rigorous. The bracket's tokens are then listed and the cut is
 * found among them in exact integers. A bracket with too many tokens is cut again, by exact masses over
 * equal intervals of keys: each time 2048 times narrower, down to a single value.
 */
#ifndef TB_CUDA_SELECT_CUH
#define TB_CUDA_SELECT_CUH

#include "row.cuh"

#define TB_LIST 2048
#define TB_BINS 2048
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
        for (uint32_t i = start + threadIdx.x; i < stop; i += blockDim.x) room->list[i] = from[i - start];
    }
    tb_team_barrier(team); /* room->other may be written again */
    return total;
}

/* ---- lists ---- */

/* Sorts shared[0, n), n <= TB_LIST, downwards or upwards; the rest up to a power of two is overwritten. */
TB_CALL void tb_sort_shared(uint64_t *shared, uint32_t n, bool down)
{
    uint32_t size = 2;
    while (size < n) size *= 2;
    for (uint32_t i = n + threadIdx.x; i < size; i += blockDim.x) shared[i] = down ? 0 : ~(uint64_t)0;
    __syncthreads();
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t step = run / 2; step > 0; step /= 2) {
            for (uint32_t i = threadIdx.x; i < size / 2; i += blockDim.x) {
                uint32_t a = 2 * i - (i & (step - 1)), b = a + step;
                bool up = ((a & run) != 0) == down; /* the last run goes the way asked for */
                uint64_t x = shared[a], y = shared[b];
                if ((x > y) == up) shared[a] = y, shared[b] = x;
            }
            if (size <= 64)
                __syncwarp(); /* all pairs are the first warp's */
            else
                __syncthreads();
        }
    }
    __syncthreads();
}

/*
 * How many of list[0, n) (greatest first) stay: each has fewer than k greater ones and less than `target`
 * mass in them, `above` tokens of mass `mass_above` being greater than the whole list. With ties ALL only
 * another value makes a token greater. The mass returned is mass_above plus that of those that stay.
 */
TB_CALL tb_measured tb_cut_list(tb_room *room, bool by_index, uint32_t n, uint32_t k, uint64_t target,
                                uint32_t above, uint64_t mass_above)
{
    const tb_weigher weigher = room->source.weigher;
    uint32_t per = (n + blockDim.x - 1) / blockDim.x, first = threadIdx.x * per;
    uint32_t end = first + per < n ? first + per : n, cut = n;
    uint64_t sum = 0, total;
    for (uint32_t i = first; i < end; i++)
        sum += tb_weight(weigher, law_key_value(tb_place_key(room->list[i])));
    uint64_t prefix = mass_above + tb_block_scan64(&room->scratch, sum, &total);
    uint32_t before = first > 0 && first < n ? tb_place_key(room->list[first - 1]) : 0;
    for (uint32_t i = first; i < end; i++) {
        uint32_t key = tb_place_key(room->list[i]);
        if ((by_index || key != before) && (above + i >= k || prefix >= target)) {
            cut = i;
            break;
        }
        before = key;
        prefix += tb_weight(weigher, law_key_value(key));
    }
    cut = ~tb_block_max(&room->scratch, ~cut);
    sum = 0;
    for (uint32_t i = first; i < end && i < cut; i++)
        sum += tb_weight(weigher, law_key_value(tb_place_key(room->list[i])));
    tb_measured kept = {mass_above + tb_block_sum64(&room->scratch, sum), cut};
    return kept;
}

/* ---- bins ---- */

/* A monotone map from values to bin numbers, 0 the greatest: equal intervals of values, or of keys. */
typedef struct tb_bins {
    bool linear;
    float top, inverse, bottom; /* linear: bin = round((top - x) * inverse) */
    uint32_t top_key, bottom_key, shift;
} tb_bins;

TB_DEV tb_bins tb_make_bins(uint32_t low, uint32_t high, bool linear)
{
    tb_bins bins;
    bins.top = law_key_value(high);
    bins.bottom = law_key_value(low);
    bins.top_key = high;
    bins.bottom_key = low;
    bins.shift = 0;
    while ((high - low) >> bins.shift >= TB_BINS) bins.shift++;
    bins.inverse = (float)(TB_BINS - 1) / (bins.top - bins.bottom);
    /* a range or a reciprocal that overflows: equal intervals of keys, then */
    bins.linear = linear && bins.inverse > 0.0f && bins.inverse < LAW_INF;
    return bins;
}

TB_DEV uint32_t tb_bin_linear(const tb_bins &bins, float x)
{
    float at = fminf((bins.top - x) * bins.inverse, (float)(TB_BINS - 1));
    return law_bits(at + 0x1p23f) - law_bits(0x1p23f);
}

TB_DEV uint32_t tb_bin(const tb_bins &bins, float x)
{
    return bins.linear ? tb_bin_linear(bins, x) : (bins.top_key - law_key(x)) >> bins.shift;
}

/* Values between which every x of the interval in bin b lies. tb_bin's rounding errors are below 2^-10 of
 * a bin, and what is rounded to f32 here is monotone. */
TB_DEV float tb_bin_high(const tb_bins &bins, uint32_t b)
{
    if (!bins.linear) return law_key_value(bins.top_key - (b << bins.shift));
    float x = (float)((double)bins.top - ((double)b - 0.51) / (double)bins.inverse);
    return fminf(x, bins.top);
}

TB_DEV float tb_bin_low(const tb_bins &bins, uint32_t b)
{
    if (!bins.linear) {
        uint64_t down = ((uint64_t)(b + 1) << bins.shift) - 1;
        return down >= bins.top_key - bins.bottom_key ? bins.bottom
                                                      : law_key_value(bins.top_key - (uint32_t)down);
    }
    float x = (float)((double)bins.top - ((double)b + 0.51) / (double)bins.inverse);
    return b == TB_BINS - 1 ? bins.bottom : fmaxf(x, bins.bottom);
}

/* The least key in [low, high] for which holds(key); holds is monotone and true at high. By each warp on its
 * own. */
template <class Holds> TB_DEV uint32_t tb_least_key(uint32_t low, uint32_t high, Holds holds)
{
    while (low < high) {
        uint64_t width = high - low;
        uint32_t probe = low + (uint32_t)(width * tb_lane() >> 5);
        unsigned yes = __ballot_sync(TB_WHOLE_WARP, holds(probe));
        if (yes & 1) return low;
        int first = yes ? __ffs((int)yes) - 1 : 32;
        low += (uint32_t)(width * (uint32_t)(first - 1) >> 5) + 1;
        if (first < 32) high = __shfl_sync(TB_WHOLE_WARP, probe, first);
    }
    return high;
}

/* The least key in [low, high] whose weight reaches `least`; high's does. */
TB_CALL uint32_t tb_key_of_weight(const tb_room *room, uint32_t low, uint32_t high, uint64_t least)
{
    const tb_weigher weigher = room->source.weigher;
    return tb_least_key(low, high,
                        [&](uint32_t key) { return tb_weight(weigher, law_key_value(key)) >= least; });
}

/* Counts the tokens low <= place < high into bins; with `weigh` also their masses. */
TB_DEV void tb_fill_bins(tb_room *room, const tb_bins &bins, uint64_t low, uint64_t high, bool weigh)
{
    const tb_source &source = room->source;
    const tb_weigher weigher = source.weigher;
    const tb_window window = tb_make_window(low, high);
    const tb_span span = source.span;
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < TB_BINS; b += blockDim.x) {
        room->bin_count[b] = 0;
        if (weigh) room->bin_low[b] = room->bin_high[b] = 0;
    }
    __syncthreads();
    tb_each_chunk<16>(
        room, tb_place_key(low),
        [&](const float(&x)[16], uint32_t first) {
            uint32_t inside = tb_in_window(window, span, x, first);
            if (bins.linear && !weigh) {
#pragma unroll
                for (int j = 0; j < 16; j++)
                    if (inside >> j & 1) atomicAdd(&room->bin_count[tb_bin_linear(bins, x[j])], 1u);
                return;
            }
            for (; inside; inside &= inside - 1) {
                float y = tb_load(span, tb_piece_at(first, __ffs((int)inside) - 1));
                uint32_t b = tb_bin(bins, y);
                atomicAdd(&room->bin_count[b], 1u);
                if (!weigh) continue;
                uint64_t w = tb_weight(weigher, y);
                uint32_t part = (uint32_t)w, old = atomicAdd(&room->bin_low[b], part);
                part = (uint32_t)(w >> 32) + (old + part < part); /* the carry */
                if (part) atomicAdd(&room->bin_high[b], part);
            }
        },
        [](uint32_t) {});
    tb_team_barrier(source.team);
    if (source.team.size == 1) return;
    /* each block sums its share of the bins, then takes the other shares */
    const tb_team team = source.team;
    uint32_t share = TB_BINS / team.size;
    for (uint32_t i = threadIdx.x; i < share; i += blockDim.x) {
        uint32_t b = team.rank * share + i, n = 0;
        uint64_t sum = 0;
        for (uint32_t r = 0; r < team.size; r++) {
            n += *tb_team_at(team, &room->bin_count[b], r);
            if (weigh)
                sum += (uint64_t)*tb_team_at(team, &room->bin_high[b], r) << 32 |
                       *tb_team_at(team, &room->bin_low[b], r);
        }
        room->bin_count[b] = n;
        if (weigh) room->bin_low[b] = (uint32_t)sum, room->bin_high[b] = (uint32_t)(sum >> 32);
    }
    tb_team_barrier(team);
    for (uint32_t b = threadIdx.x; b < TB_BINS; b += blockDim.x) {
        uint32_t r = b / share;
        if (r == team.rank) continue;
        room->bin_count[b] = *tb_team_at(team, &room->bin_count[b], r);
        if (!weigh) continue;
        room->bin_low[b] = *tb_team_at(team, &room->bin_low[b], r);
        room->bin_high[b] = *tb_team_at(team, &room->bin_high[b], r);
    }
    tb_team_barrier(team);
}

typedef struct tb_bracket {
    uint32_t first, last; /* bins between which the last kept value lies */
    uint32_t above;       /* tokens of the bins before them */
    uint32_t inside;      /* tokens of the bracket; 0: no token at all */
    uint64_t mass_above;  /* exact masses: of the bins before */
} tb_bracket;

/* Brackets the last value that has fewer than k greater tokens with less than `target` mass. `exact`: masses
 * are in the bins; else they are bounded by the weights at the bins' edges. */
TB_DEV tb_bracket tb_bracket_bins(tb_room *room, const tb_bins &bins, uint32_t k, uint64_t target, bool exact)
{
    const tb_weigher weigher = room->source.weigher;
    uint32_t per = TB_BINS / blockDim.x, begin = threadIdx.x * per;
    bool weigh = target != TB_NO_TARGET;
    auto mass = [&](uint32_t b, uint32_t n, bool high) -> uint64_t {
        if (exact) return (uint64_t)room->bin_high[b] << 32 | room->bin_low[b];
        return n * tb_weight(weigher, high ? tb_bin_high(bins, b) : tb_bin_low(bins, b));
    };
    uint32_t n = 0, all;
    uint64_t low = 0, high = 0, total;
    for (uint32_t b = begin; b < begin + per; b++) {
        uint32_t count = room->bin_count[b];
        n += count;
        if (!count || !weigh) continue;
        low += mass(b, count, false);
        high += mass(b, count, true);
    }
    n = tb_block_scan(&room->scratch, n, &all);
    if (weigh) {
        low = tb_block_scan64(&room->scratch, low, &total);
        high = tb_block_scan64(&room->scratch, high, &total);
    }
    /* the last bins with tokens that surely and that possibly hold a kept value; one more than their number
     */
    uint32_t sure = 0, possible = 0, sure_above = 0, possible_end = 0;
    uint64_t sure_mass = 0;
    for (uint32_t b = begin; b < begin + per; b++) {
        uint32_t count = room->bin_count[b];
        if (!count) continue;
        if (n < k && low < target) possible = b + 1, possible_end = n + count;
        if (n < k && high < target) sure = b + 1, sure_above = n, sure_mass = high;
        n += count;
        if (!weigh) continue;
        low += mass(b, count, false);
        high += mass(b, count, true);
    }
    tb_bracket bracket = {0, 0, 0, 0, 0};
    uint32_t first = tb_block_max(&room->scratch, sure), last = tb_block_max(&room->scratch, possible);
    if (!first) return bracket;
    if (sure == first) room->word[0] = sure_above, room->word[1] = sure_mass;
    if (possible == last) room->word[2] = possible_end;
    __syncthreads();
    bracket.first = first - 1;
    bracket.last = last - 1;
    bracket.above = (uint32_t)room->word[0];
    bracket.inside = (uint32_t)room->word[2] - bracket.above;
    bracket.mass_above = room->word[1];
    __syncthreads();
    return bracket;
}

/* The interval of keys of a bracket's bins. */
TB_DEV void tb_narrow(const tb_bins &bins, const tb_bracket &bracket, uint32_t *low, uint32_t *high)
{
    if (!bins.linear) {
        uint64_t down = ((uint64_t)(bracket.last + 1) << bins.shift) - 1;
        if (down < bins.top_key - bins.bottom_key) *low = bins.top_key - (uint32_t)down;
        *high = bins.top_key - (bracket.first << bins.shift);
        return;
    }
    *low = tb_least_key(bins.bottom_key, bins.top_key, [&](uint32_t key) {
        return tb_bin_linear(bins, law_key_value(key)) <= bracket.last;
    });
    if (bracket.first > 0)
        *high = tb_least_key(
                    bins.bottom_key, bins.top_key,
                    [&](uint32_t key) { return tb_bin_linear(bins, law_key_value(key)) < bracket.first; }) -
                1;
}

/* Least and greatest key of the tokens low <= place < high. */
TB_DEV void tb_range(tb_room *room, uint64_t low, uint64_t high, uint32_t *least_key, uint32_t *greatest_key)
{
    float least = law_key_value(tb_place_key(low));
    uint32_t smallest = ~0u, greatest = 0;
    tb_each_chunk<4>(
        room, tb_place_key(low),
        [&](const float(&x)[4], uint32_t first) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (!(x[j] >= least)) continue;
                uint32_t key = law_key(x[j]);
                uint64_t place = tb_place(key, first + j);
                if (place < low || place >= high) continue;
                smallest = smallest < key ? smallest : key;
                greatest = greatest > key ? greatest : key;
            }
        },
        [](uint32_t) {});
    uint64_t mine[2] = {tb_block_max(&room->scratch, ~smallest), tb_block_max(&room->scratch, greatest)},
             theirs[2];
    tb_team_tell(room->source.team, &room->scratch, mine, theirs);
    *least_key = ~tb_warp_max((uint32_t)theirs[0]);
    *greatest_key = tb_warp_max((uint32_t)theirs[1]);
}

/* ---- the cut ---- */

/* The k-th greatest of the chunks' greatest keys: k tokens of K0 reach it. 1 <= k <= chunks. */
TB_CALL uint32_t tb_chunk_bound(tb_room *room, uint32_t chunks, uint32_t k)
{
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < chunks; c += blockDim.x) {
        uint32_t key = room->chunk_key[c], rank = 0;
        for (uint32_t i = 0; i < chunks; i++) {
            uint32_t other = room->chunk_key[i];
            rank += other > key || (other == key && i < c);
        }
        if (rank == k - 1) room->word[0] = key;
    }
    __syncthreads();
    uint32_t bound = (uint32_t)room->word[0];
    __syncthreads();
    return bound;
}

/* Lists the set from `floor` on, if that is at most TB_LIST tokens; else nothing happens, and false. */
TB_DEV bool tb_list_set(tb_room *room, tb_set *set, uint64_t floor)
{
    uint32_t n = tb_gather(room, floor, set->ceiling);
    if (n > TB_LIST) return false;
    tb_sort_shared(room->list, n, true);
    set->floor = floor;
    set->count = n;
    set->listed = set->counted = true;
    set->weighed = set->chunked = false;
    return true;
}

/* Cuts a listed set. */
TB_DEV void tb_select_listed(tb_room *room, bool by_index, uint32_t k, uint64_t target, tb_set *set)
{
    uint32_t n = set->count;
    tb_measured kept = tb_cut_list(room, by_index, n, k, target, 0, 0);
    set->count = kept.count;
    set->mass = kept.mass;
    set->weighed = true;
    if (set->count < n) set->chunked = false;
    if (set->count > 0) set->floor = room->list[set->count - 1];
}

/* The work of tb_select on a wide set. */
TB_DEV void tb_select_wide(tb_room *room, bool by_index, uint32_t k, uint64_t target, tb_set *set)
{
    const tb_source &source = room->source;
    const bool weigh = target != TB_NO_TARGET, whole = set->ceiling == TB_NO_CEILING;
    uint32_t high = source.facts.greatest, low = tb_place_key(set->floor);
    if (!whole && tb_place_key(set->ceiling) < high) high = tb_place_key(set->ceiling);
    if (low < source.facts.least) low = source.facts.least;
    if (low > high) { /* nothing between floor and ceiling */
        set->count = 0;
        set->listed = set->counted = true;
        return;
    }

    /* a lower bound of the last kept value, and perhaps a list at once */
    bool few = set->counted && set->count <= TB_LIST;
    if (!few && whole && k <= source.chunks) {
        uint32_t bound = tb_chunk_bound(room, source.chunks, k);
        if (bound >= low) low = bound, few = true;
    }
    if (!few && weigh) {
        /* n tokens of weight at most w, with n * w <= mass - target, are none of the first `target` mass */
        uint64_t least = (set->mass - target) / set->count + 1;
        low = tb_key_of_weight(room, low, high, least);
    }
    uint64_t place = tb_floor_of_key(low);
    if (place < set->floor) place = set->floor;
    if (few && tb_list_set(room, set, place)) return;

    uint32_t above = 0; /* tokens of the set greater than the interval [low, high], and their mass */
    uint64_t mass_above = 0;
    bool exact = false;
    set->weighed = set->chunked = set->counted = false;
    while (low < high) {
        const tb_bins bins = tb_make_bins(low, high, !exact);
        uint64_t end = tb_floor_of_key(high + 1);
        if (end > set->ceiling) end = set->ceiling;
        tb_fill_bins(room, bins, place, end, exact && weigh);
        const tb_bracket bracket =
            tb_bracket_bins(room, bins, k - above, weigh ? target - mass_above : TB_NO_TARGET, exact);
        if (bracket.inside == 0) {
            set->count = 0;
            set->listed = set->counted = true;
            return;
        }
        above += bracket.above;
        if (exact) mass_above += bracket.mass_above;
        tb_narrow(bins, bracket, &low, &high);
        place = tb_floor_of_key(low);
        if (place < set->floor) place = set->floor;
        end = tb_floor_of_key(high + 1);
        if (end > set->ceiling) end = set->ceiling;

        if (above + bracket.inside <= TB_LIST) {
            tb_list_set(room, set, place);
            return;
        }
        bool within = bracket.inside <= TB_LIST;
        if (within) {
            tb_gather(room, place, end);
            tb_sort_shared(room->list, bracket.inside, true);
        } else if (!exact) {
            tb_range(room, place, end, &low, &high);
        }
        if (weigh && !exact && above) mass_above = tb_measure(room, end, false).mass;
        if (within) {
            tb_measured kept = tb_cut_list(room, by_index, bracket.inside, k, target, above, mass_above);
            set->floor = room->list[kept.count - 1];
            set->count = above + kept.count;
            set->mass = kept.mass;
            set->counted = true;
            set->weighed = weigh;
            return;
        }
        exact = true;
        place = tb_floor_of_key(low);
        if (place < set->floor) place = set->floor;
    }

    /* a single value, of many tokens */
    if (by_index) {
        uint64_t w = tb_weight(source.weigher, law_key_value(low));
        uint64_t number = k == TB_NO_COUNT ? TB_NO_TARGET : k - above; /* of them that stay */
        if (weigh && w) {
            uint64_t by_mass = (target - mass_above + w - 1) / w;
            if (by_mass < number) number = by_mass;
        }
        if (number < (1u << LAW_INDEX_BITS)) {
            uint64_t last = tb_locate_tie(room, low, set->ceiling, (uint32_t)number - 1);
            if (last > place) place = last;
        }
    }
    set->floor = place;
}

/*
 * Keeps those tokens of room->set with fewer than k greater ones and less than `target` mass in them (k,
 * target >= 1; TB_NO_COUNT and TB_NO_TARGET: no limit). With a target the set must be weighed and counted.
 */
TB_CALL void tb_select(tb_room *room, bool by_index, uint32_t k, uint64_t target)
{
    tb_set set = room->set;
    if (!set.listed) tb_select_wide(room, by_index, k, target, &set);
    /* a wide set that has become a list is still to be cut; one that stayed wide is cut */
    if (set.listed) tb_select_listed(room, by_index, k, target, &set);
    tb_share(&room->set, set);
}

/* ---- the chain ---- */

/* Makes mass and count of room->set known. */
TB_CALL void tb_weigh_set(tb_room *room)
{
    tb_set set = room->set;
    if (set.weighed && set.counted) return;
    if (set.listed) {
        const tb_weigher weigher = room->source.weigher;
        uint64_t sum = 0;
        for (uint32_t i = threadIdx.x; i < set.count; i += blockDim.x)
            sum += tb_weight(weigher, law_key_value(tb_place_key(room->list[i])));
        set.mass = tb_block_sum64(&room->scratch, sum);
    } else {
        tb_measured measured = tb_measure(room, set.floor, true);
        set.mass = measured.mass;
        set.count = measured.count;
        set.chunked = true;
    }
    set.weighed = set.counted = true;
    tb_share(&room->set, set);
}

/* Keeps the greatest token alone, the lowest index among equals. */
TB_DEV void tb_keep_greatest(tb_room *room, tb_set *set)
{
    if (!set->listed) {
        uint64_t place = tb_locate_tie(room, room->source.facts.greatest, TB_NO_CEILING, 0);
        tb_share(&room->list[0], place);
    }
    set->floor = room->list[0];
    set->count = 1;
    set->listed = set->counted = true;
}

/* Keeps the tokens of at least this weight. */
TB_DEV void tb_keep_weight(tb_room *room, uint64_t least)
{
    tb_set set = room->set;
    if (set.listed) {
        const tb_weigher weigher = room->source.weigher;
        uint32_t n = 0;
        for (uint32_t i = threadIdx.x; i < set.count; i += blockDim.x)
            n += tb_weight(weigher, law_key_value(tb_place_key(room->list[i]))) >= least;
        n = tb_block_sum(&room->scratch, n);
        if (n == set.count) return;
        set.count = n;
        set.floor = room->list[n - 1];
    } else {
        uint32_t low = tb_place_key(set.floor), high = room->source.facts.greatest;
        if (low < room->source.facts.least) low = room->source.facts.least;
        uint32_t key = tb_key_of_weight(room, low, high, least);
        if (key == low) return; /* they all stay */
        set.floor = tb_floor_of_key(key);
        set.counted = false;
    }
    set.weighed = set.chunked = false;
    tb_share(&room->set, set);
}

/* All of K0, at temperature 1. */
TB_DEV void tb_begin_chain(tb_room *room)
{
    const tb_facts facts = room->source.facts;
    const bool probabilities = room->source.probabilities;
    tb_set set = {
        tb_floor_of_all(facts, probabilities), TB_NO_CEILING, 0, facts.all, false, true, false, false};
    __syncthreads();
    if (threadIdx.x == 0) {
        room->source.weigher = tb_make_weigher(probabilities, law_key_value(facts.greatest));
        room->set = set;
    }
    __syncthreads();
}

/* Applies the row's steps [0, count) to room->set. Returns the mass before the first filter, if `want_total`.
 */
TB_CALL uint64_t tb_run_chain(tb_room *room, int32_t count, bool want_total)
{
    bool filtered = false;
    uint64_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        const tb_gpu_step step = room->row.steps[i];
        if (step.kind == TOMBOLA_TEMPERATURE) {
            tb_weigher weigher = room->source.weigher;
            bool greedy = !tb_set_temperature(&weigher, step.value);
            tb_share(&room->source.weigher, weigher);
            tb_set set = room->set;
            set.weighed = set.chunked = false;
            if (greedy) tb_keep_greatest(room, &set);
            tb_share(&room->set, set);
            continue;
        }
        if (!filtered && want_total) {
            tb_weigh_set(room);
            total = room->set.mass;
        }
        filtered = true;
        if (step.kind == TOMBOLA_MIN_P) {
            if (step.value <= 0.0f) continue;
            uint64_t greatest = tb_weight(room->source.weigher, room->source.weigher.maximum);
            tb_keep_weight(room, law_min_p_weight(step.value, greatest));
            continue;
        }
        uint32_t k = step.kind != TOMBOLA_TOP_P && step.k > 0 ? (uint32_t)step.k : TB_NO_COUNT;
        uint64_t target = TB_NO_TARGET;
        if (step.kind != TOMBOLA_TOP_K && step.value < 1.0f) {
            tb_weigh_set(room);
            target = law_top_p_target(step.value, room->set.mass);
        }
        if (room->set.counted && k >= room->set.count) k = TB_NO_COUNT;
        if (k != TB_NO_COUNT || target != TB_NO_TARGET) tb_select(room, room->source.by_index, k, target);
    }
    if (!filtered && want_total) {
        tb_weigh_set(room);
        total = room->set.mass;
    }
    return total;
}

#endif
