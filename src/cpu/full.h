/*
 * Selection from the whole row, for cuts that are not among few tokens: flat rows, many equal values, top_k
 * of a large part of the vocabulary. A sample brackets the cut between two values; one pass then takes the
 * exact mass above the bracket, block by block, counts what equals its ends, and lists what lies inside it;
 * the cut is selected there. A bracket that missed costs another pass.
 */

#define SAMPLE 8192 /* elements of the sample, about */

typedef struct bracket {
    float low, high; /* low <= high */
} bracket;

/* What a pass over the row with a bracket found. */
typedef struct bracket_pass {
    uint64_t total;      /* exact mass of the set that is selected from */
    uint64_t above;      /* of its tokens > high */
    int64_t above_count;
    int64_t at_high, at_low; /* tokens equal to the ends (at_low is 0 when they are the same) */
} bracket_pass;

/* Fills s->block with the masses above the bracket, s->block_at with each block's start in the list of what
 * lies strictly inside (s->found), s->tie_count with its tokens at the ends. */
AI bracket_pass pass_of(state *s, float floor, bracket b, const weights *w, const weight_kind kind)
{
    bracket_pass out = {0};
    int64_t n = 0, inside_at = 0;
    bool two_ends = b.low < b.high, bounded = floor > w->bottom;
    vf high = vf_set(b.high), low = vf_set(b.low), least = vf_set(floor);
    list *l = &s->found;
    for (int64_t from = 0; from < s->length; from += BLOCK, inside_at++) {
        int64_t to = from + BLOCK < s->length ? from + BLOCK : s->length;
        vmass all = vmass_zero(), above = vmass_zero();
        int64_t at_high = 0, at_low = 0;
        s->block_at[inside_at] = n;
        for (int64_t i = from; i < to; i += 4 * VL) {
            vf a[4], f[4];
            for (int j = 0; j < 4; j++) {
                int64_t left = to - i - j * VL;
                a[j] = left >= VL ? vf_load(s->x + i + j * VL)
                                  : vf_load_first(s->x + (left > 0 ? i + j * VL : i), left > 0 ? (int)left : 0);
            }
            weigh_many(a, f, 4, w, kind);
            if (bounded)
                for (int j = 0; j < 4; j++) f[j] = vf_keep(vm_ge(a[j], least), f[j]);
            vm g[4], in[4], touch = vm_first(0);
            for (int j = 0; j < 4; j++) {
                vm ge_high = vm_ge(a[j], high), ge_low = vm_ge(a[j], low);
                g[j] = vm_gt(a[j], high);
                in[j] = vm_and(vm_gt(a[j], low), vm_not(ge_high));
                vm ends = vm_or(vm_and(ge_high, vm_not(g[j])), vm_and(vm_and(ge_low, vm_not(ge_high)), vm_not(in[j])));
                touch = vm_or(touch, ends);
            }
            for (int j = 0; j < 4; j++) vmass_add_both(&all, &above, g[j], f[j]);
            out.above_count += vm_count4(g);
            n += vi_compress4(l->id + n, in, (int32_t)i);
            if (vm_any(touch))
                for (int j = 0; j < 4; j++) {
                    at_high += vm_count(vm_eq(a[j], high));
                    if (two_ends) at_low += vm_count(vm_eq(a[j], low));
                }
        }
        out.total += vmass_total(&all);
        s->block[inside_at] = vmass_total(&above);
        out.above += s->block[inside_at];
        s->tie_count[2 * inside_at] = (int32_t)at_high;
        s->tie_count[2 * inside_at + 1] = (int32_t)at_low;
        out.at_high += at_high;
        out.at_low += at_low;
    }
    s->block_at[inside_at] = n;
    vf_gather(l->x, s->x, l->id, n);
    l->n = n;
    s->found_from = law_float(LAW_NAN_BITS); /* no longer the greatest tokens */
    return out;
}

static OUTLINE bracket_pass run_pass(state *s, float floor, bracket b, const weights *w)
{
    return BY_KIND(w, pass_of, s, floor, b, w);
}

/* A sample of the row's values in [floor, below), its size, mass and mass of squares (in units of 2^40). */
typedef struct sample {
    float *x;
    int64_t n;
    double each; /* elements of the row that one element of the sample stands for */
    double mass, squares;
} sample;

AI void weigh_sample_of(sample *out, const weights *w, const weight_kind kind)
{
    double mass = 0, squares = 0;
    for (int64_t i = 0; i < out->n; i += VL) {
        vf a = vf_load(out->x + i);
        vf f = vf_mul(weigh(a, w, kind), vf_set(0x1p-40f));
        if (out->n - i < VL) f = vf_keep(vm_first((int)(out->n - i)), f);
        mass += vf_sum(f);
        squares += vf_sum(vf_mul(f, f));
    }
    out->mass = mass;
    out->squares = squares;
}

