/* Row, order, chain and the exact draw (law, sections 1 to 5). */
#include "reference.h"

#include "../call/sort.h"
#include "../law/mass.h"
#include "../law/order.h"
#include "../law/philox.h"

size_t tb_reference_workspace(int64_t vocab_size)
{
    size_t element = sizeof(uint64_t) + sizeof(float) + sizeof(uint32_t) + sizeof(bool);
    return (size_t)vocab_size * element + 2 * sizeof(int32_t) * TOMBOLA_MAX_DRAWS;
}

float ref_exponent(const ref_state *state, float x)
{
    if (state->infinite || state->temper.mode != LAW_SCALED) return 0.0f;
    return law_exponent(x, state->maximum, state->temper.scale);
}

uint64_t ref_weight(const ref_state *state, float x)
{
    if (state->call->kind == TOMBOLA_PROBABILITIES)
        return state->infinite ? LAW_ONE : law_probability_weight(x, state->exponent);
    return law_weight(ref_exponent(state, x));
}

uint64_t ref_mass(const ref_state *state, int64_t n)
{
    uint64_t mass = 0;
    for (int64_t i = 0; i < n; i++) mass += ref_weight(state, state->value[state->order[i]]);
    return mass;
}

/* Reads the row: K0 sorted, its maximum, and the status bits that the values set. */
static uint32_t read_row(ref_state *state)
{
    bool probabilities = state->call->kind == TOMBOLA_PROBABILITIES;
    uint32_t status = 0;
    for (int64_t i = 0; i < state->row->length; i++) {
        float x = tb_row_value(state->row->data, state->call->dtype, i);
        state->value[i] = x;
        if (law_isnan(x))
            status |= TOMBOLA_ROW_NAN;
        else if (x == LAW_INF)
            status |= TOMBOLA_ROW_POS_INF;
        else if (probabilities && x < 0)
            status |= TOMBOLA_ROW_NEGATIVE;
    }
    state->infinite = status & TOMBOLA_ROW_POS_INF;
    state->all = 0;
    for (int64_t i = 0; i < state->row->length; i++) {
        float x = state->value[i];
        bool member = state->infinite ? x == LAW_INF : probabilities ? x > 0.0f : x > -LAW_INF;
        if (member) state->key[state->all++] = (uint64_t)~law_key(x) << 32 | (uint64_t)i;
    }
    if (state->all == 0) status |= TOMBOLA_ROW_EMPTY;
    return status;
}

static void sort_row(ref_state *state)
{
    tb_sort(state->key, state->all);
    for (int64_t i = 0; i < state->all; i++) state->order[i] = (uint32_t)state->key[i];
    state->kept = state->all;
    state->maximum = state->value[state->order[0]];
    state->exponent = state->infinite ? 0 : law_floor_log2(state->maximum > 0 ? state->maximum : 1.0f);
    state->temper = law_temperature(1.0f);
}

/* The longest prefix of K in which every token has fewer than k greater ones and less than `target` mass
 * in them. "Greater": ties are not greater under ALL, and in index order under INDEX. */
static int64_t keep_while(const ref_state *state, int64_t k, uint64_t target)
{
    bool by_index = state->call->ties == TOMBOLA_TIES_INDEX;
    int64_t greater = 0;
    uint64_t mass_greater = 0, mass = 0;
    for (int64_t i = 0; i < state->kept; i++) {
        float x = state->value[state->order[i]];
        if (i == 0 || by_index || x < state->value[state->order[i - 1]]) {
            greater = i;
            mass_greater = mass;
        }
        if (greater >= k || mass_greater >= target) return i;
        mass += ref_weight(state, x);
    }
    return state->kept;
}

static int64_t keep_min_p(const ref_state *state, float q)
{
    if (q <= 0.0f) return state->kept;
    uint64_t least = law_min_p_weight(q, ref_weight(state, state->maximum));
    int64_t n = 0;
    while (n < state->kept && ref_weight(state, state->value[state->order[n]]) >= least) n++;
    return n;
}

void ref_chain(ref_state *state, int32_t count)
{
    bool filtered = false;
    for (int32_t i = 0; i < count; i++) {
        const tb_step *step = &state->row->steps[i];
        if (step->kind == TOMBOLA_TEMPERATURE) {
            state->temper = law_temperature(step->value);
            if (state->temper.mode == LAW_GREEDY) state->kept = 1;
            continue;
        }
        if (!filtered) state->total_mass = ref_mass(state, state->kept);
        filtered = true;
        bool has_k = step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P;
        bool has_p = step->kind == TOMBOLA_TOP_P || step->kind == TOMBOLA_TOP_K_TOP_P;
        int64_t k = has_k && step->k > 0 ? step->k : INT64_MAX;
        uint64_t target = UINT64_MAX;
        if (has_p && step->value < 1.0f) target = law_top_p_target(step->value, ref_mass(state, state->kept));
        if (step->kind == TOMBOLA_MIN_P)
            state->kept = keep_min_p(state, step->value);
        else
            state->kept = keep_while(state, k, target);
    }
    if (!filtered) state->total_mass = ref_mass(state, state->kept);
}

