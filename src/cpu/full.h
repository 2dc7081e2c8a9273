/*
 * Selection from the whole row, for cuts that are not among few tokens: flat rows, many equal values, top_k
 * of a large part of the vocabulary. A sample brackets the cut between two values; one pass then takes the
 * exact mass above the bracket, block by block, counts what equals its ends, and lists what lies inside it;
 * the cut is selected there. A bracket that missed costs another pass.
 */

#define SAMPLE                                                                                               \
    4096 /* elements of the sample, about: fewer make the bracket wider, more take longer to select from */

typedef struct bracket {
    float low, high; /* low <= high */
    bool ties;       /* many tokens may equal one of them */
} bracket;

/* What a pass over the row with a bracket found. */
typedef struct bracket_pass {
    uint64_t total; /* exact mass of the set that is selected from */
    uint64_t above; /* of its tokens > high */
    int64_t above_count;
    int64_t at_high,
        at_low; /* tokens equal to the ends, not in the list (at_low is 0 when they are the same) */
} bracket_pass;

/* Fills s->block with the masses above the bracket, s->block_at with each block's start in the list of what
 * lies inside (s->found). With `ties` the ends themselves are counted by block in s->tie_count instead of
 * listed: half of the row may be equal to one of them. */
AI bracket_pass pass_of(state *s, float floor, bracket b, const weights *w, const bool ties,
                        const weight_kind kind)
{
    bracket_pass out = {0};
    int64_t n = 0, index = 0;
    bool two_ends = b.low<b.high, bounded = floor> w->bottom;
    vf high = vf_set(b.high), low = vf_set(b.low), least = vf_set(floor);
    list *l = &s->found;
    for (int64_t from = 0; from < s->length; from += BLOCK, index++) {
        int64_t to = from + BLOCK < s->length ? from + BLOCK : s->length, at_high = 0, at_low = 0;
        vmass all = vmass_zero(), above = vmass_zero();
        s->block_at[index] = n;
        for (int64_t i = from; i < to; i += 4 * VL) {
            vf a[4], f[4];
            vm g[4], in[4];
            if (to - i >= 4 * VL) {
                for (int j = 0; j < 4; j++) a[j] = vf_load(s->x + i + j * VL);
            } else {
                for (int j = 0; j < 4; j++) {
                    int64_t left = to - i - j * VL;
                    a[j] = left >= VL ? vf_load(s->x + i + j * VL)
                           : left > 0 ? vf_load_first(s->x + i + j * VL, (int)left)
                                      : vf_set(-LAW_INF);
                }
            }
            weigh_many(a, f, 4, w, kind);
            if (bounded)
                for (int j = 0; j < 4; j++) f[j] = vf_keep(vm_ge(a[j], least), f[j]);
            for (int j = 0; j < 4; j++) g[j] = vm_gt(a[j], high);
            if (ties)
                for (int j = 0; j < 4; j++) in[j] = vm_and_not(vm_gt(a[j], low), vm_ge(a[j], high));
            else
                for (int j = 0; j < 4; j++) in[j] = vm_and_not(vm_ge(a[j], low), g[j]);
            vmass_add_both(&all, &above, g, f);
            out.above_count += vm_count4(g);
            n += vi_compress4(l->id + n, in, (int32_t)i);
            for (int j = 0; ties && j < 4; j++) {
                at_high += vm_count(vm_eq(a[j], high));
                if (two_ends) at_low += vm_count(vm_eq(a[j], low));
            }
        }
        out.total += vmass_total(&all);
        s->block[index] = vmass_total(&above);
        out.above += s->block[index];
        s->tie_count[2 * index] = (int32_t)at_high;
        s->tie_count[2 * index + 1] = (int32_t)at_low;
        out.at_high += at_high;
        out.at_low += at_low;
    }
    s->block_at[index] = n;
    vf_gather(l->x, s->x, l->id, n);
    l->n = n;
    s->found_from = law_float(LAW_NAN_BITS); /* no longer the greatest tokens */
    return out;
}

AI bracket_pass pass_either(state *s, float floor, bracket b, const weights *w, const weight_kind kind)
{
    return b.ties ? pass_of(s, floor, b, w, true, kind) : pass_of(s, floor, b, w, false, kind);
}

static OUTLINE bracket_pass run_pass(state *s, float floor, bracket b, const weights *w)
{
    return BY_KIND(w, pass_either, s, floor, b, w);
}

/* A sample of the row's values. */
typedef struct sample {
    float *x;
    int64_t n;
    double each; /* elements of the row that one element of the sample stands for */
} sample;

/* Mass, and mass of squares, of sample values above and not above a value, in units of 2^40. */
typedef struct moments {
    double mass[2], squares[2];
} moments;

