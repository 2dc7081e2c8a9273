/*
 * Float sums that decide, with a certified error: the mass of the tail.
 *
 * The tokens of a list (the greatest ones) are weighed exactly; of all others only a float sum is known,
 * S = sum of 2^t~ over the row by blocks, less the same floats of the list's tokens. With tau = (x - m) * s
 * the real exponent (m the maximum, s the scale) and o = fl(-r s), r the sums' reference:
 *
 *   t~ = fma(x, s, o) is one rounding of tau + D, D = m s + o:  |t~ - tau - D| <= 2^-24 (|tau| + |D|)
 *   the law's t has two roundings of tau:                       |t - tau|      <= 2^-23 |tau| (1 + 2^-24)
 *   2^t~ is computed within ROUGH_POLYNOMIAL, W within 2^-22 and one unit (docs/law.md)
 *   so a tail token's weight is 2^40 * 2^(t~ - D) within a relative error of
 *       ROUGH_POLYNOMIAL + 2^-22 + ln 2 * 2^-24 * (3 |tau| + |D|)  (and second-order terms), and one unit.
 *
 * The exponents stay small where that matters (|tau| <= 41, |D| <= 64), so second-order terms are below 1 %.
 * Where fl(x - m) overflows, the law's weight is 0; with s >= ROUGH_SCALE the sums' is too, since then tau <
 * -2^7.
 *
 * Summed over the tail, of mass T: the weighted mean of |tau| is at most 41 (beyond it W = 0, and the float
 * sum is off by less than a unit a token), and sum w |tau| <= Z log2(V / (Z / w(m))) <= Z * 22, because the
 * entropy of V tokens is at most log2 V. A term goes through at most GROUP / 4 + 1 + BLOCK / SPAN additions
 * in binary32 (its lane of a span, the span's four lanes, the block's spans); their error is below
 * ROUGH_ADDITIONS of S, head included. The prefix sums share these bounds: they are parts of the same sum of
 * absolute errors.
 */

#define ROUGH_SCALE 0x1p-120f
#define ROUGH_ADDITIONS ((GROUP / 4 + 1 + BLOCK / SPAN + 1) * 0x1p-24)
#define ROUGH_POLYNOMIAL 3e-6 /* on [0, 1] and [-1/2, 1/2]: tests/law/test_rough.c */