/* First id, in index order, whose inclusive prefix mass over K exceeds u. */
int32_t ref_draw(ref_state *state, int32_t draw)
{
    uint64_t mass = ref_mass(state, state->kept);
    uint64_t random = tb_row_random(state->call, state->row, draw), u = law_draw_position(random, mass);
    uint64_t prefix = 0;
    if (draw == 0) ref_observe_row(state, INT64_MAX, UINT64_MAX, 0);
    for (int64_t i = 0; i < state->row->length; i++) {
        if (!state->in_kept[i]) continue;
        uint64_t weight = ref_weight(state, state->value[i]);
        prefix += weight;
        if (prefix <= u) continue;
        tb_trial trial = {.draw = draw,
                          .drawn = {.random = random,
                                    .mass = mass,
                                    .u = u,
                                    .count = state->kept,
                                    .prefix = prefix - weight,
                                    .token = (int32_t)i,
                                    .weight = weight}};
        ref_observe_trial(state, &trial);
        return (int32_t)i;
    }
    return -1; /* not reached: u < mass */
}

void ref_mark_kept(ref_state *state)
{
    for (int64_t i = 0; i < state->row->length; i++) state->in_kept[i] = false;
    for (int64_t i = 0; i < state->kept; i++) state->in_kept[state->order[i]] = true;
}

/* The chain's last step that is not a temperature, or step_count. */
static int32_t last_filter(const tb_row *row)
{
    for (int32_t i = row->step_count; i-- > 0;)
        if (row->steps[i].kind != TOMBOLA_TEMPERATURE) return i;
    return row->step_count;
}

/* Lays the state out in the workspace, after the room for tokens and rounds, and reads and sorts the row.
 * Returns its status; the state can be used unless that is EMPTY. */
static uint32_t begin_row(ref_state *state, void *workspace, int32_t **tokens, int32_t **rounds)
{
    size_t n = (size_t)state->call->vocab_size;
    state->key = workspace;
    state->value = (float *)(state->key + n);
    state->order = (uint32_t *)(state->value + n);
    *tokens = (int32_t *)(state->order + n);
    *rounds = *tokens + TOMBOLA_MAX_DRAWS;
    state->in_kept = (bool *)(*rounds + TOMBOLA_MAX_DRAWS);
    uint32_t status = read_row(state);
    if (!(status & TOMBOLA_ROW_EMPTY)) sort_row(state);
    return status;
}

/* Draws the row's tokens; the state ends as the chain leaves it. */
static void draw_row(ref_state *state, bool draws, int32_t *tokens, int32_t *rounds)
{
    const tombola_call *call = state->call;
    bool rejection = call->method != TOMBOLA_EXACT;
    if (rejection && draws) {
        ref_chain(state, last_filter(state->row));
        for (int32_t d = 0; d < call->draws; d++) tokens[d] = ref_draw_by_rejection(state, d, &rounds[d]);
        state->kept = state->all;
        state->temper = law_temperature(1.0f);
    }
    ref_chain(state, state->row->step_count);
    ref_mark_kept(state);
    if (!rejection && draws) {
        for (int32_t d = 0; d < call->draws; d++) {
            tokens[d] = ref_draw(state, d);
            rounds[d] = 0;
        }
    }
}

void tb_reference_row(const tombola_call *call, int64_t index, void *workspace)
{
    tb_row row;
    if (!tb_row_resolve(call, index, &row)) {
        tb_row_write_void(call, index, TOMBOLA_ROW_BAD_PARAM);
        return;
    }
    ref_state state = {.call = call, .row = &row};
    int32_t *tokens, *rounds;
    uint32_t status = begin_row(&state, workspace, &tokens, &rounds);
    if (status & TOMBOLA_ROW_EMPTY) {
        tb_row_write_void(call, index, status);
        return;
    }
    draw_row(&state, tb_call_draws(call), tokens, rounds);
    ref_write(&state, status, tokens, rounds);
}

/* ---- the trace ---- */

void ref_observe_row(const ref_state *state, int64_t k, uint64_t target, uint64_t least)
{
    if (!state->observer) return;
    tb_traced_row row = {.kept = state->kept,
                         .order = state->order,
                         .value = state->value,
                         .k = k,
                         .target = target,
                         .least = least,
                         .state = state};
    state->observer->row(state->observer->argument, &row);
}

void ref_observe_trial(const ref_state *state, const tb_trial *trial)
{
    if (state->observer) state->observer->trial(state->observer->argument, trial);
}

uint64_t tb_traced_weight(const tb_traced_row *row, uint32_t id)
{
    return ref_weight(row->state, row->value[id]);
}

void tb_reference_trace(const tombola_call *call, int64_t index, void *workspace, const tb_observer *observer)
{
    tb_row row;
    if (!tb_row_resolve(call, index, &row)) return;
    ref_state state = {.call = call, .row = &row, .observer = observer};
    int32_t *tokens, *rounds;
    if (begin_row(&state, workspace, &tokens, &rounds) & TOMBOLA_ROW_EMPTY) return;
    draw_row(&state, true, tokens, rounds);
}
