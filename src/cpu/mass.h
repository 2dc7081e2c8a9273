/*
 * Exact masses of the row, or of the part of it at or above a bound. Spans whose group maxima all lie below
 * the bound are not read.
 */

/* W(x) summed over n <= 4 * BLOCK elements with x >= bound. Without `bounded` over all of K0. */
AI uint64_t mass_range(const float *x, int64_t n, const weights *w, float bound, const bool bounded,
                       const weight_kind kind)
{
    vmass sum = vmass_zero();
    vf least = vf_set(bound);
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        vf a[4], f[4];
        for (int j = 0; j < 4; j++) a[j] = vf_load(x + i + j * VL);
        weigh_many(a, f, 4, w, kind);
        if (bounded)
            for (int j = 0; j < 4; j++) f[j] = vf_keep(vm_ge(a[j], least), f[j]);
        vmass_add_many(&sum, f, 4);
    }
    for (; i < n; i += VL) {
        vf a = n - i >= VL ? vf_load(x + i) : vf_load_first(x + i, (int)(n - i));
        vf f = weigh(a, w, kind);
        vmass_add(&sum, bounded ? vf_keep(vm_ge(a, least), f) : f);
    }
    return vmass_total(&sum);
}

AI bool span_reaches(const state *s, int64_t span, vf bound)
{
    return vm_any(vm_ge(vf_load(s->group + span * VL), bound));
}

/* Mass of [from, to), at most one block, with x >= bound. */
AI uint64_t mass_between(const state *s, int64_t from, int64_t to, const weights *w, float bound,
                         const bool bounded, const weight_kind kind)
{
    if (!bounded) return mass_range(s->x + from, to - from, w, bound, false, kind);
    uint64_t mass = 0;
    vf least = vf_set(bound);
    for (int64_t i = from; i < to;) {
        int64_t span = i / SPAN, end = (span + 1) * SPAN < to ? (span + 1) * SPAN : to;
        if (span_reaches(s, span, least)) mass += mass_range(s->x + i, end - i, w, bound, true, kind);
        i = end;
    }
    return mass;
}

/* Tokens of [from, to) with x >= bound. */
AI int64_t count_between(const state *s, int64_t from, int64_t to, float bound)
{
    int64_t n = 0;
    vf least = vf_set(bound);
    for (int64_t i = from; i < to;) {
        int64_t span = i / SPAN, end = (span + 1) * SPAN < to ? (span + 1) * SPAN : to;
        if (!span_reaches(s, span, least)) {
            i = end;
            continue;
        }
        for (; i + 4 * VL <= end; i += 4 * VL) {
            vm m[4];
            for (int j = 0; j < 4; j++) m[j] = vm_ge(vf_load(s->x + i + j * VL), least);
            n += vm_count4(m);
        }
        for (; i < end; i += VL) {
            vf a = end - i >= VL ? vf_load(s->x + i) : vf_load_first(s->x + i, (int)(end - i));
            n += vm_count(vm_ge(a, least));
        }
        i = end;
    }
    return n;
}

/* The two ends of a block's part before the cut's split: value counts there, above from there on. */
AI int64_t cut_turn(const cut *c, int64_t from, int64_t to)
{
    return c->split < from ? from : c->split < to ? c->split : to;
}

AI uint64_t mass_blocks_of(const state *s, const cut *c, const weights *w, uint64_t *block,
                           const weight_kind kind)
{
    uint64_t total = 0, greatest = weight_of(w, s->maximum);
    bool bounded = !(c->value <= w->bottom) || c->split < s->length;
    bool ties = c->value >= s->maximum; /* only tokens equal to the maximum: counting does */
    for (int64_t from = 0; from < s->length; from += BLOCK) {
        int64_t to = from + BLOCK < s->length ? from + BLOCK : s->length, turn = cut_turn(c, from, to);
        uint64_t mass;
        if (ties) {
            mass = (uint64_t)count_between(s, from, turn, c->value) * greatest;
        } else if (!bounded) {
            mass = mass_between(s, from, to, w, 0.0f, false, kind);
        } else {
            mass = mass_between(s, from, turn, w, c->value, true, kind);
            if (turn < to) mass += mass_between(s, turn, to, w, c->above, true, kind);
        }
        if (block) block[from / BLOCK] = mass;
        total += mass;
    }
    return total;
}

/* Mass of a cut. block, when not NULL, receives the masses of its blocks of BLOCK elements. */
static OUTLINE uint64_t mass_blocks(const state *s, const cut *c, const weights *w, uint64_t *block)
{
    return BY_KIND(w, mass_blocks_of, s, c, w, block);
}

/* Tokens of a cut. */
static OUTLINE int64_t count_cut(const state *s, const cut *c)
{
    int64_t turn = cut_turn(c, 0, s->length), n = count_between(s, 0, turn, c->value);
    return turn < s->length ? n + count_between(s, turn, s->length, c->above) : n;
}

/* The cut that keeps the first `ties` tokens equal to value, and all greater ones. */
static cut cut_after_ties(const state *s, float value, int64_t ties)
{
    cut c = cut_at(value);
    vf same = vf_set(value);
    for (int64_t span = 0; span < s->spans; span++) {
        if (!span_reaches(s, span, same)) continue;
        int64_t from = span * SPAN, to = from + SPAN < s->length ? from + SPAN : s->length;
        for (int64_t i = from; i < to; i++) {
            if (s->x[i] != value) continue;
            if (ties-- == 0) {
                c.split = i;
                return c;
            }
        }
    }
    return c;
}
