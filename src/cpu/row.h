/*
 * One row from end to end: the template's entry point.
 */

static size_t take(size_t *at, size_t bytes)
{
    size_t from = *at;
    *at += (bytes + 63) / 64 * 64;
    return from;
}

/* Lays the workspace out; returns its size. s may be NULL. The widened row comes last: only 16-bit rows have
 * one. */
static size_t lay_out(const tombola_call *call, char *base, state *s, float **copy)
{
    size_t n = (size_t)call->vocab_size + LIST_PAD + SPAN, blocks = n / BLOCK + 2,
           list_blocks = n / LIST_BLOCK + 2;
    size_t at = 0, values = n * sizeof(float), ids = n * sizeof(int32_t);
    size_t group = take(&at, values / GROUP + LIST_PAD * sizeof(float));
    size_t merged = take(&at, values / GROUP + LIST_PAD * sizeof(float));
    size_t found_x = take(&at, values), found_id = take(&at, ids), kept_x = take(&at, values);
    size_t kept_id = take(&at, ids), scratch = take(&at, 3 * ((values + 63) / 64 * 64));
    size_t block = take(&at, (blocks > list_blocks ? blocks : list_blocks) * sizeof(uint64_t));
    size_t block_at = take(&at, blocks * sizeof(int64_t)), ties = take(&at, 2 * blocks * sizeof(int32_t));
    size_t tokens = take(&at, 2 * (size_t)call->draws * sizeof(int32_t));
    size_t rough = take(&at, blocks * sizeof(double));
    size_t widened = take(&at, call->dtype == TOMBOLA_F32 ? 0 : values);
    if (!s) return at;
    s->group = (float *)(base + group);
    s->merged = (float *)(base + merged);
    s->found = (list){(float *)(base + found_x), (int32_t *)(base + found_id), 0};
    s->kept = (list){(float *)(base + kept_x), (int32_t *)(base + kept_id), 0};
    for (int i = 0; i < 3; i++)
        s->scratch[i] = (float *)(base + scratch + (size_t)i * ((values + 63) / 64 * 64));
    s->block = (uint64_t *)(base + block);
    s->block_at = (int64_t *)(base + block_at);
    s->tie_count = (int32_t *)(base + ties);
    s->rough.block = (double *)(base + rough);
    s->tokens = (int32_t *)(base + tokens);
    s->rounds = s->tokens + call->draws;
    *copy = (float *)(base + widened);
    return at;
}

/* The masses that some outputs need beside the final one. */
static uint64_t whole_mass(const state *s, const weights *w)
{
    cut all = cut_at(bottom_value(s));
    return mass_blocks(s, &all, w, NULL);
}

static void write_draws(state *s, uint64_t raw_mass, const weights *raw)
{
    const tombola_call *call = s->call;
    for (int32_t d = 0; d < call->draws; d++) {
        int64_t at = s->row->index * call->draws + d;
        float x = s->x[s->tokens[d]];
        if (call->tokens) call->tokens[at] = s->tokens[d];
        if (call->rounds) call->rounds[at] = s->rounds[d];
        if (call->logprobs) call->logprobs[at] = source_logprob(s, &s->final, x, s->kept_mass);
        if (call->raw_logprobs) call->raw_logprobs[at] = source_logprob(s, raw, x, raw_mass);
        if (call->ranks) call->ranks[at] = rank_of(s, x);
    }
}

static void write_outputs(state *s, const filters *f)
{
    const tombola_call *call = s->call;
    int64_t r = s->row->index;
    bool top = call->top_count > 0 && (call->top_ids || call->top_logprobs);
    weights raw = make_weights(s, law_temperature(1.0f));
    uint64_t raw_mass = 0;
    if (call->raw_logprobs || call->given_raw_logprobs || (top && call->top_raw))
        raw_mass = whole_mass(s, &raw);
    if (call->kept_count || (top && !call->top_raw)) s->kept_count = kept_count(s);

    if (call->status) call->status[r] = s->status;
    if (call->kept_count) call->kept_count[r] = (int32_t)s->kept_count;
    if (call->kept_mass) call->kept_mass[r] = s->kept_mass;
    if (call->total_mass) {
        bool greedy = f->greedy_at_first;
        call->total_mass[r] = greedy ? LAW_ONE : whole_mass(s, &f->at_first);
    }
    if (call->entropy) call->entropy[r] = entropy_of(s);
    if (tb_call_draws(call)) write_draws(s, raw_mass, &raw);
    cut all = cut_at(bottom_value(s));
    if (call->given_logprobs) write_given(s, &s->cut, &s->final, s->kept_mass, call->given_logprobs);
    if (call->given_raw_logprobs) write_given(s, &all, &raw, raw_mass, call->given_raw_logprobs);
    if (call->kept_ids) write_kept_ids(s, call->kept_ids + r * call->kept_capacity, call->kept_capacity);
    if (top) write_top(s, s->kept_mass, raw_mass, &raw);
    if (call->probabilities) write_probabilities(s, call->probabilities + r * call->probabilities_stride);
    /* last: it may overwrite the source in place */
    if (call->masked_logits) write_masked(s, tb_row_masked(call, r, s->row->source_offset));
}

