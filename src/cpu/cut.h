/*
 * A kept set as a cut of the order (docs/law.md, section 2): the tokens with x >= value before index
 * `split`, and those with x >= above from there on. `above` is the next value up, so the tokens equal to
 * `value` stay where their index is less than `split` and fall from there on.
 */

typedef struct cut {
    float value, above;
    int64_t split;
} cut;

/* The next float up; NaN past +inf, which no value reaches. */
static float next_up(float x)
{
    if (!(x < LAW_INF)) return law_float(LAW_NAN_BITS);
    return law_key_value(law_key(x) + 1);
}

/* All tokens from a value up, ties included. */
static cut cut_at(float value)
{
    return (cut){value, next_up(value), INT64_MAX};
}

AI bool cut_keeps(const cut *c, float x, int64_t index)
{
    return x >= (index < c->split ? c->value : c->above);
}

/* The smaller of two kept sets. */
static cut cut_tighter(cut a, cut b)
{
    if (law_isnan(a.value)) return a;
    if (law_isnan(b.value)) return b;
    if (a.value != b.value) return a.value > b.value ? a : b;
    return a.split < b.split ? a : b;
}
