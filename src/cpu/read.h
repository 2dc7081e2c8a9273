/*
 * The one pass over a row that every call makes: its maximum, the maximum of every group of 16 elements
 * (lane i of span j covers the elements j * SPAN + i, + VL, + 2 VL ...), and its status bits. Rows of 16-bit
 * elements are widened into the workspace on the way. Where the chain is known to need the mass of the whole
 * row, float sums of it are taken in the same pass (rough.h).
 */

typedef struct read_flags {
    vm nan, negative;
} read_flags;

AI vf read_vector(const void *data, int64_t i, float *copy, const int dtype)
{
    if (dtype == TOMBOLA_F32) return vf_load((const float *)data + i);
    const uint16_t *from = (const uint16_t *)data + i;
    vf a = dtype == TOMBOLA_F16 ? vf_load_f16(from) : vf_load_bf16(from);
    vf_store(copy + i, a);
    return a;
}

/* sum += 2^((a - reference) * scale), roughly, for n vectors; offset = -reference * scale. */
AI void rough_add(const vf *a, vf *sum, const int n, vf scale, vf offset)
{
    vf t[4], e[4];
    for (int j = 0; j < n; j++) t[j] = vf_fma(a[j], scale, offset);
    vf_rough_exp2(t, e, n);
    for (int j = 0; j < n; j++) sum[j] = vf_add(sum[j], e[j]);
}

