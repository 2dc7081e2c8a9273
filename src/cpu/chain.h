/*
 * The chain (docs/law.md, section 4): from the steps to the final cut.
 *
 * Most chains end in few tokens. top_k and min_p give a bound that is sure to lie at or below the final cut,
 * so the tokens above it are listed and the whole chain runs on the list, in exact integers. What the list
 * cannot tell is the mass of the whole row, which a top_p that comes first needs: it is known within an
 * interval, and the result stands when it is the same at both ends. The interval comes from the group
 * maxima, else from a sum of floats, else from the exact sum. Where the list does not hold the cut (flat
 * rows), full.h selects from the row itself.
 */

/* A kept set while the chain runs on a list: all greater than value, and the first `ties` of the `equal`
 * tokens that equal it. */
typedef struct place {
    float value;
    int64_t ties, equal;
    bool inside; /* the list holds the set */
    bool known;  /* value is the set's; false for a cut somewhere below the list */
} place;

static place tighten(place now, place next)
{
    if (!now.inside || next.value > now.value) return next;
    if (next.value == now.value && next.ties < now.ties) now.ties = next.ties;
    return now;
}

/* What a run of the chain on the list found. */
typedef struct list_run {
    bool complete; /* the cut lies in the list */
    bool used_total;
    place at;
} list_run;

/* Runs the chain on the list. `sure`: the list's bound is known to lie at or below the final cut. `total` is
 * the mass of the set before the first top_p that the list cannot tell, when it is known. */
static list_run run_on_list(const state *s, const filters *f, bool sure, uint64_t total)
{
    const list *l = &s->found;
    bool all = s->found_from == bottom_value(s); /* nothing lies below the list */
    list_run run = {.at = {.value = bottom_value(s), .known = true}};
    place *at = &run.at;
    for (int i = 0; i < f->n; i++) {
        const filter *step = &f->step[i];
        if (step->has_floor) {
            if (step->floor >= s->found_from) {
                int64_t equal = count_equal(l, step->floor);
                *at = tighten(*at, (place){step->floor, equal, equal, true, true});
            } else if (!at->inside && at->known && step->floor > at->value) {
                at->value = step->floor;
            }
            continue;
        }
        uint64_t target = UINT64_MAX;
        if (step->has_p) {
            uint64_t mass;
            if (at->inside) {
                mass = list_mass(l->x, l->n, at->value, &step->w);
                if (at->ties < at->equal)
                    mass -= (uint64_t)(at->equal - at->ties) * weight_of(&step->w, at->value);
            } else if (at->known && !run.used_total) {
                mass = total;
                run.used_total = true;
            } else {
                return run;
            }
            target = law_top_p_target(step->p, mass);
        }
        pick p;
        bool ends_inside = all; /* a token just below the list would not stay */
        if (target == UINT64_MAX) {
            p = select_count(s->scratch, l->x, l->n, step->k, 0);
            ends_inside |= l->n >= step->k;
        } else {
            p = select_mass(s->scratch, l->x, l->n, &step->w, step->k, target);
            ends_inside |= l->n >= step->k || p.above + p.equal < l->n ||
                           p.mass_above + (uint64_t)p.equal * weight_of(&step->w, p.value) >= target;
        }
        if (ends_inside || at->inside) {
            int64_t ties = ties_kept(s, &p, step->k, target, &step->w);
            *at = tighten(*at, (place){p.value, ties, p.equal, true, true});
        } else if (!sure) {
            return run;
        } else {
            at->known = false;
        }
    }
    run.complete = at->inside;
    return run;
}

/* Everything about the total mass that the list path may need, the cheapest first. */
static interval total_interval(state *s, int rung, float floor, const weights *w)
{
    if (s->found_from <= floor) {
        uint64_t mass = list_mass(s->found.x, s->found.n, floor, w);
        return (interval){mass, mass};
    }
    if (rung == 0) return group_interval(s, floor, w);
    if (rung == 1 && w->kind == WEIGHT_LOGITS && w->scale >= ROUGH_SCALE && floor == bottom_value(s) &&
        !(s->status & TOMBOLA_ROW_NAN)) {
        if (!s->rough.ready || s->rough.scale != w->scale) rough_pass(s, w->scale);
        return rough_interval(s, w);
    }
    if (rung == 1) return float_interval(s, floor, w);
    cut c = cut_at(floor);
    uint64_t mass = mass_blocks(s, &c, w, NULL);
    return (interval){mass, mass};
}

