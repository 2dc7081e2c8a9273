/*
 * The article's algorithms (law, section 8): rejection sampling with one pivot and with two, on integer
 * masses. The state holds K as the filters before the last one leave it; the last filter decides by
 * rejection.
 */
#include "reference.h"

#include "../law/mass.h"
#include "../law/order.h"
#include "../law/philox.h"

/* A place in the order, from which "greater" is asked. */
typedef enum place_kind {
    BELOW_ALL,
    AT_WEIGHT, /* tokens whose weight is more than `at` are greater */
    AT_KEY,    /* tokens whose position P is more than `at` are greater */
    AT_TOKEN   /* tokens that precede token `at` in the order of section 2 are greater */
} place_kind;

typedef struct place {
    place_kind kind;
    uint64_t at;
} place;

/* The last filter, resolved on K. */
typedef struct filter {
    int64_t k;
    uint64_t target; /* top_p: mass of the greater ones must be less */
    uint64_t least;  /* min_p: least weight that stays */
} filter;

static uint64_t position(const ref_state *state, uint32_t id)
{
    float x = state->value[id];
    return state->call->ties == TOMBOLA_TIES_INDEX ? law_index_key(x, id) : law_key(x);
}

static bool greater(const ref_state *state, uint32_t id, place than)
{
    switch (than.kind) {
    case BELOW_ALL: return true;
    case AT_WEIGHT: return ref_weight(state, state->value[id]) > than.at;
    case AT_KEY: return position(state, id) > than.at;
    case AT_TOKEN: return position(state, id) > position(state, (uint32_t)than.at);
    }
    return false;
}

/* The weight at a place that is not BELOW_ALL. */
static uint64_t weight_at(const ref_state *state, place where)
{
    if (where.kind == AT_WEIGHT) return where.at;
    if (where.kind == AT_TOKEN) return ref_weight(state, state->value[where.at]);
    uint64_t key = state->call->ties == TOMBOLA_TIES_INDEX ? where.at >> LAW_INDEX_BITS : where.at;
    return ref_weight(state, law_key_value((uint32_t)key));
}

static filter resolve_filter(const ref_state *state)
{
    filter f = {INT64_MAX, UINT64_MAX, 0};
    const tb_step *step = NULL;
    for (int32_t i = 0; i < state->row->step_count; i++)
        if (state->row->steps[i].kind != TOMBOLA_TEMPERATURE) step = &state->row->steps[i];
    if (!step) return f;
    bool has_k = step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P;
    bool has_p = step->kind == TOMBOLA_TOP_P || step->kind == TOMBOLA_TOP_K_TOP_P;
    if (has_k && step->k > 0) f.k = step->k;
    if (has_p && step->value < 1.0f) f.target = law_top_p_target(step->value, ref_mass(state, state->kept));
    if (step->kind == TOMBOLA_MIN_P && step->value > 0.0f)
        f.least = law_min_p_weight(step->value, ref_weight(state, state->maximum));
    return f;
}

/* The filter's predicate at a place. */
static bool passes(const ref_state *state, const filter *f, place where)
{
    int64_t count = 0;
    uint64_t mass = 0;
    for (int64_t i = 0; i < state->kept; i++) {
        uint32_t id = state->order[i];
        if (!greater(state, id, where)) continue;
        count++;
        mass += ref_weight(state, state->value[id]);
    }
    return count < f->k && mass < f->target && weight_at(state, where) >= f->least;
}

/* Draws among the tokens of K above `low`, by prefix mass in index order. */
static uint32_t draw_above(const ref_state *state, place low, uint64_t random)
{
    uint64_t mass = 0, prefix = 0;
    for (int64_t i = 0; i < state->kept; i++)
        if (greater(state, state->order[i], low)) mass += ref_weight(state, state->value[state->order[i]]);
    uint64_t u = law_draw_position(random, mass);
    for (int64_t id = 0; id < state->row->length; id++) {
        if (!state->in_kept[id] || !greater(state, (uint32_t)id, low)) continue;
        prefix += ref_weight(state, state->value[id]);
        if (prefix > u) return (uint32_t)id;
    }
    return state->order[0]; /* not reached: u < mass */
}

int32_t ref_draw_by_rejection(ref_state *state, int32_t draw, int32_t *rounds)
{
    const tb_row *row = state->row;
    filter f = resolve_filter(state);
    for (int64_t i = 0; i < row->length; i++) state->in_kept[i] = false;
    for (int64_t i = 0; i < state->kept; i++) state->in_kept[state->order[i]] = true;

    uint32_t greatest = state->order[0];
    place low = {BELOW_ALL, 0};
    place high = {AT_WEIGHT, ref_weight(state, state->value[greatest])};
    for (*rounds = 1;; ++*rounds) {
        uint64_t random = law_random(row->seed, row->offset, row->stream, LAW_PURPOSE_REJECTION,
                                     (uint32_t)draw, (uint32_t)(*rounds - 1));
        uint32_t j = draw_above(state, low, random);
        place drawn = {AT_TOKEN, j};
        if (passes(state, &f, drawn)) return (int32_t)j;
        if (state->call->method == TOMBOLA_REJECTION) {
            low = drawn;
            continue;
        }
        uint64_t weight = ref_weight(state, state->value[j]);
        if (high.kind == AT_WEIGHT && high.at - weight < 2) {
            high.kind = AT_KEY;
            high.at = position(state, greatest);
        }
        uint64_t from = high.kind == AT_WEIGHT ? weight : position(state, j);
        place middle = {high.kind, from + (high.at - from) / 2};
        if (passes(state, &f, middle)) {
            low = drawn;
            high = middle;
        } else {
            low = middle;
        }
    }
}
