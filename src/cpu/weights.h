/*
 * Weights of a vector of values, and what a row's weights depend on.
 *
 * Every weight is first a float `f` with W = floor(f): 2^40 * E(t) for logits, x * 2^(40 - e) for
 * probabilities. f has 24 significant bits, so nothing is lost.
 */

typedef enum weight_kind {
    WEIGHT_LOGITS,
    WEIGHT_PROBABILITIES,
    WEIGHT_FLAT /* 2^40 for all of K0: T = +inf, greedy, or +inf entries */
} weight_kind;

typedef struct weights {
    weight_kind kind;
    float maximum, scale; /* LOGITS */
    float up, up2;        /* PROBABILITIES: 2^(40 - e) as a product of two powers that are normal numbers */
    float bottom;         /* the least value of K0 */
} weights;

#define EACH for (int j = 0; j < n; j++)

/* f of each lane of n vectors. Lanes outside K0 (NaN and -inf among them) get an f below 1. Every operation
 * is done for all vectors before the next one: one vector after the other would fill the schedulers with
 * operations that wait. */
AI void weigh_many(const vf *x, vf *f, const int n, const weights *w, const weight_kind kind)
{
    if (kind == WEIGHT_FLAT) {
        EACH f[j] = vf_keep(vm_ge(x[j], vf_set(w->bottom)), vf_set(LAW_ONE_F));
        return;
    }
    if (kind == WEIGHT_PROBABILITIES) {
        EACH f[j] = vf_mul(vf_mul(x[j], vf_set(w->up)), vf_set(w->up2));
        EACH f[j] = vf_keep(vm_ge(x[j], vf_set(w->bottom)), f[j]);
        return;
    }
    vf t[4], r[4], q[4];
    EACH t[j] = vf_sub(x[j], vf_set(w->maximum));
    EACH t[j] = vf_mul(t[j], vf_set(w->scale));
    EACH t[j] = vf_max(t[j], vf_set(LAW_T_MIN)); /* NaN and everything below become 2^40 * 2^-64 < 1 */
    EACH r[j] = vf_from_rint(t[j]);
    EACH t[j] = vf_sub(t[j], r[j]); /* rint(t), exactly */
    EACH r[j] = vf_add(r[j], vf_set(1.5f));
    EACH r[j] = vf_sub(r[j], vf_set(1.5f));
    EACH q[j] = vf_fma(vf_set(LAW_C5 * LAW_ONE_F), r[j], vf_set(LAW_C4 * LAW_ONE_F));
    EACH q[j] = vf_fma(q[j], r[j], vf_set(LAW_C3 * LAW_ONE_F));
    EACH q[j] = vf_fma(q[j], r[j], vf_set(LAW_C2 * LAW_ONE_F));
    EACH q[j] = vf_fma(q[j], r[j], vf_set(LAW_C1 * LAW_ONE_F));
    EACH q[j] = vf_fma(q[j], r[j], vf_set(LAW_ONE_F));
    EACH f[j] = vf_scale(q[j], t[j]);
}

AI vf weigh(vf x, const weights *w, const weight_kind kind)
{
    vf f;
    weigh_many(&x, &f, 1, w, kind);
    return f;
}

/* Calls function(..., kind) with the kind as a constant, so that each gets its own loop. */
#define BY_KIND(w, function, ...)                                                                            \
    ((w)->kind == WEIGHT_LOGITS ? function(__VA_ARGS__, WEIGHT_LOGITS)                                       \
     : (w)->kind == WEIGHT_FLAT ? function(__VA_ARGS__, WEIGHT_FLAT)                                         \
                                : function(__VA_ARGS__, WEIGHT_PROBABILITIES))

static float exponent_of(const weights *w, float x)
{
    return w->kind == WEIGHT_FLAT ? 0.0f : law_exponent(x, w->maximum, w->scale);
}

/* One value's weight. One lane of a vector is faster than the scalar law where C has no fused operation. */
static uint64_t weight_of(const weights *w, float x)
{
    if (!(x >= w->bottom)) return 0;
    if (w->kind == WEIGHT_FLAT) return LAW_ONE;
    if (w->kind == WEIGHT_PROBABILITIES) return (uint64_t)((x * w->up) * w->up2);
    return (uint64_t)vf_lane(weigh(vf_set(x), w, WEIGHT_LOGITS));
}

/* The least value whose weight is at least `least` (W is monotone in x): bisection over the order keys, from
 * a near guess where there is one. The maximum must qualify. */
static float value_at_weight(const weights *w, float maximum, uint64_t least)
{
    uint32_t low = law_key(w->bottom), high = law_key(maximum);
    if (w->kind == WEIGHT_LOGITS) {
        double x = (double)maximum + (double)(log2f((float)least) - 40) / (double)w->scale; /* a guess */
        uint32_t near = x > (double)w->bottom ? law_key((float)x) : low;
        /* 64 keys either way nearly always hold it */
        uint32_t under = near - low > 64 ? near - 64 : low,
                 over = high - near > 64 && near < high ? near + 64 : high;
        if (weight_of(w, law_key_value(under)) < least) low = under + 1;
        if (weight_of(w, law_key_value(over)) >= least) high = over;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (weight_of(w, law_key_value(middle)) >= least)
            high = middle;
        else
            low = middle + 1;
    }
    return law_key_value(low);
}
