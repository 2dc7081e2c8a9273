/*
 * The algorithms of the article "Sorting-Free GPU Kernels for LLM Sampling" on integer masses (law, section
 * 8; src/reference/rejection.c says the same in plain C): rejection sampling with one pivot and with two, a
 * whole row in one kernel by one block. Each trial is one pass over what is left of the row: it measures the
 * tokens above both pivots, by chunk, so that it also prepares the next trial's draw.
 *
 * A place in the order is held as the floor of the tokens that are greater than it.
 */
#include "../kernels/outputs.cuh"

/* In shared memory, as the room is. */
typedef struct tb_rejection {
    tb_set set;                         /* what the filters before the last one keep */
    tb_weigher weigher;                 /* of the temperature there */
    uint32_t k;                         /* the last filter: fewer greater tokens than this, */
    uint64_t target, least;             /* less mass in them than this, and at least this weight */
    uint64_t greatest, greatest_weight; /* position and weight of the greatest token */
    uint64_t mass[2];                   /* what tb_measure_two found */
    uint32_t count[2];
} tb_rejection;

/* Runs the chain up to its last filter, and resolves that one. */
TB_CALL void tb_prepare_rejection(tb_room *room, tb_rejection *state)
{
    const int32_t steps = room->call.step_count;
    int32_t last = steps; /* the last filter, or the end */
#pragma unroll 1
    for (int32_t i = 0; i < steps; i++)
        if (room->row.steps[i].kind != TOMBOLA_TEMPERATURE) last = i;
    tb_begin_chain(room);
    tb_run_chain(room, last, false);
    tb_weigh_set(room);
    tb_rejection made;
    made.set = room->set;
    made.weigher = room->source.weigher;
    made.greatest = room->source.facts.greatest;
    made.greatest_weight = tb_weight(made.weigher, made.weigher.maximum);
    if (room->source.by_index)
        made.greatest = made.set.listed ? room->list[0]
                                        : tb_locate_tie(room, room->source.facts.greatest, TB_NO_CEILING, 0);
    if (made.set.listed) tb_order_by_index(room, made.set.count);
    made.k = TB_NO_COUNT;
    made.target = TB_NO_TARGET;
    made.least = 0;
    if (last < steps) {
        const tb_gpu_step step = room->row.steps[last];
        if (step.kind == TOMBOLA_MIN_P) {
            if (step.value > 0.0f) made.least = law_min_p_weight(step.value, made.greatest_weight);
        } else {
            if (step.kind != TOMBOLA_TOP_P && step.k > 0) made.k = (uint32_t)step.k;
            if (step.kind != TOMBOLA_TOP_K && step.value < 1.0f)
                made.target = law_top_p_target(step.value, made.set.mass);
        }
    }
    tb_share(state, made);
}

/* Weight of a listed token if its place reaches low, else 0. */
TB_DEV uint64_t tb_weight_from(const tb_room *room, const tb_weigher &weigher, uint64_t low, uint32_t i)
{
    uint32_t key = (uint32_t)room->other[i];
    if (tb_place(key, (uint32_t)(room->other[i] >> 32)) < low) return 0;
    return tb_weight(weigher, law_key_value(key));
}

/* The token at `u` among those of the set with place >= low, by prefix mass in index order. */
TB_CALL uint32_t tb_pick(tb_room *room, const tb_rejection *state, uint64_t low, uint64_t u)
{
    const tb_weigher weigher = state->weigher;
    if (state->set.listed) {
        uint32_t n = state->set.count, per = (n + blockDim.x - 1) / blockDim.x, first = threadIdx.x * per;
        uint32_t end = first + per < n ? first + per : n;
        uint64_t sum = 0, total;
#pragma unroll 1
        for (uint32_t i = first; i < end; i++) sum += tb_weight_from(room, weigher, low, i);
        uint64_t prefix = tb_block_scan64(&room->scratch, sum, &total);
        if (prefix <= u && u < prefix + sum)
#pragma unroll 1
            for (uint32_t i = first; i < end; i++) {
                prefix += tb_weight_from(room, weigher, low, i);
                if (prefix <= u) continue;
                room->word[0] = room->other[i] >> 32;
                break;
            }
    } else if (tb_warp() == 0) {
        const tb_cut cut = tb_make_cut(low);
        uint32_t chunk = tb_first_above(room->chunk_mass, room->source.chunks, u);
        uint32_t token = tb_find_in_chunk(room, chunk, u - (chunk ? room->chunk_mass[chunk - 1] : 0),
                                          [&](float x, uint32_t i) -> uint64_t {
                                              return tb_in_cut(cut, x, i) ? tb_weight(weigher, x) : 0;
                                          });
        if (tb_lane() == 0) room->word[0] = token;
    }
    __syncthreads();
    uint32_t token = (uint32_t)room->word[0];
    __syncthreads();
    return token;
}

/* Mass and count of the tokens of the set with place >= a and >= b; by chunk in room->list and room->other.
 */
