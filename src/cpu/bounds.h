/*
 * Certified intervals for the mass of a whole row, cheaper than the exact sum.
 */

typedef struct interval {
    uint64_t low, high;
} interval;

/* How the interval is made from floats: positive errors are added outwards, and the ends are clamped. */
static interval make_interval(double low, double high)
{
    /* not 0, of which no share would keep a token */
    interval z = {low > 1 ? (uint64_t)low : 1, high < 0x1p63 ? (uint64_t)high + 1 : UINT64_MAX >> 1};
    return z;
}

AI double group_sum_of(const state *s, float below, float floor, const weights *w, int64_t *hot,
                       const weight_kind kind)
{
    vf cold = vf_set(below), least = vf_set(floor), sum = vf_set(0.0f);
    double total = 0;
    int64_t warm = 0;
    for (int64_t span = 0; span < s->spans; span++) {
        vf a = vf_load(s->group + span * VL);
        vm is_cold = vm_and(vm_gt(cold, a), vm_ge(a, least));
        warm += vm_count(vm_ge(a, cold));
        sum = vf_add(sum, vf_keep(is_cold, weigh(a, w, kind)));
        if ((span & 63) == 63) {
            total += vf_sum(sum);
            sum = vf_set(0.0f);
        }
    }
    *hot = warm;
    return total + vf_sum(sum);
}

/*
 * From the group maxima and the list alone. With H the exact mass of the list (the tokens x >= found_from),
 * and g the sum of w(maximum) over the groups whose maximum lies below the list: every such maximum is a
 * token, and the 15 others of its group weigh no more; a group that reaches into the list has at most 15
 * tokens below it, each of less weight than the list's bound. So  H + g <= Z <= H + 16 g + 15 hot w(bound).
 * g is a float sum: at most 64 additions a lane before it goes to binary64, so its relative error is below
 * 66 * 2^-24 < 2^-17; each weight in it is at most 1 above the integer.
 */
static OUTLINE interval group_interval(const state *s, float floor, const weights *w)
{
    uint64_t in_list = list_mass(s->found.x, s->found.n, floor, w);
    int64_t hot;
    double g = BY_KIND(w, group_sum_of, s, s->found_from, floor, w, &hot);
    double edge = (double)weight_of(w, s->found_from) + 1;
    double low = (double)in_list * (1 - 0x1p-52) + g * (1 - 0x1p-17) - (double)(s->spans * VL) - 1;
    double high = ((double)in_list + 16 * g * (1 + 0x1p-17) + 15.0 * (double)hot * edge) * (1 + 0x1p-40) + 1;
    interval z = make_interval(low, high);
    if (z.low < in_list) z.low = in_list;
    return z;
}

AI double float_sum_of(const state *s, float floor, const weights *w, const weight_kind kind)
{
    double total = 0;
    vf least = vf_set(floor);
    int64_t n = s->length;
    for (int64_t from = 0; from < n; from += 16 * VL) {
        if (!span_reaches(s, from / SPAN, least)) continue;
        vf sum[4];
        int64_t i = from, to = from + 16 * VL;
        for (int j = 0; j < 4; j++) sum[j] = vf_set(0.0f);
        for (; i + 4 * VL <= to && i + 4 * VL <= n; i += 4 * VL)
            for (int j = 0; j < 4; j++) {
                vf a = vf_load(s->x + i + j * VL);
                sum[j] = vf_add(sum[j], vf_keep(vm_ge(a, least), weigh(a, w, kind)));
            }
        for (; i < to && i < n; i += VL) {
            vf a = n - i >= VL ? vf_load(s->x + i) : vf_load_first(s->x + i, (int)(n - i));
            sum[0] = vf_add(sum[0], vf_keep(vm_ge(a, least), weigh(a, w, kind)));
        }
        total += vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
    }
    return total;
}

/*
 * From a float sum of the very weights: at most 8 additions in binary32 on the way of a term, then binary64.
 * Relative error < 9 * 2^-24 < 2^-20; rounding down to integers takes less than 1 from each token.
 */
static OUTLINE interval float_interval(const state *s, float floor, const weights *w)
{
    double z = BY_KIND(w, float_sum_of, s, floor, w);
    return make_interval(z * (1 - 0x1p-20) - (double)s->length - 1, z * (1 + 0x1p-20) + 1);
}