/* The set before the first top_p that needs the total: its least value and weights. */
static bool total_needed(const filters *f, const state *s, float *floor, const weights **w)
{
    *floor = bottom_value(s);
    for (int i = 0; i < f->n; i++) {
        if (f->step[i].has_floor && f->step[i].floor > *floor) *floor = f->step[i].floor;
        if (f->step[i].has_p) {
            *w = &f->step[i].w;
            return true;
        }
        if (f->step[i].k < INT64_MAX) return false;
    }
    return false;
}

static bool same_place(const place *a, const place *b)
{
    return a->value == b->value && a->ties == b->ties;
}

/* Runs the chain on s->found; true when that settles it. */
static bool settle_on_list(state *s, const filters *f, bool sure)
{
    float floor;
    const weights *w = NULL;
    list_run run;
    if (!total_needed(f, s, &floor, &w)) {
        run = run_on_list(s, f, sure, 0);
        if (!run.complete) return false;
    } else {
        bool settled = false;
        bool summed = s->rough.ready && s->rough.scale == w->scale;
        for (int rung = summed ? 1 : 0; rung < 3 && !settled; rung++) {
            interval z = total_interval(s, rung, floor, w);
            run = run_on_list(s, f, sure, z.high);
            list_run other = z.low == z.high ? run : run_on_list(s, f, sure, z.low);
            if (!other.complete) return false; /* even the smallest mass leads out of the list */
            settled = run.complete && same_place(&run.at, &other.at);
        }
        if (!settled) return false;
    }
    keep_values(s, run.at.value, run.at.ties);
    return true;
}

/* The greatest token with the lowest index. */
static void keep_greedy(state *s)
{
    s->cut = cut_after_ties(s, s->maximum, 1);
    int64_t last = s->cut.split < s->length ? s->cut.split : s->length;
    int64_t first = 0;
    vf greatest = vf_set(s->maximum);
    for (int64_t span = 0; span < s->spans; span++)
        if (span_reaches(s, span, greatest)) {
            first = span * SPAN;
            break;
        }
    while (first < last && s->x[first] != s->maximum) first++;
    s->kept.id[0] = (int32_t)first;
    s->kept.x[0] = s->x[first];
    pad_values(s->kept.x, 1);
    s->kept.n = 1;
    s->in_list = true;
}

/* The list's bound: at or below the final cut (sure), and low enough that every top_p behind a top_k finds
 * its whole set in the list. Without top_k and min_p: a guess, that the cut is among the greatest tokens. */
static float list_bound(state *s, const filters *f, bool *sure)
{
    float bound = bottom_value(s);
    bool counted = false;
    *sure = false;
    for (int i = 0; i < f->n; i++) {
        const filter *step = &f->step[i];
        if (step->has_p && counted) return bound;
        if (step->has_floor && step->floor > bound) bound = step->floor;
        if (step->k < INT64_MAX) {
            float least = kth_bound(s, step->k);
            if (least > bound) bound = least;
            counted = true;
        }
        *sure |= step->has_floor || counted;
    }
    if (*sure || is_flat(s)) return bound;
    float least = -LAW_INF;
    const filter *first = &f->step[0];
    if (s->rough.ready && s->rough.scale == first->w.scale && first->w.kind == WEIGHT_LOGITS)
        least = mass_bound(s, &first->w, law_top_p_target(first->p, rough_total_above(s)));
    if (!(least > bound)) least = kth_bound(s, HEAD);
    return least > bound ? least : bound;
}

/* Sets s->cut (or the kept list) and s->final from the steps [0, count). */
static filters resolve(state *s, int32_t count)
{
    filters f = make_filters(s, count);
    s->final = f.at_end;
    s->in_list = false;
    s->blocks_ready = false;
    s->cut = cut_at(bottom_value(s));
    s->found_from = law_float(LAW_NAN_BITS);
    if (f.greedy) {
        keep_greedy(s);
        return f;
    }
    if (f.n == 0) return f;
    bool sure;
    float bound = list_bound(s, &f, &sure);
    if ((sure || !is_flat(s)) && few_reach(s, bound)) {
        collect(s, bound, &s->found);
        s->found_from = bound;
        bool short_list = s->found.n <= s->length / 4 || s->length <= 2048;
        if (short_list && settle_on_list(s, &f, sure)) return f;
    }
    resolve_on_row(s, &f);
    return f;
}