TB_CALL void tb_measure_two(tb_room *room, tb_rejection *state, uint64_t a, uint64_t b)
{
    const tb_weigher weigher = state->weigher;
    const uint64_t lower = a < b ? a : b;
    uint64_t sum_a = 0, sum_b = 0, total_a = 0, total_b = 0;
    uint32_t n_a = 0, n_b = 0;
    if (state->set.listed) {
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < state->set.count; i += blockDim.x) {
            uint32_t key = (uint32_t)room->other[i];
            uint64_t place = tb_place(key, (uint32_t)(room->other[i] >> 32));
            if (place < lower) continue;
            uint64_t w = tb_weight(weigher, law_key_value(key));
            if (place >= a) total_a += w, n_a++;
            if (place >= b) total_b += w, n_b++;
        }
    } else {
        const float least = law_key_value(tb_place_key(lower));
        __syncthreads();
        tb_each_chunk<4>(
            room, tb_place_key(lower),
            [&](const float(&x)[4], uint32_t first) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (!(x[j] >= least)) continue;
                    uint64_t place = tb_place(law_key(x[j]), first + j), w = tb_weight(weigher, x[j]);
                    if (place >= a) sum_a += w, n_a++;
                    if (place >= b) sum_b += w, n_b++;
                }
            },
            [&](uint32_t chunk) {
                sum_a = tb_warp_sum54(sum_a);
                sum_b = tb_warp_sum54(sum_b);
                if (tb_lane() == 0) {
                    room->list[chunk] = sum_a;
                    room->other[chunk] = sum_b;
                    total_a += sum_a;
                    total_b += sum_b;
                }
                sum_a = sum_b = 0;
            });
    }
    tb_block_sums(&room->scratch, &total_a, &n_a);
    tb_block_sums(&room->scratch, &total_b, &n_b);
    if (threadIdx.x == 0) {
        state->mass[0] = total_a;
        state->mass[1] = total_b;
        state->count[0] = n_a;
        state->count[1] = n_b;
    }
    __syncthreads();
}

struct tb_draw_by_rejection {
    static constexpr bool ANY = true;
    tb_rejection *state;

    TB_MEMBER void prepare(tb_room *room)
    {
        tb_prepare_rejection(room, state);
    }

    TB_MEMBER void draw(tb_room *room, int64_t index, uint32_t first, uint32_t n)
    {
        const tombola_call &call = room->call;
        for (uint32_t d = 0; d < n; d++) {
            int32_t rounds;
            uint32_t token = one(room, first + d, &rounds);
            if (threadIdx.x) continue;
            room->drawn[d] = token;
            if (call.rounds) call.rounds[index * call.draws + first + d] = rounds;
        }
    }

    TB_MEMBER uint32_t one(tb_room *room, uint32_t number, int32_t *rounds)
    {
        const tb_gpu_row &row = room->row;
        const bool by_index = room->source.by_index, dual = room->call.method == TOMBOLA_DUAL_PIVOT;
        const bool listed = state->set.listed;
        const uint32_t chunks = room->source.chunks;
        uint64_t low = state->set.floor, mass = state->set.mass; /* the tokens that can still be drawn */
        uint64_t high = state->greatest_weight; /* dual pivots: a place that passes, as a weight, */
        bool keys = false;                      /* then as a position */
        if (!listed) {
            tb_measure(room, low, true);
            tb_scan_chunks(room, chunks);
        }
        for (int32_t round = 1;; round++) {
            uint64_t random = law_random(row.seed, row.offset, row.stream, LAW_PURPOSE_REJECTION, number,
                                         (uint32_t)round - 1);
            uint32_t j = tb_pick(room, state, low, law_draw_position(random, mass));
            uint32_t key = law_key(tb_load(room->source.span, j));
            uint64_t w = tb_weight(state->weigher, law_key_value(key)),
                     position = by_index ? tb_place(key, j) : key;
            uint64_t above_j = by_index ? position + 1 : tb_floor_of_key(key + 1), above_middle = above_j;
            uint64_t middle = 0, middle_weight = 0;
            if (dual) {
                if (!keys && high - w < 2) keys = true, high = state->greatest;
                uint64_t from = keys ? position : w;
                middle = from + (high - from) / 2;
                if (keys) {
                    uint32_t middle_key = by_index ? tb_place_key(middle) : (uint32_t)middle;
                    middle_weight = tb_weight(state->weigher, law_key_value(middle_key));
                    above_middle = by_index ? middle + 1 : tb_floor_of_key(middle_key + 1);
                } else {
                    middle_weight = middle;
                    above_middle =
                        tb_floor_of_key(tb_key_of_weight(room, key, room->source.facts.greatest, middle + 1));
                }
            }
            tb_measure_two(room, state, above_j, above_middle);
            if (state->count[0] < state->k && state->mass[0] < state->target && w >= state->least) {
                *rounds = round;
                return j;
            }
            bool passes =
                state->count[1] < state->k && state->mass[1] < state->target && middle_weight >= state->least;
            bool to_middle = dual && !passes; /* low: j, or the middle */
            if (dual && passes) high = middle;
            low = to_middle ? above_middle : above_j;
            mass = state->mass[to_middle];
            if (!listed) {
#pragma unroll 1
                for (uint32_t c = threadIdx.x; c < chunks; c += blockDim.x)
                    room->chunk_mass[c] = to_middle ? room->other[c] : room->list[c];
                tb_scan_chunks(room, chunks);
            } else {
                __syncthreads(); /* state is read before it is written again */
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(512, 2)
    tombola_rejection(const __grid_constant__ tb_cuda_params params)
{
    __shared__ tb_room room;
    __shared__ tb_rejection state;
    tb_wait_for_dependencies();
    tb_draw_by_rejection draws = {&state};
    tb_run_row(params, blockIdx.x, &room, draws);
}
