/*
 * The one pass over a row that every call makes: its maximum, the maximum of every group of 16 elements
 * (lane i of span j covers the elements j * SPAN + i, + VL, + 2 VL ...), and its status bits. Rows of 16-bit
 * elements are widened into the workspace on the way.
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

/* Group maxima of 16 vectors. vf_max(a, best) is `best` where a is NaN. */
AI vf read_span(const void *data, int64_t i, float *copy, read_flags *flags, const int dtype, const bool signs)
{
    vf best[4];
    for (int j = 0; j < 4; j++) best[j] = vf_set(-LAW_INF);
    for (int v = 0; v < GROUP; v += 4) {
        vf a[4];
        for (int j = 0; j < 4; j++) a[j] = read_vector(data, i + (v + j) * VL, copy, dtype);
        for (int j = 0; j < 4; j++) best[j] = vf_max(a[j], best[j]);
        flags->nan = vm_or(flags->nan, vm_or(vm_nan(a[0], a[1]), vm_nan(a[2], a[3])));
        if (signs)
            for (int j = 0; j < 4; j++) flags->negative = vm_or(flags->negative, vm_gt(vf_set(0.0f), a[j]));
    }
    return vf_max(vf_max(best[0], best[1]), vf_max(best[2], best[3]));
}

AI void read_all(state *s, float *copy, const int dtype, const bool signs)
{
    const void *data = s->row->data;
    read_flags flags = {vm_first(0), vm_first(0)};
    vf best = vf_set(-LAW_INF);
    int64_t span = 0, n = s->length;
    for (; (span + 1) * SPAN <= n; span++) {
        vf a = read_span(data, span * SPAN, copy, &flags, dtype, signs);
        vf_store(s->group + span * VL, a);
        best = vf_max(a, best);
    }
    if (span * SPAN < n) { /* the rest, padded with -inf: absent from every sum and list */
        float rest[SPAN];
        for (int64_t i = 0; i < SPAN; i++) {
            int64_t at = span * SPAN + i;
            rest[i] = at < n ? tb_row_value(data, dtype, at) : -LAW_INF;
            if (dtype != TOMBOLA_F32 && at < n) copy[at] = rest[i];
        }
        read_flags partial = {vm_first(0), vm_first(0)};
        vf a = read_span(rest, 0, NULL, &partial, TOMBOLA_F32, false);
        flags.nan = vm_or(flags.nan, partial.nan);
        for (int64_t at = span * SPAN; signs && at < n; at++)
            if (rest[at - span * SPAN] < 0) flags.negative = vm_first(VL);
        vf_store(s->group + span * VL, a);
        best = vf_max(a, best);
        span++;
    }
    s->spans = span;
    s->maximum = vf_greatest(best);
    if (vm_any(flags.nan)) s->status |= TOMBOLA_ROW_NAN;
    if (vm_any(flags.negative)) s->status |= TOMBOLA_ROW_NEGATIVE;
}

/* Reads the row; false when it is EMPTY. `copy` has room for the row in f32. */
static bool read_row(state *s, float *copy)
{
    bool probabilities = s->call->kind == TOMBOLA_PROBABILITIES;
    int dtype = s->call->dtype;
    s->x = dtype == TOMBOLA_F32 ? s->row->data : copy;
    s->status = 0;
    if (dtype == TOMBOLA_F32 && probabilities) read_all(s, copy, TOMBOLA_F32, true);
    else if (dtype == TOMBOLA_F32) read_all(s, copy, TOMBOLA_F32, false);
    else if (dtype == TOMBOLA_F16) read_all(s, copy, TOMBOLA_F16, true);
    else read_all(s, copy, TOMBOLA_BF16, true);
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
