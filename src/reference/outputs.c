/* The outputs beside the token (law, sections 6 and 7). */
#include "reference.h"

#include "../law/logprob.h"

static float logprob(const ref_state *state, float x, uint64_t mass)
{
    if (state->call->kind == TOMBOLA_PROBABILITIES)
        return law_probability_logprob(ref_weight(state, x), mass);
    return law_logprob(ref_exponent(state, x), mass);
}

static float probability(const ref_state *state, float x, uint64_t mass)
{
    if (state->call->kind == TOMBOLA_PROBABILITIES)
        return (float)ref_weight(state, x) * law_probability_renorm_scale(mass);
    return law_relative(ref_exponent(state, x)) * law_renorm_scale(mass);
}

static float entropy(const ref_state *state, uint64_t mass)
{
    if (state->call->kind == TOMBOLA_PROBABILITIES) return law_float(LAW_NAN_BITS);
    law_entropy_sum sum = {0, 0};
    for (int64_t i = 0; i < state->kept; i++) {
        float x = state->value[state->order[i]];
        uint64_t weight = ref_weight(state, x);
        if (weight) law_entropy_add(&sum, weight, law_entropy_factor(ref_exponent(state, x)));
    }
    return law_entropy(sum, mass);
}

/* Tokens of K0 whose value is at least x. */
static int32_t rank(const ref_state *state, float x)
{
    int32_t n = 0;
    for (int64_t i = 0; i < state->all && state->value[state->order[i]] >= x; i++) n++;
    return n;
}

static void write_per_draw(ref_state *state, uint64_t mass, const ref_state *raw, uint64_t raw_mass,
                           const int32_t *tokens, const int32_t *rounds)
{
    const tombola_call *call = state->call;
    for (int32_t d = 0; d < call->draws; d++) {
        int64_t at = state->row->index * call->draws + d;
        float x = tb_call_draws(call) ? state->value[tokens[d]] : 0.0f;
        if (call->tokens) call->tokens[at] = tokens[d];
        if (call->rounds) call->rounds[at] = rounds[d];
        if (call->logprobs) call->logprobs[at] = logprob(state, x, mass);
        if (call->raw_logprobs) call->raw_logprobs[at] = logprob(raw, x, raw_mass);
        if (call->ranks) call->ranks[at] = rank(state, x);
    }
}

static void write_kept(const ref_state *state, uint64_t mass)
{
    const tombola_call *call = state->call;
    int64_t index = state->row->index, length = state->row->length;
    if (call->kept_ids) {
        int32_t *ids = call->kept_ids + index * call->kept_capacity;
        int64_t n = 0;
        for (int64_t i = 0; i < length && n < call->kept_capacity; i++)
            if (state->in_kept[i]) ids[n++] = (int32_t)i;
        while (n < call->kept_capacity) ids[n++] = -1;
    }
    if (call->probabilities) {
        float *out = call->probabilities + index * call->probabilities_stride;
        for (int64_t i = 0; i < length; i++)
            out[i] = state->in_kept[i] ? probability(state, state->value[i], mass) : 0.0f;
    }
    if (call->masked_logits) {
        void *out = tb_row_masked(call, index, state->row->source_offset);
        for (int64_t i = 0; i < length; i++)
            tb_mask_value(out, state->row->data, call->dtype, i, state->in_kept[i]);
    }
}

/* The greatest tokens: a prefix of the order. */
static void write_top(const ref_state *state, uint64_t mass)
{
    const tombola_call *call = state->call;
    for (int64_t i = 0; i < call->top_count; i++) {
        int64_t at = state->row->index * call->top_count + i;
        bool present = i < state->kept;
        if (call->top_ids) call->top_ids[at] = present ? (int32_t)state->order[i] : -1;
        if (call->top_logprobs)
            call->top_logprobs[at] = present ? logprob(state, state->value[state->order[i]], mass) : -LAW_INF;
    }
}

static void write_given(const ref_state *state, uint64_t mass, float *out)
{
    const tombola_call *call = state->call;
    for (int64_t i = 0; out && i < call->given_count; i++) {
        int64_t at = state->row->index * call->given_count + i;
        int32_t id = call->given_ids[at];
        if (id < 0 || id >= state->row->length) {
            out[at] = law_float(LAW_NAN_BITS);
            continue;
        }
        bool inside = false;
        for (int64_t j = 0; j < state->kept && !inside; j++) inside = state->order[j] == (uint32_t)id;
        out[at] = inside ? logprob(state, state->value[id], mass) : -LAW_INF;
    }
}

void ref_write(ref_state *state, uint32_t status, const int32_t *tokens, const int32_t *rounds)
{
    const tombola_call *call = state->call;
    int64_t index = state->row->index;
    uint64_t mass = ref_mass(state, state->kept);
    ref_state raw = *state; /* temperature 1, all of K0 */
    raw.temper = law_temperature(1.0f);
    raw.kept = state->all;
    uint64_t raw_mass = ref_mass(&raw, raw.kept);

    if (call->status) call->status[index] = status;
    if (call->kept_count) call->kept_count[index] = (int32_t)state->kept;
    if (call->kept_mass) call->kept_mass[index] = mass;
    if (call->total_mass) call->total_mass[index] = state->total_mass;
    if (call->entropy) call->entropy[index] = entropy(state, mass);
    write_per_draw(state, mass, &raw, raw_mass, tokens, rounds);
    write_given(state, mass, call->given_logprobs);
    write_given(&raw, raw_mass, call->given_raw_logprobs);
    write_top(call->top_raw ? &raw : state, call->top_raw ? raw_mass : mass);
    write_kept(state, mass); /* last: it may overwrite the source in place */
}
