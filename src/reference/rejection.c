/*
 * The article's algorithms (law, section 8): rejection sampling with one pivot and with two, on integer
 * masses. The state holds K as the filters before the last one leave it; the last filter decides by
 * rejection.
 */
#include "reference.h"

#include "../law/mass.h"
#include "../law/order.h"
#include "../law/philox.h"

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

static bool greater(const ref_state *state, uint32_t id, tb_place than)
{
    switch (than.kind) {
    case TB_BELOW_ALL: return true;
    case TB_AT_WEIGHT: return ref_weight(state, state->value[id]) > than.at;
    case TB_AT_KEY: return position(state, id) > than.at;
    case TB_AT_TOKEN: return position(state, id) > position(state, (uint32_t)than.at);
    }
    return false;
}

/* The weight at a place that is not BELOW_ALL. */
static uint64_t weight_at(const ref_state *state, tb_place where)
{
    if (where.kind == TB_AT_WEIGHT) return where.at;
    if (where.kind == TB_AT_TOKEN) return ref_weight(state, state->value[where.at]);
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
static tb_measured measure(const ref_state *state, const filter *f, tb_place where)
{
    tb_measured m = {0};
    for (int64_t i = 0; i < state->kept; i++) {
        uint32_t id = state->order[i];
        if (!greater(state, id, where)) continue;
        m.count++;
        m.mass += ref_weight(state, state->value[id]);
    }
    m.passes = m.count < f->k && m.mass < f->target && weight_at(state, where) >= f->least;
    return m;
}

/* Draws among the tokens of K above `low`, by prefix mass in index order. */
static tb_drawn draw_above(const ref_state *state, tb_place low, uint64_t random)
{
    tb_drawn d = {.random = random};
    for (int64_t i = 0; i < state->kept; i++) {
        if (!greater(state, state->order[i], low)) continue;
        d.count++;
        d.mass += ref_weight(state, state->value[state->order[i]]);
    }
    d.u = law_draw_position(random, d.mass);
    for (int64_t id = 0;; id++) { /* ends: u < mass */
        if (!state->in_kept[id] || !greater(state, (uint32_t)id, low)) continue;
        d.token = (int32_t)id;
        d.weight = ref_weight(state, state->value[id]);
        if (d.prefix + d.weight > d.u) break;
        d.prefix += d.weight;
    }
    d.position = position(state, (uint32_t)d.token);
    return d;
}

/* What DUAL_PIVOT does after a rejection: *low and *high move. */
static void narrow(const ref_state *state, const filter *f, tb_trial *t, tb_place *low, tb_place *high)
{
    if (high->kind == TB_AT_WEIGHT && high->at - t->drawn.weight < 2)
        *high = (tb_place){TB_AT_KEY, position(state, state->order[0])};
    uint64_t from = high->kind == TB_AT_WEIGHT ? t->drawn.weight : t->drawn.position;
    t->middle = (tb_place){high->kind, from + (high->at - from) / 2};
    t->at_middle = measure(state, f, t->middle);
    if (t->at_middle.passes) {
        t->verdict = TB_LOW_IS_TOKEN_HIGH_IS_MIDDLE;
        *low = (tb_place){TB_AT_TOKEN, (uint64_t)t->drawn.token};
        *high = t->middle;
    } else {
        t->verdict = TB_LOW_IS_MIDDLE;
        *low = t->middle;
    }
}

int32_t ref_draw_by_rejection(ref_state *state, int32_t draw, int32_t *rounds)
{
    const tb_row *row = state->row;
    bool dual = state->call->method == TOMBOLA_DUAL_PIVOT;
    filter f = resolve_filter(state);
    ref_mark_kept(state);
    if (draw == 0) ref_observe_row(state, f.k, f.target, f.least);

    tb_place low = {TB_BELOW_ALL, 0}, high = {TB_BELOW_ALL, 0};
    if (dual) high = (tb_place){TB_AT_WEIGHT, ref_weight(state, state->value[state->order[0]])};
    for (*rounds = 1;; ++*rounds) {
        uint64_t random = law_random(row->seed, row->offset, row->stream, LAW_PURPOSE_REJECTION,
                                     (uint32_t)draw, (uint32_t)(*rounds - 1));
        tb_trial t = {.draw = draw, .round = *rounds, .low = low, .high = high};
        t.drawn = draw_above(state, low, random);
        tb_place drawn = {TB_AT_TOKEN, (uint64_t)t.drawn.token};
        t.at_token = measure(state, &f, drawn);
        if (t.at_token.passes) {
            t.verdict = TB_ACCEPTED;
        } else if (dual) {
            narrow(state, &f, &t, &low, &high);
        } else {
            t.verdict = TB_LOW_IS_TOKEN;
            low = drawn;
        }
        ref_observe_trial(state, &t);
        if (t.verdict == TB_ACCEPTED) return t.drawn.token;
    }
}
