/*
 * The algorithms of the article "Sorting-Free GPU Kernels for LLM Sampling" on integer masses (law, section
 * 8; src/reference/rejection.c says the same in plain C): rejection sampling with one pivot and with two, a
 * whole row in one kernel by one block. Each trial is one pass over what is left of the row: it measures the
 * tokens above both pivots, by chunk, so that it also prepares the next trial's draw.
 *
 * A place in the order is held as the floor of the tokens that are greater than it.
 */
#include "outputs.cuh"

struct tb_draw_by_rejection {
    bool by_index, dual;
    bool fresh;                         /* chunk_mass holds the prefix sums of the whole set */
    tb_set set;                         /* what the filters before the last one keep */
    uint32_t k;                         /* the last filter: fewer greater tokens than this, */
    uint64_t target, least;             /* less mass in them than this, and at least this weight */
    uint64_t greatest, greatest_weight; /* position and weight of the greatest token */

    __device__ __noinline__ void prepare(const tombola_call &call, int64_t, tb_room *room, tb_source &source,
                                         tb_outcome &outcome)
    {
        by_index = call.ties == TOMBOLA_TIES_INDEX;
        dual = call.method == TOMBOLA_DUAL_PIVOT;
        fresh = false;
        int32_t last = call.step_count; /* the last filter, or the end */
        for (int32_t i = 0; i < call.step_count; i++)
            if (room->row.steps[i].kind != TOMBOLA_TEMPERATURE) last = i;
        tb_begin_chain(&source, outcome.raw.probabilities, &set);
        tb_run_chain(room, &source, by_index, last, &set, NULL);
        tb_weigh_set(room, source, &set);
        greatest = source.facts.greatest;
        greatest_weight = tb_weight(source.weigher, source.weigher.maximum);
        if (by_index)
            greatest = set.listed ? room->list[0]
                                  : tb_locate_tie(room, source, source.facts.greatest, TB_NO_CEILING, 0);
        if (set.listed) tb_order_by_index(room, set.count);

        k = TB_NO_COUNT;
        target = TB_NO_TARGET;
        least = 0;
        if (last == call.step_count) return;
        tb_gpu_step step = room->row.steps[last];
        if (step.kind == TOMBOLA_MIN_P) {
            if (step.value > 0.0f) least = law_min_p_weight(step.value, greatest_weight);
            return;
        }
        if (step.kind != TOMBOLA_TOP_P && step.k > 0) k = (uint32_t)step.k;
        if (step.kind != TOMBOLA_TOP_K && step.value < 1.0f) target = law_top_p_target(step.value, set.mass);
    }

    /* The token at `u` among those with place >= low, by prefix mass in index order. */
    __device__ __noinline__ uint32_t pick(tb_room *room, const tb_source &source, uint64_t low, uint64_t u)
    {
        if (set.listed) {
            uint32_t n = set.count, per = (n + blockDim.x - 1) / blockDim.x, first = threadIdx.x * per;
            uint32_t end = first + per < n ? first + per : n;
            uint64_t sum = 0, total;
            for (uint32_t i = first; i < end; i++) sum += listed_weight(room, source, low, i);
            uint64_t prefix = tb_block_scan64(&room->scratch, sum, &total);
            if (prefix <= u && u < prefix + sum)
                for (uint32_t i = first; i < end; i++) {
                    prefix += listed_weight(room, source, low, i);
                    if (prefix <= u) continue;
                    room->word[0] = room->other[i] >> 32;
                    break;
                }
        } else if (tb_warp() == 0) {
            tb_cut cut = tb_make_cut(low);
            uint32_t chunk = tb_first_above(room->chunk_mass, source.chunks, u);
            uint32_t token =
                tb_find_in_chunk(source, chunk, u - (chunk ? room->chunk_mass[chunk - 1] : 0),
                                 [&](float x, uint32_t i) -> uint64_t {
                                     return tb_in_cut(cut, x, i) ? tb_weight(source.weigher, x) : 0;
                                 });
            if (tb_lane() == 0) room->word[0] = token;
        }
        __syncthreads();
        uint32_t token = (uint32_t)room->word[0];
        __syncthreads();
        return token;
    }

    TB_MEMBER uint64_t listed_weight(const tb_room *room, const tb_source &source, uint64_t low, uint32_t i)
    {
        uint32_t key = (uint32_t)room->other[i];
        if (tb_place(key, (uint32_t)(room->other[i] >> 32)) < low) return 0;
        return tb_weight(source.weigher, law_key_value(key));
    }

