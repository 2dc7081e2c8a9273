/*
 * The outputs beside the token (docs/law.md, sections 6 and 7).
 */

static int64_t kept_count(state *s)
{
    return s->in_list ? s->kept.n : count_cut(s, &s->cut);
}

static float logprob_of(const weights *w, float x, uint64_t mass)
{
    if (w->kind == WEIGHT_PROBABILITIES) return law_probability_logprob(weight_of(w, x), mass);
    return law_logprob(exponent_of(w, x), mass);
}

/* For a source of probabilities with +inf entries the weights are flat, but the formula is that of weights.
 */
static float source_logprob(const state *s, const weights *w, float x, uint64_t mass)
{
    if (s->call->kind == TOMBOLA_PROBABILITIES) return law_probability_logprob(weight_of(w, x), mass);
    return logprob_of(w, x, mass);
}

/* Tokens of K0 whose value is at least x. */
static int32_t rank_of(const state *s, float x)
{
    cut c = cut_at(x);
    if (!(s->found_from <= x)) return (int32_t)count_cut(s, &c);
    int64_t n = 0;
    vf least = vf_set(x);
    for (int64_t i = 0; i < s->found.n; i += VL) n += vm_count(vm_ge(vf_load(s->found.x + i), least));
    return (int32_t)n; /* the padding is -inf */
}

static void write_kept_ids(const state *s, int32_t *ids, int64_t capacity)
{
    int64_t n = 0;
    if (s->in_list) {
        for (; n < s->kept.n && n < capacity; n++) ids[n] = s->kept.id[n];
    } else {
        vf least = vf_set(s->cut.value);
        for (int64_t span = 0; span < s->spans && n < capacity; span++) {
            if (!span_reaches(s, span, least)) continue;
            int64_t to = (span + 1) * SPAN < s->length ? (span + 1) * SPAN : s->length;
            for (int64_t i = span * SPAN; i < to && n < capacity; i++)
                if (cut_keeps(&s->cut, s->x[i], i)) ids[n++] = (int32_t)i;
        }
    }
    while (n < capacity) ids[n++] = -1;
}

AI void write_probabilities_of(const state *s, float *out, float scale, const weight_kind kind)
{
    vf c = vf_set(scale);
    for (int part = 0; part < 2; part++) { /* before and after the cut's split */
        int64_t split = s->cut.split < s->length ? s->cut.split : s->length;
        int64_t i = part ? split : 0, to = part ? s->length : split;
        vf least = vf_set(part ? s->cut.above : s->cut.value);
        for (; i < to; i += VL) {
            bool full = to - i >= VL;
            vf a = full ? vf_load(s->x + i) : vf_load_first(s->x + i, (int)(to - i));
            vf f = weigh(a, &s->final, kind);
            vf p = kind == WEIGHT_PROBABILITIES ? vf_mul(vf_floor(f), c)
                                                : vf_mul(vf_mul(f, vf_set(0x1p-40f)), c);
            p = vf_keep(vm_and(vm_ge(a, least), vm_ge(f, vf_set(1.0f))), p);
            if (full) {
                vf_store(out + i, p);
            } else {
                float lane[VL];
                vf_store(lane, p);
                for (int64_t j = 0; i + j < to; j++) out[i + j] = lane[j];
            }
        }
    }
}

static OUTLINE void write_probabilities(const state *s, float *out)
{
    /* +inf entries of a probability source: (float)2^40 * (float)(1 / Zd), which flat weights spell as
     * 1 * (2^40 * (float)(1 / Zd)), a scaling by a power of two. */
    float scale = s->call->kind == TOMBOLA_PROBABILITIES ? law_probability_renorm_scale(s->kept_mass)
                                                         : law_renorm_scale(s->kept_mass);
    if (s->call->kind == TOMBOLA_PROBABILITIES && s->infinite) scale *= LAW_ONE_F;
    switch (s->final.kind) {
    case WEIGHT_LOGITS: write_probabilities_of(s, out, scale, WEIGHT_LOGITS); break;
    case WEIGHT_PROBABILITIES: write_probabilities_of(s, out, scale, WEIGHT_PROBABILITIES); break;
    case WEIGHT_FLAT: write_probabilities_of(s, out, scale, WEIGHT_FLAT); break;
    }
}

/* Two plain loops that compilers vectorise; the source's bits move as integers. */
static void mask_range_32(const float *x, const uint32_t *from, uint32_t *to, int64_t n, float bound)
{
    for (int64_t i = 0; i < n; i++) to[i] = x[i] >= bound ? from[i] : 0xff800000u;
}

static void mask_range_16(const float *x, const uint16_t *from, uint16_t *to, int64_t n, float bound,
                          uint16_t low)
{
    for (int64_t i = 0; i < n; i++) to[i] = x[i] >= bound ? from[i] : low;
}

