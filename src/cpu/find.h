/*
 * Finding the element that holds a position of the mass.
 */

/* Index in x of the first element, with x >= bound, whose inclusive prefix mass, from `prefix` on, exceeds u;
 * -1 when there is none. *prefix moves on past what was seen. */
AI int64_t find_of(const float *x, int64_t n, const weights *w, float bound, uint64_t u, uint64_t *prefix,
                   const weight_kind kind)
{
    vf least = vf_set(bound);
    for (int64_t i = 0; i < n; i += VL) {
        vf a = n - i >= VL ? vf_load(x + i) : vf_load_first(x + i, (int)(n - i));
        vf f = vf_keep(vm_ge(a, least), weigh(a, w, kind));
        vmass sum = vmass_zero();
        vmass_add(&sum, f);
        uint64_t mass = vmass_total(&sum);
        if (*prefix + mass > u) {
            float lane[VL];
            vf_store(lane, f);
            for (int j = 0; j < VL; j++) {
                *prefix += (uint64_t)lane[j];
                if (*prefix > u) return i + j;
            }
        }
        *prefix += mass;
    }
    return -1;
}

static OUTLINE int64_t find_token(const float *x, int64_t n, const weights *w, float bound, uint64_t u,
                                  uint64_t *prefix)
{
    return BY_KIND(w, find_of, x, n, w, bound, u, prefix);
}
