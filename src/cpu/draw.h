/*
 * Drawing by inverse transform (docs/law.md, section 5): block sums first, then only inside the block that
 * holds u. The early stop is the first algorithm of the article "Sorting-Free GPU Kernels for LLM Sampling".
 */

#define LIST_BLOCK 128 /* list entries whose mass is kept together */

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
    int64_t turn = cut_turn(&s->cut, from, to);
    int64_t at = find_token(s->x + from, turn - from, &s->final, s->cut.value, u, &prefix);
    if (at >= 0) return (int32_t)(from + at);
    return (int32_t)(turn + find_token(s->x + turn, to - turn, &s->final, s->cut.above, u, &prefix));
}