static OUTLINE sample take_sample(const state *s, float floor, float below, const weights *w)
{
    sample out = {.x = s->kept.x};
    int64_t vectors = s->length / VL, take = SAMPLE / VL < vectors / 8 ? SAMPLE / VL : vectors / 8;
    if (take < 1) take = vectors;
    vf least = vf_set(floor), end = vf_set(below);
    for (int64_t j = 0; j < take; j++) {
        vf a = vf_load(s->x + j * vectors / take * VL);
        out.n += vf_compress(out.x + out.n, vm_and(vm_ge(a, least), vm_gt(end, a)), a);
    }
    pad_values(out.x, out.n);
    out.each = take ? (double)vectors / (double)take : 1;
    BY_KIND(w, weigh_sample_of, &out, w);
    return out;
}

/* Standard deviations of the sample's error that the bracket allows for: 1 row in 700 misses. */
#define SIGMAS 3.2

/* The sample's value with `count` of its elements or `mass` of its mass above, whichever comes first from the
 * top; -inf when the sample holds neither. */
static float sample_value(const state *s, const sample *from, const weights *w, double count, double mass)
{
    bool counts = count < (double)from->n, weighs = mass < from->mass * 0.999;
    if (!counts && !weighs) return -LAW_INF;
    int64_t k = counts ? (int64_t)count + 1 : INT64_MAX;
    uint64_t target = weighs ? (uint64_t)(mass * 0x1p40) + 1 : UINT64_MAX;
    pick p = weighs ? select_mass(s->scratch, from->x, from->n, w, k, target)
                    : select_count(s->scratch, from->x, from->n, k, 0);
    return p.found ? p.value : -LAW_INF;
}

/* Guesses where the cut lies. */
static bracket guess(state *s, const cut *set, const filter *step)
{
    float floor = set->value;
    bracket b = {floor, s->maximum};
    if (!step->has_p && step->k < INT64_MAX) {
        float least = kth_bound(s, step->k);
        if (least == s->maximum) return (bracket){least, least};
        if (least > b.low) b.low = least;
    }
    /* the head, exactly: a few great weights would make the sample's mass useless. There is none where many
     * tokens are as great. */
    float top = LAW_INF;
    double head = 0, head_count = 0;
    if (!(s->found_from > floor)) {
        float least = kth_bound(s, HEAD);
        if (least > floor && few_reach(s, least)) {
            collect(s, least, &s->found);
            s->found_from = least;
        }
    }
    if (s->found_from > floor) {
        top = s->found_from;
        head = (double)list_mass(s->found.x, s->found.n, top, &step->w) * 0x1p-40;
        head_count = (double)s->found.n;
    }
    sample bulk = take_sample(s, floor, top, &step->w);
    if (bulk.n < 64) return b;
    double high_count = INFINITY, high_mass = INFINITY, low_count = INFINITY, low_mass = INFINITY;
    if (step->k < INT64_MAX) {
        double want = ((double)step->k - head_count) / bulk.each, slack = SIGMAS * sqrt(want > 0 ? want : 0) + 2;
        high_count = want - slack;
        low_count = want + slack;
    }
    if (step->has_p) {
        double total = head + bulk.each * bulk.mass, p = step->p > 0 ? step->p : 0;
        double want = (p * total - head) / bulk.each, slack = SIGMAS * sqrt(bulk.squares * (p < 1 ? 1 - p : 0) * p);
        slack += bulk.mass / (double)bulk.n;
        high_mass = want - slack;
        low_mass = want + slack;
    }
    if (high_count > 0 && high_mass > 0) { /* else the cut may lie in the head */
        float high = sample_value(s, &bulk, &step->w, high_count, high_mass);
        if (high > b.low) b.high = high;
    }
    float low = low_count <= 0 || low_mass <= 0 ? top : sample_value(s, &bulk, &step->w, low_count, low_mass);
    if (low > b.low) b.low = low;
    if (b.high < b.low) b.high = b.low;
    return b;
}

/* Adds what the bracket keeps to the masses above it, so that s->block is that of the final set. */
static void complete_blocks(state *s, const bracket *b, float value, const weights *w)
{
    uint64_t at_high = weight_of(w, b->high), at_low = weight_of(w, b->low);
    int64_t blocks = (s->length + BLOCK - 1) / BLOCK;
    for (int64_t i = 0; i < blocks; i++) {
        uint64_t mass = s->block[i];
        if (value <= b->high) mass += (uint64_t)s->tie_count[2 * i] * at_high;
        if (value <= b->low) mass += (uint64_t)s->tie_count[2 * i + 1] * at_low;
        int64_t from = s->block_at[i], n = s->block_at[i + 1] - from;
        if (n > 0) mass += list_mass(s->found.x + from, n, value, w);
        s->block[i] = mass;
    }
    s->blocks_ready = true;
}

