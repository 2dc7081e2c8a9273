/*
 * Draws from the set that a chain keeps, and the ranks of what was drawn.
 */
#ifndef TB_CUDA_DRAWS_CUH
#define TB_CUDA_DRAWS_CUH

#include "select.cuh"

/* For calls that want neither tokens nor what is said of them (logprobs, ranks, entropy, given tokens): no
 * code for that (ANY). */
struct tb_draw_nothing {
    static constexpr bool ANY = false;

    TB_MEMBER void prepare(tb_room *)
    {
    }

    TB_MEMBER void draw(tb_room *, int64_t, uint32_t, uint32_t)
    {
    }
};

/* Draws from the kept set by inverse transform: prefix sums in index order, of the tokens of a listed set,
 * else of the chunks. */
struct tb_draw_exactly {
    static constexpr bool ANY = true;

    TB_MEMBER void prepare(tb_room *room)
    {
        if (!room->outcome.ordered) {
            if (!room->outcome.set.chunked) tb_measure(room, room->outcome.set.floor, true);
            tb_scan_chunks(room, room->source.chunks);
            return;
        }
        const tb_weigher weigher = room->outcome.weigher;
        uint32_t n = room->outcome.set.count, per = (n + blockDim.x - 1) / blockDim.x,
                 first = threadIdx.x * per;
        uint32_t end = first + per < n ? first + per : n;
        uint64_t sum = 0, total;
#pragma unroll 1
        for (uint32_t i = first; i < end; i++)
            sum += tb_weight(weigher, law_key_value((uint32_t)room->other[i]));
        sum = tb_block_scan64(&room->scratch, sum, &total);
#pragma unroll 1
        for (uint32_t i = first; i < end; i++)
            room->list[i] = sum += tb_weight(weigher, law_key_value((uint32_t)room->other[i]));
        __syncthreads();
    }

    /* Draws [first, first + n): their tokens into room->drawn. */
    TB_MEMBER void draw(tb_room *room, int64_t index, uint32_t first, uint32_t n)
    {
        const tombola_call &call = room->call;
        const uint64_t mass = room->outcome.mass;
        if (room->outcome.ordered) {
            const uint32_t count = room->outcome.set.count;
#pragma unroll 1
            for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) {
                uint64_t u = law_draw_position(tb_gpu_random(call, &room->row, index, first + d), mass);
                room->drawn[d] = (uint32_t)(room->other[tb_first_above(room->list, count, u)] >> 32);
            }
        } else {
            const tb_weigher weigher = room->outcome.weigher;
            const tb_cut cut = room->outcome.cut;
            const uint32_t chunks = room->source.chunks;
            for (uint32_t d = tb_warp(); d < n; d += blockDim.x / 32) {
                uint64_t u = law_draw_position(tb_gpu_random(call, &room->row, index, first + d), mass);
                uint32_t chunk = tb_first_above(room->chunk_mass, chunks, u);
                uint32_t token = tb_find_in_chunk(room, chunk, u - (chunk ? room->chunk_mass[chunk - 1] : 0),
                                                  [&](float x, uint32_t i) -> uint64_t {
                                                      return tb_in_cut(cut, x, i) ? tb_weight(weigher, x) : 0;
                                                  });
                if (tb_lane() == 0) room->drawn[d] = token;
            }
        }
        if (call.rounds && room->source.team.rank == 0)
#pragma unroll 1
            for (uint32_t d = threadIdx.x; d < n; d += blockDim.x)
                call.rounds[index * call.draws + first + d] = 0;
    }
};

/* Ranks of room->drawn[0, n): one pass over the row for all of them. Value d's rank goes to rank[d] (global).
 */
TB_CALL void tb_write_ranks(tb_room *room, uint32_t n, int32_t *rank)
{
    const tb_source &source = room->source;
    const tb_team team = source.team;
    const float least_value = room->outcome.all.value;
#pragma unroll 1
    for (uint32_t d = threadIdx.x; d < n; d += blockDim.x) {
        room->rank_key[d] = (uint64_t)law_key(tb_load(source.span, room->drawn[d])) << 32 | d;
        room->rank_count[d] = 0;
    }
    tb_sort_shared(room->rank_key, n, false); /* n <= TB_BATCH, a power of two */
    uint32_t least = (uint32_t)(room->rank_key[0] >> 32);
    uint32_t single = 0;
    tb_each_chunk<4>(
        room, least,
        [&](const float(&x)[4], uint32_t) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (!(x[j] >= least_value)) continue;
                uint32_t key = law_key(x[j]);
                if (n == 1) {
                    single += key >= least;
                    continue;
                }
                if (key < least) continue;
                uint32_t low = 0, high = n - 1; /* the last drawn key that this one reaches */
                while (low < high) {
                    uint32_t middle = (low + high + 1) / 2;
                    if ((uint32_t)(room->rank_key[middle] >> 32) <= key)
                        low = middle;
                    else
                        high = middle - 1;
                }
                atomicAdd(&room->rank_count[low], 1u);
            }
        },
        [](uint32_t) {});
    if (n == 1) {
        uint64_t none = 0;
        tb_team_sums(team, &room->scratch, &none, &single);
        if (threadIdx.x == 0 && team.rank == 0) rank[0] = (int32_t)single;
        return;
    }
    tb_team_barrier(team);
#pragma unroll 1
    for (uint32_t d = threadIdx.x; d < n && team.rank == 0; d += blockDim.x) {
        uint32_t sum = 0;
        for (uint32_t i = d; i < n; i++)
            for (uint32_t r = 0; r < team.size; r++) sum += *tb_team_at(team, &room->rank_count[i], r);
        rank[(uint32_t)room->rank_key[d]] = (int32_t)sum;
    }
    tb_team_barrier(team);
}

template <class Draws> TB_DEV void tb_write_draws(tb_room *room, int64_t index, Draws &draws)
{
    const tombola_call &call = room->call;
    const tb_outcome &outcome = room->outcome;
    bool writes = room->source.team.rank == 0;
    draws.prepare(room);
    for (uint32_t first = 0; first < (uint32_t)call.draws; first += TB_BATCH) {
        uint32_t n = (uint32_t)call.draws - first < TB_BATCH ? (uint32_t)call.draws - first : TB_BATCH;
        draws.draw(room, index, first, n);
        __syncthreads();
#pragma unroll 1
        for (uint32_t d = threadIdx.x; d < n && writes; d += blockDim.x) {
            int64_t at = index * call.draws + first + d;
            uint32_t token = room->drawn[d];
            if (call.tokens) call.tokens[at] = (int32_t)token;
            if (!call.logprobs && !call.raw_logprobs) continue;
            float x = tb_load(room->source.span, token);
            if (call.logprobs) call.logprobs[at] = tb_logprob(outcome.weigher, x, outcome.mass);
            if (call.raw_logprobs) call.raw_logprobs[at] = tb_logprob(outcome.raw, x, outcome.raw_mass);
        }
        if (call.ranks) tb_write_ranks(room, n, call.ranks + index * call.draws + first);
        __syncthreads();
    }
}

#endif
