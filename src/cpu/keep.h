/*
 * From a place in the list to the kept list, and small questions to lists and groups.
 */

/* True when a list of the tokens >= bound is worth making: at most seven eighths of the groups reach it,
 * which in an unordered row means an eighth of the tokens. Short rows always are. */
static bool few_reach(const state *s, float bound)
{
    int64_t groups = s->spans * VL, hot = 0;
    if (s->length <= 2048) return true;
    vf least = vf_set(bound);
    for (int64_t span = 0; span < s->spans; span++)
        hot += vm_count(vm_ge(vf_load(s->group + span * VL), least));
    return hot <= groups / 8 * 7;
}

static int64_t count_equal(const list *l, float value)
{
    int64_t n = 0;
    vf same = vf_set(value);
    for (int64_t i = 0; i < l->n; i += VL) {
        vm m = vm_eq(vf_load(l->x + i), same);
        if (l->n - i < VL) m = vm_and(m, vm_first((int)(l->n - i)));
        n += vm_count(m);
    }
    return n;
}

/* Copies the list's tokens greater than value, and the first `ties` that equal it, to s->kept. */
static OUTLINE void keep_values(state *s, float value, int64_t ties)
{
    const list *from = &s->found;
    list *to = &s->kept;
    int64_t n = 0;
    vf least = vf_set(value);
    for (int64_t i = 0; i < from->n; i += VL) {
        vf a = vf_load(from->x + i);
        vm m = vm_ge(a, least);
        if (from->n - i < VL) m = vm_and(m, vm_first((int)(from->n - i)));
        vi_pack(to->id + n, m, from->id + i);
        n += vf_compress(to->x + n, m, a);
    }
    s->cut = cut_at(value);
    if (count_equal(&(list){to->x, to->id, n}, value) > ties) {
        int64_t all = n;
        n = 0;
        for (int64_t i = 0; i < all; i++) { /* leaves out the ties past the first ones */
            if (to->x[i] == value && ties-- <= 0) {
                if (s->cut.split == INT64_MAX) s->cut.split = to->id[i];
                continue;
            }
            to->x[n] = to->x[i];
            to->id[n++] = to->id[i];
        }
    }
    pad_values(to->x, n);
    to->n = n;
    s->in_list = true;
}