/* Narrows the set by one step that counts or weighs. `last`: no later step changes the set or the weights. */
static cut select_on_row(state *s, const cut *set, const filter *step, bool last)
{
    bracket b = guess(s, set, step);
    uint64_t surplus = 0; /* mass of the ties that the set leaves out */
    if (set->split < s->length) {
        cut whole = cut_at(set->value);
        surplus = (uint64_t)(count_cut(s, &whole) - count_cut(s, set)) * weight_of(&step->w, set->value);
    }
    for (;;) {
        bracket_pass pass = run_pass(s, set->value, b, &step->w);
        uint64_t target = step->has_p ? law_top_p_target(step->p, pass.total - surplus) : UINT64_MAX;
        if (pass.above_count >= step->k || pass.above >= target) { /* the cut lies higher */
            b = (bracket){next_up(b.high), s->maximum};
            continue;
        }
        pick best = {.found = false};
        int64_t count = pass.above_count;
        uint64_t mass = pass.above;
        if (pass.at_high > 0) {
            best = (pick){true, b.high, count, mass, pass.at_high};
            count += pass.at_high;
            mass += (uint64_t)pass.at_high * weight_of(&step->w, b.high);
        }
        list *l = &s->found;
        if (count < step->k && mass < target && l->n > 0) {
            int64_t k = step->k == INT64_MAX ? INT64_MAX : step->k - count;
            uint64_t left = target == UINT64_MAX ? UINT64_MAX : target - mass;
            pick p = step->has_p ? select_mass(s->scratch, l->x, l->n, &step->w, k, left)
                                 : select_count(s->scratch, l->x, l->n, k, 0);
            best = (pick){true, p.value, count + p.above, mass + p.mass_above, p.equal};
            count += l->n;
            if (step->has_p) mass += list_mass(l->x, l->n, b.low, &step->w);
        }
        if (count < step->k && mass < target) {
            if (pass.at_low > 0) {
                best = (pick){true, b.low, count, mass, pass.at_low};
                count += pass.at_low;
                mass += (uint64_t)pass.at_low * weight_of(&step->w, b.low);
            }
            if (count < step->k && mass < target && b.low > set->value) { /* the cut lies lower */
                b = (bracket){set->value, law_key_value(law_key(b.low) - 1)};
                continue;
            }
        }
        if (!best.found || best.value < set->value) return *set;
        int64_t ties = ties_kept(s, &best, step->k, target, &step->w);
        cut c = ties < best.equal ? cut_after_ties(s, best.value, ties) : cut_at(best.value);
        if (best.value == set->value) c = cut_tighter(c, *set);
        if (last && c.split >= s->length) complete_blocks(s, &b, best.value, &step->w);
        return c;
    }
}

static bool same_weights(const weights *a, const weights *b)
{
    return a->kind == b->kind && (a->kind != WEIGHT_LOGITS || a->scale == b->scale);
}

/* A step on a set whose tokens all equal the maximum: arithmetic. */
static cut narrow_ties(const state *s, const cut *set, const filter *step)
{
    if (s->call->ties == TOMBOLA_TIES_ALL) return *set;
    pick p = {.found = true, .value = s->maximum, .equal = count_cut(s, set)};
    uint64_t mass = (uint64_t)p.equal * weight_of(&step->w, s->maximum);
    uint64_t target = step->has_p ? law_top_p_target(step->p, mass) : UINT64_MAX;
    int64_t ties = ties_kept(s, &p, step->k, target, &step->w);
    return ties < p.equal ? cut_after_ties(s, s->maximum, ties) : *set;
}

/* Runs the chain step by step on the row. */
static void resolve_on_row(state *s, const filters *f)
{
    cut set = cut_at(bottom_value(s));
    for (int i = 0; i < f->n; i++) {
        const filter *step = &f->step[i];
        if (step->has_floor) {
            set = cut_tighter(set, cut_at(step->floor));
            continue;
        }
        /* k tokens or more equal the maximum: without a mass to look at, top_k ends among them */
        bool ends_at_top = step->k < INT64_MAX && (!step->has_p || s->call->ties == TOMBOLA_TIES_ALL) &&
                           kth_bound(s, step->k) == s->maximum;
        if (ends_at_top) set = cut_tighter(set, cut_at(s->maximum));
        if (set.value == s->maximum) {
            set = narrow_ties(s, &set, step);
            continue;
        }
        bool last = i == f->n - 1 && same_weights(&step->w, &f->at_end);
        set = select_on_row(s, &set, step, last);
    }
    s->cut = set;
}
