/*
 * Lists of the greatest tokens: a bound that is sure to hold them, collecting them, and exact selection
 * within a list of values.
 */

/* Pads a list of values for vector reads. */
AI void pad_values(float *x, int64_t n)
{
    vf_store(x + n, vf_set(-LAW_INF));
}

/* Lists the tokens >= bound, in index order. */
static OUTLINE void collect(const state *s, float bound, list *out)
{
    int64_t n = 0, full = s->length / SPAN;
    vf least = vf_set(bound);
    for (int64_t span = 0; span < full; span++)
        if (span_reaches(s, span, least))
            n += vi_collect(out->id + n, s->x + span * SPAN, least, (int32_t)(span * SPAN));
    for (int64_t i = full * SPAN; i < s->length; i++)
        if (s->x[i] >= bound) out->id[n++] = (int32_t)i;
    vf_gather(out->x, s->x, out->id, n);
    pad_values(out->x, n);
    out->n = n;
}

/* What a selection finds: the least value v such that fewer than k values are greater than v and their mass
 * is less than `target`. */
typedef struct pick {
    bool found;
    float value;
    int64_t above; /* values greater than v, and their mass */
    uint64_t mass_above;
    int64_t equal; /* values equal to v */
} pick;

AI float median3(float a, float b, float c)
{
    float low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

static float choose_pivot(const float *x, int64_t n)
{
    if (n <= 400) return median3(x[0], x[n / 2], x[n - 1]);
    return median3(median3(x[0], x[n / 8], x[n / 4]), median3(x[n / 2], x[3 * n / 8], x[5 * n / 8]),
                   median3(x[n - 1], x[3 * n / 4], x[7 * n / 8]));
}

/* The end of a selection: a handful of values, sorted. `base` values of mass `base_mass` are greater than all
 * of them; `best` is what was found above. */
static pick pick_among_few(const float *x, int n, const weights *w, int64_t k, uint64_t target, int64_t base,
                           uint64_t base_mass, pick best)
{
    float sorted[16];
    for (int i = 0; i < n; i++) {
        int j = i;
        for (; j > 0 && sorted[j - 1] < x[i]; j--) sorted[j] = sorted[j - 1];
        sorted[j] = x[i];
    }
    for (int i = 0; i < n && base < k && base_mass < target;) {
        int same = i;
        while (same < n && sorted[same] == sorted[i]) same++;
        best = (pick){true, sorted[i], base, base_mass, same - i};
        base += same - i;
        if (w) base_mass += (uint64_t)(same - i) * weight_of(w, sorted[i]);
        i = same;
    }
    return best;
}

/* Quickselect by count and mass. `slack`: any value with k - 1 + slack or fewer values above it, and at
 * least k values at or above it, will do (for bounds). w is NULL when target does not matter. */
AI pick select_of(float *const scratch[3], const float *x, int64_t n, const weights *w, int64_t k,
                  uint64_t target, int64_t slack, const bool weighted, const weight_kind kind)
{
    pick best = {false, 0, 0, 0, 0};
    int64_t base = 0; /* values known to be greater than all of x, and their mass */
    uint64_t base_mass = 0;
    float *greater = scratch[0], *less = scratch[1], *spare = scratch[2];
    bool own = false; /* x is one of the scratch buffers */
    while (n > 16) {
        float pivot = choose_pivot(x, n);
        vf p = vf_set(pivot);
        vmass sum = vmass_zero();
        uint64_t mass = 0;
        int64_t ng = 0, nl = 0;
        for (int64_t i = 0, turn = 0; i < n; i += VL) {
            vf a = vf_load(x + i);
            vm g = vm_gt(a, p), l = vm_gt(p, a);
            if (n - i < VL) {
                vm inside = vm_first((int)(n - i));
                g = vm_and(g, inside);
                l = vm_and(l, inside);
            }
            if (weighted) {
                vmass_add(&sum, vf_keep(g, weigh(a, w, kind)));
                if (++turn == 1024) { /* as many as the sum holds */
                    mass += vmass_total(&sum);
                    sum = vmass_zero();
                    turn = 0;
                }
            }
            ng += vf_compress(greater + ng, g, a);
            nl += vf_compress(less + nl, l, a);
        }
        if (weighted) mass += vmass_total(&sum);
        int64_t equal = n - ng - nl;
        float *old = own ? (float *)x : spare;
        own = true;
        if (base + ng < k && base_mass + mass < target) {
            best = (pick){true, pivot, base + ng, base_mass + mass, equal};
            base += ng + equal;
            base_mass += mass;
            if (weighted) base_mass += (uint64_t)equal * weight_of(w, pivot);
            if (slack && base >= k) return best;
            x = less;
            n = nl;
            less = old;
        } else {
            if (slack && base + ng <= k + slack) return (pick){true, pivot, base + ng, 0, equal};
            x = greater;
            n = ng;
            greater = old;
        }
    }
    return pick_among_few(x, (int)n, weighted ? w : NULL, k, target, base, base_mass, best);
}

static OUTLINE pick select_count(float *const scratch[3], const float *x, int64_t n, int64_t k, int64_t slack)
{
    return select_of(scratch, x, n, NULL, k, UINT64_MAX, slack, false, WEIGHT_FLAT);
}

AI pick select_weighted(float *const scratch[3], const float *x, int64_t n, const weights *w, int64_t k,
                        uint64_t target, const weight_kind kind)
{
    return select_of(scratch, x, n, w, k, target, 0, true, kind);
}

/* Needs x padded by VL entries. */
static OUTLINE pick select_mass(float *const scratch[3], const float *x, int64_t n, const weights *w,
                                int64_t k, uint64_t target)
{
    return BY_KIND(w, select_weighted, scratch, x, n, w, k, target);
}

/* Exact mass of a list's values >= bound. */
AI uint64_t list_mass_of(const float *x, int64_t n, float bound, const weights *w, const weight_kind kind)
{
    uint64_t mass = 0;
    for (int64_t i = 0; i < n; i += BLOCK)
        mass += mass_range(x + i, n - i < BLOCK ? n - i : BLOCK, w, bound, true, kind);
    return mass;
}

static OUTLINE uint64_t list_mass(const float *x, int64_t n, float bound, const weights *w)
{
    return BY_KIND(w, list_mass_of, x, n, bound, w);
}

/* Merges the group maxima, far ones together so that sorted rows do not fill few groups, while at least
 * `least` are left. Returns how many are left; *x holds them. What does not fill a merged row is left out. */
static int64_t merge_groups(const state *s, int64_t least, const float **x)
{
    int64_t rows = s->spans, merge = 1;
    while (rows / (2 * merge) * VL >= least && merge < 256) merge *= 2;
    int64_t left = rows / merge;
    *x = s->group;
    if (merge == 1) return rows * VL;
    float *merged = s->merged;
    for (int64_t i = 0; i < left; i++) {
        vf best = vf_load(s->group + i * VL);
        for (int64_t j = 1; j < merge; j++) best = vf_max(vf_load(s->group + (i + j * left) * VL), best);
        vf_store(merged + i * VL, best);
    }
    *x = merged;
    return left * VL;
}

/* A lower bound of the k-th greatest value: the k-th greatest of the group maxima, for at least k tokens are
 * as great as that. -inf when there are fewer than k groups. */
static float kth_bound(const state *s, int64_t k)
{
    if (s->spans * VL < k) return -LAW_INF;
    const float *x;
    int64_t n = merge_groups(s, 4 * k, &x);
    if (n < k) return -LAW_INF;
    pick p = select_count(s->scratch, x, n, k, k / 4 + 8);
    return p.found ? p.value : -LAW_INF;
}

/* A lower bound of the value at which the mass of the greater tokens reaches `target`: the same by mass, for
 * the group maxima above it are tokens. -inf when they do not weigh that much. */
static float mass_bound(const state *s, const weights *w, uint64_t target)
{
    const float *x;
    int64_t n = merge_groups(s, 512, &x);
    pick p = select_mass(s->scratch, x, n, w, INT64_MAX, target);
    bool reached = p.mass_above + (uint64_t)p.equal * weight_of(w, p.value) >= target;
    return reached ? p.value : -LAW_INF;
}