    /* Mass and count of the tokens with place >= floor[0] and >= floor[1]; by chunk in room->list and other.
     */
    __device__ __noinline__ void measure(tb_room *room, const tb_source &source, const uint64_t (&floor)[2],
                                         uint64_t (&mass)[2], uint32_t (&count)[2])
    {
        uint64_t lower = floor[0] < floor[1] ? floor[0] : floor[1], sum[2] = {0, 0}, total[2] = {0, 0};
        uint32_t n[2] = {0, 0};
        if (set.listed) {
            for (uint32_t i = threadIdx.x; i < set.count; i += blockDim.x) {
                uint32_t key = (uint32_t)room->other[i];
                uint64_t place = tb_place(key, (uint32_t)(room->other[i] >> 32));
                if (place < lower) continue;
                uint64_t w = tb_weight(source.weigher, law_key_value(key));
                for (int a = 0; a < 2; a++)
                    if (place >= floor[a]) total[a] += w, n[a]++;
            }
        } else {
            float least_value = law_key_value(tb_place_key(lower));
            __syncthreads();
            tb_each_chunk<16>(
                room, source, tb_place_key(lower),
                [&](const float(&x)[16], uint32_t first) {
#pragma unroll
                    for (int j = 0; j < 16; j++) {
                        if (!(x[j] >= least_value)) continue;
                        uint64_t place = tb_place(law_key(x[j]), tb_piece_at(first, j));
                        uint64_t w = tb_weight(source.weigher, x[j]);
                        if (place >= floor[0]) sum[0] += w, n[0]++;
                        if (place >= floor[1]) sum[1] += w, n[1]++;
                    }
                },
                [&](uint32_t chunk) {
                    sum[0] = tb_warp_sum54(sum[0]);
                    sum[1] = tb_warp_sum54(sum[1]);
                    if (tb_lane() == 0) {
                        room->list[chunk] = sum[0];
                        room->other[chunk] = sum[1];
                        total[0] += sum[0];
                        total[1] += sum[1];
                    }
                    sum[0] = sum[1] = 0;
                });
        }
        for (int a = 0; a < 2; a++) {
            mass[a] = tb_block_sum64(&room->scratch, total[a]);
            count[a] = tb_block_sum(&room->scratch, n[a]);
        }
    }

    __device__ __noinline__ uint32_t one(const tombola_call &call, tb_room *room, const tb_source &source,
                                         uint32_t number, int32_t *rounds)
    {
        uint64_t low = set.floor, mass_low = set.mass; /* of the tokens that can still be drawn */
        uint64_t high = greatest_weight;               /* dual pivots: a place that passes, as a weight, */
        bool keys = false;                             /* then as a position */
        if (!set.listed && !fresh) {
            uint64_t mass;
            uint32_t count;
            tb_measure(room, source, low, room->chunk_mass, &mass, &count);
            tb_scan_chunks(room, source.chunks);
            fresh = true;
        }
        const tb_gpu_row &row = room->row;
        for (int32_t round = 1;; round++) {
            uint64_t random = law_random(row.seed, row.offset, row.stream, LAW_PURPOSE_REJECTION, number,
                                         (uint32_t)round - 1);
            uint32_t j = pick(room, source, low, law_draw_position(random, mass_low));
            float x = tb_load(source.span, j);
            uint32_t key = law_key(x);
            uint64_t w = tb_weight(source.weigher, x), position = by_index ? tb_place(key, j) : key;
            uint64_t floor[2], mass[2], middle = 0, middle_weight = 0;
            uint32_t count[2];
            floor[0] = floor[1] = by_index ? position + 1 : tb_floor_of_key(key + 1);
            if (dual) {
                if (!keys && high - w < 2) keys = true, high = greatest;
                uint64_t from = keys ? position : w;
                middle = from + (high - from) / 2;
                middle_weight = middle;
                if (keys) {
                    uint32_t middle_key = by_index ? tb_place_key(middle) : (uint32_t)middle;
                    middle_weight = tb_weight(source.weigher, law_key_value(middle_key));
                    floor[1] = by_index ? middle + 1 : tb_floor_of_key(middle_key + 1);
                } else {
                    floor[1] = tb_floor_of_key(
                        tb_key_of_weight(source.weigher, key, source.facts.greatest, middle + 1));
                }
            }
            measure(room, source, floor, mass, count);
            if (count[0] < k && mass[0] < target && w >= least) {
                *rounds = round;
                return j;
            }
            bool passes = count[1] < k && mass[1] < target && middle_weight >= least;
            int next = dual && !passes;
            if (dual && passes) high = middle;
            low = floor[next];
            mass_low = mass[next];
            if (set.listed) continue;
            fresh = false;
            for (uint32_t c = threadIdx.x; c < source.chunks; c += blockDim.x)
                room->chunk_mass[c] = next ? room->other[c] : room->list[c];
            tb_scan_chunks(room, source.chunks);
        }
    }

    TB_MEMBER void draw(const tombola_call &call, int64_t index, tb_room *room, const tb_source &source,
                        const tb_outcome &, uint32_t first, uint32_t n)
    {
        for (uint32_t d = 0; d < n; d++) {
            int32_t rounds;
            uint32_t token = one(call, room, source, first + d, &rounds);
            if (threadIdx.x) continue;
            room->drawn[d] = token;
            if (call.rounds) call.rounds[index * call.draws + first + d] = rounds;
        }
    }
};

extern "C" __global__ void __launch_bounds__(512, 2)
    tombola_rejection(const __grid_constant__ tb_cuda_params params)
{
    __shared__ tb_room room;
    tb_wait_for_dependencies();
    tb_run_row(params, blockIdx.x, &room, tb_draw_by_rejection());
}