static OUTLINE void write_masked(const state *s, void *out)
{
    int64_t split = s->cut.split < s->length ? s->cut.split : s->length, rest = s->length - split;
    if (s->call->dtype == TOMBOLA_F32) {
        const uint32_t *from = s->row->data;
        uint32_t *to = out;
        mask_range_32(s->x, from, to, split, s->cut.value);
        mask_range_32(s->x + split, from + split, to + split, rest, s->cut.above);
        return;
    }
    const uint16_t *from = s->row->data;
    uint16_t *to = out, low = s->call->dtype == TOMBOLA_F16 ? 0xfc00 : 0xff80;
    mask_range_16(s->x, from, to, split, s->cut.value, low);
    mask_range_16(s->x + split, from + split, to + split, rest, s->cut.above, low);
}

/* The greatest tokens of the row in order; those of a kept set are the first of them. */
static void write_top(state *s, uint64_t mass, uint64_t raw_mass, const weights *raw)
{
    const tombola_call *call = s->call;
    int64_t wanted = call->top_count, at = s->row->index * wanted;
    const weights *w = call->top_raw ? raw : &s->final;
    if (!call->top_raw) {
        mass = s->kept_mass;
        if (s->kept_count < wanted) wanted = s->kept_count;
    } else {
        mass = raw_mass;
    }
    if (!(s->found_from == s->found_from) || s->found.n < wanted) {
        float bound = wanted < s->length ? kth_bound(s, wanted) : -LAW_INF;
        if (!(bound > bottom_value(s))) bound = bottom_value(s);
        collect(s, bound, &s->found);
        s->found_from = bound;
    }
    /* among the list: the tokens at or above the wanted-th value, sorted */
    uint64_t *key = (uint64_t *)s->scratch[0];
    float least = -LAW_INF;
    if (wanted > 0 && wanted < s->found.n) {
        pick p = select_count(s->scratch, s->found.x, s->found.n, wanted, 0);
        if (p.found) least = p.value;
    }
    int64_t n = 0;
    for (int64_t i = 0; i < s->found.n && wanted > 0; i++)
        if (s->found.x[i] >= least)
            key[n++] = (uint64_t)~law_key(s->found.x[i]) << 32 | (uint32_t)s->found.id[i];
    tb_sort(key, n);
    for (int64_t i = 0; i < call->top_count; i++) {
        bool present = i < n && i < wanted;
        int32_t id = present ? (int32_t)(uint32_t)key[i] : -1;
        if (call->top_ids) call->top_ids[at + i] = id;
        if (call->top_logprobs)
            call->top_logprobs[at + i] = present ? source_logprob(s, w, s->x[id], mass) : -LAW_INF;
    }
}

static void write_given(const state *s, const cut *set, const weights *w, uint64_t mass, float *out)
{
    const tombola_call *call = s->call;
    for (int64_t i = 0; i < call->given_count; i++) {
        int64_t at = s->row->index * call->given_count + i;
        int32_t id = call->given_ids[at];
        if (id < 0 || id >= s->length)
            out[at] = law_float(LAW_NAN_BITS);
        else if (!cut_keeps(set, s->x[id], id))
            out[at] = -LAW_INF;
        else
            out[at] = source_logprob(s, w, s->x[id], mass);
    }
}

/* Sum of w * rint(-t * 2^20) over n values (docs/law.md, section 7). */
static void add_entropy(const state *s, const float *x, int64_t n, int64_t first, law_entropy_sum *sum)
{
    for (int64_t i = 0; i < n; i++) {
        if (first >= 0 && !cut_keeps(&s->cut, x[i], first + i)) continue;
        uint64_t weight = weight_of(&s->final, x[i]);
        if (weight) law_entropy_add(sum, weight, law_entropy_factor(exponent_of(&s->final, x[i])));
    }
}

static float entropy_of(const state *s)
{
    if (s->call->kind == TOMBOLA_PROBABILITIES) return law_float(LAW_NAN_BITS);
    law_entropy_sum sum = {0, 0};
    if (s->final.kind == WEIGHT_FLAT) {
        /* every term is 0 */
    } else if (s->in_list) {
        add_entropy(s, s->kept.x, s->kept.n, -1, &sum);
    } else {
        for (int64_t span = 0; span < s->spans; span++) {
            if (!span_reaches(s, span, vf_set(s->cut.value))) continue;
            int64_t from = span * SPAN, n = s->length - from < SPAN ? s->length - from : SPAN;
            add_entropy(s, s->x + from, n, from, &sum);
        }
    }
    return law_entropy(sum, s->kept_mass);
}