AI void measure_of(const sample *from, float value, const weights *w, moments *out, const weight_kind kind)
{
    vf v = vf_set(value), sum[4];
    for (int j = 0; j < 4; j++) sum[j] = vf_set(0.0f);
    for (int64_t i = 0; i < from->n; i += VL) {
        vf a = vf_load(from->x + i), f = vf_mul(weigh(a, w, kind), vf_set(0x1p-40f));
        vm above = vm_gt(a, v);
        if (from->n - i < VL) f = vf_keep(vm_first((int)(from->n - i)), f);
        vf up = vf_keep(above, f), down = vf_sub(f, up);
        sum[0] = vf_add(sum[0], up);
        sum[1] = vf_add(sum[1], down);
        sum[2] = vf_fma(up, up, sum[2]);
        sum[3] = vf_fma(down, down, sum[3]);
    }
    out->mass[0] = vf_sum(sum[0]);
    out->mass[1] = vf_sum(sum[1]);
    out->squares[0] = vf_sum(sum[2]);
    out->squares[1] = vf_sum(sum[3]);
}

static OUTLINE moments measure(const sample *from, float value, const weights *w)
{
    moments out = {{0, 0}, {0, 0}};
    BY_KIND(w, measure_of, from, value, w, &out);
    return out;
}

/* Takes vectors at even distances; values in [floor, below). */
static OUTLINE sample take_sample(const state *s, float floor, float below)
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
    return out;
}

/* Standard deviations of the sample's error that the bracket allows for: 1 in 700 of a normal error is
 * larger. */
#define SIGMAS 3.2

/* A sample's value with `count` of its elements, or `mass` of its mass, above; -inf when it does not hold it.
 */
static float value_at_count(const state *s, const sample *from, double count)
{
    if (!(count < (double)from->n)) return -LAW_INF;
    return count <= 0 ? LAW_INF : select_count(s->scratch, from->x, from->n, (int64_t)count + 1, 0).value;
}

static bracket bracket_by_count(const state *s, const sample *bulk, double head, int64_t k)
{
    double want = ((double)k - head) / bulk->each, slack = SIGMAS * sqrt(want > 0 ? want : 0) + 2;
    return (bracket){value_at_count(s, bulk, want + slack), value_at_count(s, bulk, want - slack), false};
}

/* The share of the mass above a value is a ratio of two sums over the sample; its variance is that of
 * sum w (1 - p) above and sum w p below it. Near the cut that much mass is slack / weight elements. */
static bracket bracket_by_mass(const state *s, const sample *bulk, double head, float p, const weights *w)
{
    double all = measure(bulk, LAW_INF, w).mass[1], share = p > 0 ? p : 0;
    double want = share * (head / bulk->each + all) - head / bulk->each;
    if (want <= 0) return (bracket){LAW_INF, LAW_INF, false};
    if (!(want < all * 0.999)) return (bracket){-LAW_INF, -LAW_INF, false};
    pick middle = select_mass(s->scratch, bulk->x, bulk->n, w, INT64_MAX, (uint64_t)(want * 0x1p40) + 1);
    moments split = measure(bulk, middle.value, w);
    double slack =
        SIGMAS * sqrt((1 - share) * (1 - share) * split.squares[0] + share * share * split.squares[1]);
    double weight = (double)weight_of(w, middle.value) * 0x1p-40,
           count = 1.1 * slack / (weight + 0x1p-40) + 2;
    return (bracket){value_at_count(s, bulk, (double)middle.above + count),
                     value_at_count(s, bulk, (double)middle.above - count), false};
}

/* Guesses where the cut lies. */
static bracket guess(state *s, const cut *set, const filter *step)
{
    float floor = set->value;
    bracket b = {floor, s->maximum, true};
    if (!step->has_p && step->k < INT64_MAX) {
        float least = kth_bound(s, step->k);
        if (least == s->maximum) return (bracket){least, least, true};
        if (least > b.low) b.low = least;
    }
    /* the head, exactly: a few great weights would make the sample's mass useless. There is none where many
     * tokens are as great, and it does not matter in a flat row. */
    float top = LAW_INF;
    double head = 0, head_count = 0;
    if (!(s->found_from > floor) && !is_flat(s)) {
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
    sample bulk = take_sample(s, floor, top);
    if (bulk.n < 64) return b;
    /* both cuts hold in a joint step: the higher one is the step's */
    bracket by_count = {-LAW_INF, -LAW_INF, false}, by_mass = by_count;
    if (step->k < INT64_MAX) by_count = bracket_by_count(s, &bulk, head_count, step->k);
    if (step->has_p) by_mass = bracket_by_mass(s, &bulk, head, step->p, &step->w);
    float low = by_count.low > by_mass.low ? by_count.low : by_mass.low;
    float high = by_count.high > by_mass.high ? by_count.high : by_mass.high;
    if (low == LAW_INF) low = top < LAW_INF ? top : b.low; /* in the head */
    if (low > b.low) b.low = low;
    if (high < b.high) b.high = high;
    if (b.high < b.low) b.high = b.low;
    list ends = {.x = bulk.x, .n = bulk.n};
    b.ties = (count_equal(&ends, b.low) + count_equal(&ends, b.high)) * 32 > bulk.n;
    return b;
}

/* Adds what the bracket keeps to the masses above it, so that s->block is that of the final set. The counts
 * of ends that were listed are 0. */
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
            b = (bracket){next_up(b.high), s->maximum, true};
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
                b = (bracket){set->value, law_key_value(law_key(b.low) - 1), true};
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