/* True when an output needs the exact mass of the final set, whatever is drawn. */
static bool needs_mass(const tombola_call *call)
{
    return call->kept_mass || call->logprobs || call->entropy || call->given_logprobs ||
           call->probabilities || (call->top_logprobs && !call->top_raw);
}

/* The scale at which the row's first pass takes float sums: where the chain will need the mass of the whole
 * row, unless exact sums are needed anyway. 0: no sums. */
static float sum_scale(const tombola_call *call, const tb_row *row)
{
    if (call->kind != TOMBOLA_LOGITS || call->method != TOMBOLA_EXACT || row->length < 4096) return 0;
    law_temper temper = law_temperature(1.0f);
    float scale = 0;
    bool filtered = false;
    for (int32_t i = 0; i < row->step_count; i++) {
        const tb_step *step = &row->steps[i];
        if (step->kind == TOMBOLA_TEMPERATURE) temper = law_temperature(step->value);
        if (temper.mode != LAW_SCALED || temper.scale < ROUGH_SCALE) return 0;
        bool has_k = step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P;
        bool has_p = step->kind == TOMBOLA_TOP_P || step->kind == TOMBOLA_TOP_K_TOP_P;
        if (step->kind == TOMBOLA_MIN_P && step->value > 0.0f) return 0;
        if (has_k && step->k > 0 && step->k < row->length) return 0;
        if (has_p && step->value < 1.0f && !filtered) {
            filtered = true;
            scale = temper.scale;
        }
    }
    if (!filtered && (needs_mass(call) || !tb_call_draws(call))) return 0;
    return filtered ? scale : temper.scale;
}

/* Draws from an unfiltered row by its float sums; false when exact sums must decide. */
static bool draw_roughly(state *s)
{
    if (!s->rough.ready || s->rough.scale != s->final.scale || s->final.kind != WEIGHT_LOGITS) return false;
    float bound = kth_bound(s, HEAD_DRAW);
    if (!few_reach(s, bound)) return false;
    collect(s, bound, &s->found);
    s->found_from = bound;
    tail t = measure_tail(s);
    for (int32_t d = 0; d < s->call->draws; d++) {
        s->tokens[d] = rough_draw(s, &t, tb_row_random(s->call, s->row, d), &s->final);
        if (s->tokens[d] < 0) return false;
        s->rounds[d] = 0;
    }
    return true;
}

size_t TB_CPU_NAME(workspace)(const tombola_call *call)
{
    return lay_out(call, NULL, NULL, NULL);
}

void TB_CPU_NAME(row)(const tombola_call *call, int64_t index, void *workspace)
{
    tb_row row;
    if (!tb_row_resolve(call, index, &row)) {
        tb_row_write_void(call, index, TOMBOLA_ROW_BAD_PARAM);
        return;
    }
    state s = {.call = call, .row = &row, .length = row.length};
    float *copy;
    lay_out(call, workspace, &s, &copy);
    if (!read_row(&s, copy, sum_scale(call, &row))) {
        tb_row_write_void(call, index, s.status);
        return;
    }
    bool draws = tb_call_draws(call), exact = draws && call->method == TOMBOLA_EXACT;
    if (draws && !exact) draw_by_rejection(&s);
    filters f = resolve(&s, row.step_count);
    bool drawn = exact && !needs_mass(call) && f.n == 0 && !f.greedy && draw_roughly(&s);
    if (needs_mass(call) || (exact && !drawn)) prepare_draws(&s);
    if (exact && !drawn)
        for (int32_t d = 0; d < call->draws; d++) {
            s.tokens[d] = draw_token(&s, law_draw_position(tb_row_random(call, &row, d), s.kept_mass));
            s.rounds[d] = 0;
        }
    write_outputs(&s, &f);
}
