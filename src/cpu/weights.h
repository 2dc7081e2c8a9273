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

/* f of each lane. Lanes outside K0 (NaN and -inf among them) get an f below 1. */
AI vf weigh(vf x, const weights *w, const weight_kind kind)
{
    if (kind == WEIGHT_FLAT) return vf_keep(vm_ge(x, vf_set(w->bottom)), vf_set(LAW_ONE_F));
    if (kind == WEIGHT_PROBABILITIES) {
        vf f = vf_mul(vf_mul(x, vf_set(w->up)), vf_set(w->up2));
        return vf_keep(vm_ge(x, vf_set(w->bottom)), f);
    }
    vf t = vf_mul(vf_sub(x, vf_set(w->maximum)), vf_set(w->scale));
    t = vf_max(t, vf_set(LAW_T_MIN)); /* NaN and everything below become 2^40 * 2^-64 < 1 */
    vf n = vf_rint(t);
    vf r = vf_sub(t, n);
    r = vf_sub(vf_add(r, vf_set(1.5f)), vf_set(1.5f));
    vf q = vf_set(LAW_C5 * LAW_ONE_F);
    q = vf_fma(q, r, vf_set(LAW_C4 * LAW_ONE_F));
    q = vf_fma(q, r, vf_set(LAW_C3 * LAW_ONE_F));
    q = vf_fma(q, r, vf_set(LAW_C2 * LAW_ONE_F));
    q = vf_fma(q, r, vf_set(LAW_C1 * LAW_ONE_F));
    q = vf_fma(q, r, vf_set(LAW_ONE_F));
    return vf_scale(q, n);
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

/* One value's weight. */
static uint64_t weight_of(const weights *w, float x)
{
    if (!(x >= w->bottom)) return 0;
    if (w->kind == WEIGHT_FLAT) return LAW_ONE;
    if (w->kind == WEIGHT_PROBABILITIES) return (uint64_t)((x * w->up) * w->up2);
    return law_weight(law_exponent(x, w->maximum, w->scale));
}

/* The least value whose weight is at least `least` (W is monotone in x): bisection over the order keys. The
 * maximum must qualify. */
static float value_at_weight(const weights *w, float maximum, uint64_t least)
{
    uint32_t low = law_key(w->bottom), high = law_key(maximum);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (weight_of(w, law_key_value(middle)) >= least) high = middle;
        else low = middle + 1;
    }
    return law_key_value(low);
}