/* Takes the sums in a pass of their own. */
static OUTLINE void rough_pass(state *s, float scale)
{
    s->rough.scale = scale;
    s->rough.reference = s->maximum;
    vf by = vf_set(scale), offset = vf_set(-s->maximum * scale);
    for (int64_t from = 0; from < s->length; from += BLOCK) {
        int64_t to = from + BLOCK < s->length ? from + BLOCK : s->length, i = from;
        vf total = vf_set(0.0f);
        for (; i + SPAN <= to; i += SPAN) {
            vf sum[4];
            for (int j = 0; j < 4; j++) sum[j] = vf_set(0.0f);
            for (int v = 0; v < GROUP; v += 4) {
                vf a[4];
                for (int j = 0; j < 4; j++) a[j] = vf_load(s->x + i + (v + j) * VL);
                rough_add(a, sum, 4, by, offset);
            }
            total = vf_add(total, vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
        }
        double rest = 0;
        for (; i < to; i += VL) {
            vf a = to - i >= VL ? vf_load(s->x + i) : vf_load_first(s->x + i, (int)(to - i));
            vf f = vf_set(0.0f);
            rough_add(&a, &f, 1, by, offset);
            rest += vf_sum(f);
        }
        s->rough.block[from / BLOCK] = vf_sum(total) + rest;
    }
    s->rough.ready = !(s->status & TOMBOLA_ROW_NAN);
}

/* The float that the sums hold for each value of a list, added up for entries [from, to). */
static double rough_list_sum(const state *s, const list *l, int64_t from, int64_t to)
{
    vf scale = vf_set(s->rough.scale), offset = vf_set(-s->rough.reference * s->rough.scale);
    double total = 0;
    for (int64_t i = from; i < to; i += VL) {
        vf a = to - i >= VL ? vf_load(l->x + i) : vf_load_first(l->x + i, (int)(to - i));
        vf f = vf_set(0.0f);
        rough_add(&a, &f, 1, scale, offset);
        if (to - i < VL) f = vf_keep(vm_first((int)(to - i)), f);
        total += vf_sum(f);
    }
    return total;
}

/* The tail's mass, and how far every sum over part of it can be off. Units of weight. */
typedef struct tail {
    double unit; /* weight of 2^t~ = 1 */
    double mass, error;
} tail;

static tail measure_tail(const state *s)
{
    double distance = rough_distance(s), sum = 0;
    int64_t blocks = (s->length + BLOCK - 1) / BLOCK;
    for (int64_t b = 0; b < blocks; b++) sum += s->rough.block[b];
    double rest = sum - rough_list_sum(s, &s->found, 0, s->found.n);
    if (rest < 0) rest = 0;
    tail t = {.unit = 0x1p40 * exp2(-distance)};
    t.mass = rest * t.unit;
    double mean = 41 * rest < 22 * sum ? 41 * rest : 22 * sum; /* bounds sum w |tau| */
    double relative =
        (ROUGH_POLYNOMIAL + 0x1p-22) * rest + 0.6932 * 0x1p-24 * (3 * mean + fabs(distance) * rest);
    t.error = (1.01 * relative + ROUGH_ADDITIONS * sum) * t.unit + 2 * (double)s->length + 2;
    return t;
}

/* An upper bound of Z without a list: all of the row is tail. */
static uint64_t rough_total_above(state *s)
{
    s->found.n = 0;
    tail t = measure_tail(s);
    return make_interval(0, t.mass + t.error).high;
}

/* Z of the whole row, from the list's exact mass and the tail. */
static interval rough_interval(const state *s, const weights *w)
{
    double head = (double)list_mass(s->found.x, s->found.n, s->found_from, w);
    tail t = measure_tail(s);
    return make_interval(head * (1 - 0x1p-52) + t.mass - t.error, head * (1 + 0x1p-52) + t.mass + t.error);
}

/* Element-wise end of rough_draw: the token of a block that holds position q, when the block's prefix is
 * `at`; -1 when the block's own mass does not reach it. */
static int32_t token_in_block(const state *s, int64_t b, double at, double q, const weights *w)
{
    if (q < at) return -1;
    int64_t from = b * BLOCK, n = s->length - from < BLOCK ? s->length - from : BLOCK;
    uint64_t prefix = 0;
    int64_t i = find_token(s->x + from, n, w, w->bottom, (uint64_t)(q - at), &prefix);
    return i < 0 ? -1 : (int32_t)(from + i);
}

/*
 * Draws from the whole row without its exact sums: the position is known within an interval, and so is every
 * block's prefix. A token whose share, by exact weights inside its block, covers the whole of both is the
 * law's; -1 when none does.
 */
static int32_t rough_draw(const state *s, const tail *t, uint64_t random, const weights *w)
{
    const list *l = &s->found;
    interval z = rough_interval(s, w);
    double low = (double)law_draw_position(random, z.low) * (1 - 0x1p-52) - t->error;
    double high = (double)law_draw_position(random, z.high) * (1 + 0x1p-52) + t->error + 1;
    int64_t blocks = (s->length + BLOCK - 1) / BLOCK, next = 0;
    double at = 0;
    for (int64_t b = 0; b < blocks; b++) {
        int64_t first = next;
        while (next < l->n && l->id[next] < (b + 1) * BLOCK) next++;
        double mass = (s->rough.block[b] - rough_list_sum(s, l, first, next)) * t->unit;
        if (next > first) mass += (double)list_mass(l->x + first, next - first, w->bottom, w);
        if (low < at + mass) {
            int32_t token = token_in_block(s, b, at, low, w);
            return token >= 0 && token == token_in_block(s, b, at, high, w) ? token : -1;
        }
        at += mass;
    }
    return -1;
}