/* Group maxima of 16 vectors. vf_max(a, best) is `best` where a is NaN. */
AI vf read_span(const void *data, int64_t i, float *copy, read_flags *flags, const rough *r, vf *block_sum,
                const int dtype, const bool signs, const bool sums)
{
    vf best[4], sum[4], scale = vf_set(r->scale), offset = vf_set(-r->reference * r->scale);
    for (int j = 0; j < 4; j++) best[j] = vf_set(-LAW_INF);
    for (int j = 0; j < 4; j++) sum[j] = vf_set(0.0f);
    for (int v = 0; v < GROUP; v += 4) {
        vf a[4];
        for (int j = 0; j < 4; j++) a[j] = read_vector(data, i + (v + j) * VL, copy, dtype);
        for (int j = 0; j < 4; j++) best[j] = vf_max(a[j], best[j]);
        if (sums) rough_add(a, sum, 4, scale, offset);
        if (!sums || !ROUGH_KEEPS_NAN) /* else the sums tell */
            flags->nan = vm_or(flags->nan, vm_or(vm_nan(a[0], a[1]), vm_nan(a[2], a[3])));
        if (signs)
            for (int j = 0; j < 4; j++) flags->negative = vm_or(flags->negative, vm_gt(vf_set(0.0f), a[j]));
    }
    if (sums) *block_sum = vf_add(*block_sum, vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
    return vf_max(vf_max(best[0], best[1]), vf_max(best[2], best[3]));
}

#define PROBES 64

/* Looks at a few elements all over the row: their maximum becomes the sums' reference. False when the row
 * looks flat, so that exact sums will be needed and float sums are no use: a language model's row has a
 * sample in which the few greatest hold most of the mass (2.2 times the greatest for a Zipf row, 9.6 for
 * N(0,1)). */
static bool probe_row(const void *data, int64_t n, int dtype, rough *r)
{
    float x[PROBES], best = -0x1.fffffep127f;
    for (int64_t i = 0; i < PROBES; i++) {
        x[i] = tb_row_value(data, dtype, i * n / PROBES);
        if (x[i] > best && x[i] < LAW_INF) best = x[i];
    }
    r->reference = best;
    vf sum = vf_set(0.0f);
    for (int64_t i = 0; i < PROBES; i += VL) {
        vf a = vf_load(x + i);
        rough_add(&a, &sum, 1, vf_set(r->scale), vf_set(-best * r->scale));
    }
    r->probed = vf_sum(sum);
    return r->probed < 5;
}

AI void read_all(state *s, float *copy, const int dtype, const bool signs, const bool sums)
{
    const void *data = s->row->data;
    read_flags flags = {vm_first(0), vm_first(0)};
    vf best = vf_set(-LAW_INF), block_sum = vf_set(0.0f);
    int64_t span = 0, n = s->length;
    for (; (span + 1) * SPAN <= n; span++) {
        vf a = read_span(data, span * SPAN, copy, &flags, &s->rough, &block_sum, dtype, signs, sums);
        vf_store(s->group + span * VL, a);
        best = vf_max(a, best);
        if (sums && (span + 1) * SPAN % BLOCK == 0) {
            s->rough.block[span * SPAN / BLOCK] = vf_sum(block_sum);
            block_sum = vf_set(0.0f);
        }
    }
    if (span * SPAN < n) { /* the rest, padded with -inf: absent from every sum and list */
        float rest[SPAN];
        for (int64_t i = 0; i < SPAN; i++) {
            int64_t at = span * SPAN + i;
            rest[i] = at < n ? tb_row_value(data, dtype, at) : -LAW_INF;
            if (dtype != TOMBOLA_F32 && at < n) copy[at] = rest[i];
        }
        read_flags partial = {vm_first(0), vm_first(0)};
        vf a = read_span(rest, 0, NULL, &partial, &s->rough, &block_sum, TOMBOLA_F32, false, sums);
        flags.nan = vm_or(flags.nan, partial.nan);
        for (int64_t at = span * SPAN; signs && at < n; at++)
            if (rest[at - span * SPAN] < 0) flags.negative = vm_first(VL);
        vf_store(s->group + span * VL, a);
        best = vf_max(a, best);
        span++;
    }
    if (sums && n % BLOCK != 0) s->rough.block[n / BLOCK] = vf_sum(block_sum);
    s->spans = span;
    s->maximum = vf_greatest(best);
    if (vm_any(flags.nan)) s->status |= TOMBOLA_ROW_NAN;
    if (vm_any(flags.negative)) s->status |= TOMBOLA_ROW_NEGATIVE;
}

/* D of rough.h: exact but for the last bits of a binary64 number, since the product of two f32 is exact
 * there. */
static double rough_distance(const state *s)
{
    return (double)s->maximum * s->rough.scale + (double)(-s->rough.reference * s->rough.scale);
}

/* The sums stay far from overflow and their reference far from underflow. */
static bool rough_in_range(const state *s)
{
    double distance = rough_distance(s);
    return distance >= -1 && distance <= 64;
}

/* True when the probes say that no HEAD of tokens can hold half of the mass. */
static bool is_flat(const state *s)
{
    if (!(s->rough.probed > 0) || s->maximum == LAW_INF) return false;
    double distance = rough_distance(s);
    return s->rough.probed / PROBES * (double)s->length * exp2(-distance) > 2 * HEAD;
}

static void read_plain(state *s, float *copy)
{
    bool probabilities = s->call->kind == TOMBOLA_PROBABILITIES;
    if (s->call->dtype == TOMBOLA_F32 && !probabilities)
        read_all(s, copy, TOMBOLA_F32, false, false);
    else if (s->call->dtype == TOMBOLA_F32)
        read_all(s, copy, TOMBOLA_F32, true, false);
    else if (s->call->dtype == TOMBOLA_F16)
        read_all(s, copy, TOMBOLA_F16, true, false);
    else
        read_all(s, copy, TOMBOLA_BF16, true, false);
}

static void read_with_sums(state *s, float *copy)
{
    if (s->call->dtype == TOMBOLA_F32)
        read_all(s, copy, TOMBOLA_F32, false, true);
    else if (s->call->dtype == TOMBOLA_F16)
        read_all(s, copy, TOMBOLA_F16, false, true);
    else
        read_all(s, copy, TOMBOLA_BF16, false, true);
}

/* Reads the row; false when it is EMPTY. `copy` has room for the row in f32. sum_scale > 0: with float sums
 * at that scale. */
static bool read_row(state *s, float *copy, float sum_scale)
{
    bool probabilities = s->call->kind == TOMBOLA_PROBABILITIES;
    s->x = s->call->dtype == TOMBOLA_F32 ? s->row->data : copy;
    s->status = 0;
    s->rough.ready = false;
    s->rough.scale = sum_scale;
    s->rough.probed = 0;
    if (sum_scale > 0 && probe_row(s->row->data, s->length, s->call->dtype, &s->rough)) {
        read_with_sums(s, copy);
        double sum = 0;
        for (int64_t b = 0; b * BLOCK < s->length; b++) sum += s->rough.block[b];
        if (sum != sum) read_plain(s, copy); /* NaN in the row, or infinities of both signs */
        s->rough.ready = sum == sum && !(s->status & TOMBOLA_ROW_NAN) && rough_in_range(s);
    } else {
        read_plain(s, copy);
    }
    if (!probabilities) s->status &= ~(uint32_t)TOMBOLA_ROW_NEGATIVE;
    s->infinite = s->maximum == LAW_INF;
    if (s->infinite) s->status |= TOMBOLA_ROW_POS_INF;
    if (!(s->maximum > (probabilities ? 0.0f : -LAW_INF))) {
        s->status |= TOMBOLA_ROW_EMPTY;
        return false;
    }
    if (probabilities && !s->infinite) s->exponent = law_floor_log2(s->maximum);
    return true;
}
