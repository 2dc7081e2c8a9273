/*
 * The chain's filters with their parameters resolved for a row.
 */

typedef struct filter {
    int64_t k;  /* INT64_MAX: no top_k */
    bool has_p; /* top_p */
    float p;
    bool has_floor; /* min_p, as the least value that stays */
    float floor;
    weights w; /* at this step */
} filter;

typedef struct filters {
    filter step[TOMBOLA_MAX_STEPS];
    int n;
    bool greedy;          /* a step left only the greatest token */
    weights at_first;     /* weights before the first filter, off ones included */
    bool greedy_at_first; /* a greedy step came before it */
    weights at_end;
} filters;

/* The steps [0, count) without those that are off. */
static filters make_filters(const state *s, int32_t count)
{
    filters f = {.n = 0};
    weights w = make_weights(s, law_temperature(1.0f));
    bool met = false;
    for (int32_t i = 0; i < count; i++) {
        const tb_step *step = &s->row->steps[i];
        if (step->kind == TOMBOLA_TEMPERATURE) {
            law_temper temper = law_temperature(step->value);
            if (temper.mode == LAW_GREEDY) f.greedy = true;
            w = make_weights(s, temper);
            continue;
        }
        if (!met) {
            f.at_first = w;
            f.greedy_at_first = f.greedy;
            met = true;
        }
        filter *out = &f.step[f.n];
        *out = (filter){.k = INT64_MAX, .w = w};
        if ((step->kind == TOMBOLA_TOP_K || step->kind == TOMBOLA_TOP_K_TOP_P) && step->k > 0 &&
            step->k < s->length)
            out->k = step->k;
        if ((step->kind == TOMBOLA_TOP_P || step->kind == TOMBOLA_TOP_K_TOP_P) && step->value < 1.0f) {
            out->has_p = true;
            out->p = step->value;
        }
        if (step->kind == TOMBOLA_MIN_P && step->value > 0.0f && w.kind != WEIGHT_FLAT) {
            out->has_floor = true;
            out->floor =
                value_at_weight(&w, s->maximum, law_min_p_weight(step->value, weight_of(&w, s->maximum)));
        }
        if (out->k < INT64_MAX || out->has_p || out->has_floor) f.n++;
    }
    if (!met) {
        f.at_first = w;
        f.greedy_at_first = f.greedy;
    }
    f.at_end = w;
    return f;
}

/* How many tokens equal to a pick's value stay. */
static int64_t ties_kept(const state *s, const pick *p, int64_t k, uint64_t target, const weights *w)
{
    if (s->call->ties == TOMBOLA_TIES_ALL) return p->equal;
    int64_t ties = p->equal < k - p->above ? p->equal : k - p->above;
    uint64_t weight = weight_of(w, p->value), left = target - p->mass_above;
    if (weight > 0 && target != UINT64_MAX) {
        uint64_t fit = left / weight + (left % weight != 0); /* tie j stays while j * weight < left */
        if (fit < (uint64_t)ties) ties = (int64_t)fit;
    }
    return ties;
}
