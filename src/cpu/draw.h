/*
 * Drawing by inverse transform (docs/law.md, section 5): block sums first, then only inside the block that
 * holds u. The early stop is the first algorithm of the article "Sorting-Free GPU Kernels for LLM Sampling".
 */

#define LIST_BLOCK 128 /* list entries whose mass is kept together */

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

/* Sums the masses of the final set by blocks and sets s->kept_mass. */
static void prepare_draws(state *s)
{
    if (s->in_list) {
        s->kept_mass = 0;
        for (int64_t i = 0, b = 0; i < s->kept.n; i += LIST_BLOCK, b++) {
            int64_t n = s->kept.n - i < LIST_BLOCK ? s->kept.n - i : LIST_BLOCK;
            s->block[b] = list_mass(s->kept.x + i, n, s->final.bottom, &s->final);
            s->kept_mass += s->block[b];
        }
        return;
    }
    int64_t blocks = (s->length + BLOCK - 1) / BLOCK;
    if (!s->blocks_ready) mass_blocks(s, &s->cut, &s->final, s->block);
    s->kept_mass = 0;
    for (int64_t b = 0; b < blocks; b++) s->kept_mass += s->block[b];
    s->blocks_ready = true;
}

/* The token at position u of the final set's mass, after prepare_draws. */
static int32_t draw_token(const state *s, uint64_t u)
{
    uint64_t prefix = 0;
    int64_t b = 0;
    while (prefix + s->block[b] <= u) prefix += s->block[b++];
    if (s->in_list) {
        int64_t from = b * LIST_BLOCK, n = s->kept.n - from < LIST_BLOCK ? s->kept.n - from : LIST_BLOCK;
        return s->kept.id[from + find_token(s->kept.x + from, n, &s->final, s->final.bottom, u, &prefix)];
    }
    int64_t from = b * BLOCK, to = from + BLOCK < s->length ? from + BLOCK : s->length;
    int64_t turn = s->cut.split < from ? from : s->cut.split < to ? s->cut.split : to;
    int64_t at = find_token(s->x + from, turn - from, &s->final, s->cut.value, u, &prefix);
    if (at >= 0) return (int32_t)(from + at);
    return (int32_t)(turn + find_token(s->x + turn, to - turn, &s->final, s->cut.above, u, &prefix));
}
