/*
 * The article's algorithms (docs/law.md, section 8): rejection sampling with one pivot, and with two, on
 * exact masses of the row. Every place that the algorithms name is a cut: the tokens greater than it.
 */

/* The last filter, resolved on the set that the filters before it leave. */
typedef struct trial_filter {
    cut set;
    int64_t k;
    uint64_t target, least;
    const weights *w;
} trial_filter;

static bool trial_passes(const state *s, const trial_filter *f, cut greater, uint64_t weight)
{
    cut both = cut_tighter(greater, f->set);
    if (weight < f->least) return false;
    if (f->k < INT64_MAX && count_cut(s, &both) >= f->k) return false;
    return f->target == UINT64_MAX || mass_blocks(s, &both, f->w, NULL) < f->target;
}

/* The tokens greater than a token, than a weight, and than a position P. */
static cut above_token(const state *s, int32_t id)
{
    cut c = cut_at(s->x[id]);
    if (s->call->ties == TOMBOLA_TIES_INDEX)
        c.split = id;
    else
        c = cut_at(c.above);
    return c;
}

static cut above_weight(const state *s, const weights *w, uint64_t weight)
{
    /* nothing weighs more than the greatest */
    if (weight_of(w, s->maximum) <= weight) return cut_at(next_up(s->maximum));
    return cut_at(value_at_weight(w, s->maximum, weight + 1));
}

static cut above_position(const state *s, uint64_t position)
{
    if (s->call->ties == TOMBOLA_TIES_ALL) return cut_at(next_up(law_key_value((uint32_t)position)));
    uint64_t last = ((uint64_t)1 << LAW_INDEX_BITS) - 1;
    cut c = cut_at(law_key_value((uint32_t)(position >> LAW_INDEX_BITS)));
    c.split = (int64_t)(last - (position & last)); /* indices below it are greater */
    return c;
}

static uint64_t position_of(const state *s, int32_t id)
{
    return s->call->ties == TOMBOLA_TIES_INDEX ? law_index_key(s->x[id], (uint32_t)id) : law_key(s->x[id]);
}

static uint64_t weight_at_position(const state *s, const weights *w, uint64_t position)
{
    uint64_t key = s->call->ties == TOMBOLA_TIES_INDEX ? position >> LAW_INDEX_BITS : position;
    return weight_of(w, law_key_value((uint32_t)key));
}

/* One token; *rounds counts the trials. */
static int32_t draw_trials(state *s, const trial_filter *f, int32_t draw, int32_t greatest, int32_t *rounds)
{
    const tb_row *row = s->row;
    bool dual = s->call->method == TOMBOLA_DUAL_PIVOT, by_weight = true;
    uint64_t high = weight_of(f->w, s->maximum);
    cut low = f->set;
    s->final = *f->w;
    s->in_list = false;
    for (*rounds = 1;; ++*rounds) {
        s->cut = cut_tighter(low, f->set);
        s->blocks_ready = false;
        prepare_draws(s);
        uint64_t random = law_random(row->seed, row->offset, row->stream, LAW_PURPOSE_REJECTION,
                                     (uint32_t)draw, (uint32_t)(*rounds - 1));
        int32_t j = draw_token(s, law_draw_position(random, s->kept_mass));
        uint64_t weight = weight_of(f->w, s->x[j]);
        cut drawn = above_token(s, j);
        if (trial_passes(s, f, drawn, weight)) return j;
        if (!dual) {
            low = drawn;
            continue;
        }
        if (by_weight && high - weight < 2) {
            by_weight = false;
            high = position_of(s, greatest);
        }
        uint64_t from = by_weight ? weight : position_of(s, j), middle = from + (high - from) / 2;
        cut greater = by_weight ? above_weight(s, f->w, middle) : above_position(s, middle);
        uint64_t at = by_weight ? middle : weight_at_position(s, f->w, middle);
        if (trial_passes(s, f, greater, at)) {
            low = drawn;
            high = middle;
        } else {
            low = greater;
        }
    }
}

/* Draws every token of the row into s->tokens and s->rounds. */
static void draw_by_rejection(state *s)
{
    int32_t last = s->row->step_count;
    for (int32_t i = s->row->step_count; i-- > 0;)
        if (s->row->steps[i].kind != TOMBOLA_TEMPERATURE) {
            last = i;
            break;
        }
    filters before = resolve(s, last);
    weights w = before.at_end;
    trial_filter f = {.set = s->cut, .k = INT64_MAX, .target = UINT64_MAX, .w = &w};
    if (last < s->row->step_count) {
        const tb_step *step = &s->row->steps[last];
        bool has_k = step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P;
        bool has_p = step->kind == TOMBOLA_TOP_P || step->kind == TOMBOLA_TOP_K_TOP_P;
        if (has_k && step->k > 0) f.k = step->k;
        if (has_p && step->value < 1.0f)
            f.target = law_top_p_target(step->value, mass_blocks(s, &f.set, &w, NULL));
        if (step->kind == TOMBOLA_MIN_P && step->value > 0.0f)
            f.least = law_min_p_weight(step->value, weight_of(&w, s->maximum));
    }
    keep_greedy(s);
    int32_t greatest = s->kept.id[0];
    for (int32_t d = 0; d < s->call->draws; d++)
        s->tokens[d] = draw_trials(s, &f, d, greatest, &s->rounds[d]);
}
