/*
 * One row of a call on the device: indirections followed, parameters picked from their slot (as
 * src/call/row.c does on the host), what a first pass learns of the row, and the weight of its tokens.
 */
#ifndef TB_CUDA_ROW_CUH
#define TB_CUDA_ROW_CUH

#include "../../law/logprob.h"
#include "../../law/mass.h"
#include "../../law/philox.h"
#include "../../law/weight.h"
#include "../params.h"
#include "primitives.cuh"

/* ---- parameters ---- */

typedef struct tb_gpu_step {
    int32_t kind, k;
    float value;
} tb_gpu_step;

typedef struct tb_gpu_row {
    const char *data;      /* first element */
    int64_t source_offset; /* of that element in call.data */
    uint64_t seed, offset;
    uint32_t length;
    uint32_t stream;
    int32_t slot; /* -1: out of range */
    bool good;    /* false: the row is BAD_PARAM. `length` then says how much of it is written */
    bool placed;  /* false: its data are not known; only with good = false */
    tb_gpu_step steps[TOMBOLA_MAX_STEPS];
} tb_gpu_row;

/* The slot of an output row, -1 when it is out of range. */
TB_DEV int64_t tb_gpu_slot(const tombola_call &call, int64_t index)
{
    if (!call.slot_index) return call.slot_count == 1 ? 0 : index;
    int64_t slot = call.slot_index[index];
    return slot >= 0 && slot < call.slot_count ? slot : -1;
}

/* Start and length of an output row; false when they, or the row index, are out of range. *length is set all
 * the same where it is known (else 0), so that outputs of a bad row can be cleared. */
TB_DEV bool tb_gpu_locate(const tombola_call &call, int64_t index, int64_t *start, int64_t *length)
{
    *start = 0;
    *length = call.row_length ? 0 : call.vocab_size;
    int64_t source = call.row_index ? call.row_index[index] : index;
    if (source < 0 || source >= call.source_rows) return false;
    int64_t first = call.row_start ? call.row_start[source] : source * call.row_stride;
    int64_t count = call.row_length ? call.row_length[source] : call.vocab_size;
    if (count < 0 || count > call.vocab_size) return false;
    *length = count;
    if (first < 0) return false;
    if (call.data_size > 0 && (first > call.data_size || count > call.data_size - first)) return false;
    *start = first;
    return true;
}

/* Fills *row (shared memory) by the block's first warp. Whole warps must call; a barrier must follow. */
TB_DEV void tb_gpu_resolve(const tb_cuda_params &params, int64_t index, tb_gpu_row *row)
{
    const tombola_call &call = params.call;
    if (tb_warp() != 0) return;
    int64_t start, length;
    bool located = tb_gpu_locate(call, index, &start, &length);
    int64_t slot = tb_gpu_slot(call, index);
    bool bad = !located || slot < 0;
    int lane = (int)tb_lane();
    if (!bad && lane < params.checked_steps) {
        const tombola_step &step = params.steps[lane];
        tb_gpu_step out;
        out.kind = step.kind;
        out.k = step.k_per_slot ? step.k_per_slot[slot] : step.k;
        out.value = step.value_per_slot ? step.value_per_slot[slot] : step.value;
        if (step.kind != TOMBOLA_TOP_K) { /* of top_k the value is not a parameter */
            if (law_isnan(out.value)) bad = true;
            if (step.kind == TOMBOLA_TEMPERATURE && out.value < 0.0f) bad = true;
        }
        row->steps[lane] = out;
    }
    bad = __any_sync(TB_WHOLE_WARP, bad);
    if (lane) return;
    row->data = (const char *)call.data + (size_t)start * (call.dtype == TOMBOLA_F32 ? 4 : 2);
    row->source_offset = start;
    row->length = (uint32_t)length;
    row->slot = (int32_t)slot;
    row->good = !bad;
    row->placed = located;
    row->seed = row->offset = 0;
    row->stream = 0;
    if (slot < 0) return;
    row->seed = call.seeds ? call.seeds[slot] : call.seed;
    row->offset = call.offsets ? call.offsets[slot] : call.offset;
    row->stream = call.streams ? call.streams[index] : call.seeds ? 0u : (uint32_t)index;
}

/* Where a call with advance_offsets keeps each row's next offset until the kernel tombola_advance stores
 * them. */
TB_DEV uint64_t *tb_next_offsets(const tb_cuda_params &params)
{
    return (uint64_t *)params.workspace;
}

/* The 64 random bits of a draw of method EXACT. */
TB_DEV uint64_t tb_gpu_random(const tombola_call &call, const tb_gpu_row *row, int64_t index, uint32_t draw)
{
    if (call.random) return call.random[index * call.draws + draw];
    return law_random(row->seed, row->offset, row->stream, LAW_PURPOSE_DRAW, draw, 0);
}

TB_DEV bool tb_gpu_draws(const tombola_call &call)
{
    return call.tokens || call.rounds || call.logprobs || call.raw_logprobs || call.ranks;
}

/* ---- places in the order ----
 *
 * A token's place is one integer, key(x) << 22 | (2^22 - 1 - index): greater tokens have greater places, the
 * lower index first among equals. A set that a chain keeps is { place >= floor } for some floor; with
 * TIES_ALL the low 22 bits of the floor are 0.
 */

#define TB_PLACE_LOW ((1u << LAW_INDEX_BITS) - 1)
#define TB_KEY_POS_INF 0xff800000u
#define TB_KEY_LEAST_LOGIT 0x00800000u       /* key(-FLT_MAX): K0 of logits */
#define TB_KEY_LEAST_PROBABILITY 0x80000001u /* key of the least positive f32: K0 of probabilities */

TB_DEV uint64_t tb_place(uint32_t key, uint32_t index)
{
    return (uint64_t)key << LAW_INDEX_BITS | (TB_PLACE_LOW - index);
}

TB_DEV uint64_t tb_floor_of_key(uint32_t key)
{
    return (uint64_t)key << LAW_INDEX_BITS;
}

TB_DEV uint32_t tb_place_key(uint64_t place)
{
    return (uint32_t)(place >> LAW_INDEX_BITS);
}

TB_DEV uint32_t tb_place_index(uint64_t place)
{
    return TB_PLACE_LOW - ((uint32_t)place & TB_PLACE_LOW);
}

/* ---- weights ----
 *
 * The law's numbers, in operations that a GPU does at full rate: no conversions between floats and integers.
 * A token's value relative to the greatest is r: E(t) for logits, x * 2^-e for probabilities; 0 <= r < 2, and
 * the weight is floor(r * 2^40).
 */

typedef struct tb_weigher {
    float maximum; /* of K0 */
    float scale;   /* logits: of the temperature in force; probabilities: 2^-e = scale * scale2 */
    float scale2;
    bool flat; /* every token weighs 2^40 */
    bool probabilities;
    bool plain; /* logits, not flat */
} tb_weigher;

/* A row's weigher at temperature 1. */
TB_DEV tb_weigher tb_make_weigher(bool probabilities, float maximum)
{
    bool flat = maximum == LAW_INF;
    tb_weigher w = {maximum, 1.0f, 1.0f, flat, probabilities, !flat && !probabilities};
    if (probabilities) {
        /* two powers of two, each in range; x * scale * scale2 is exact wherever it is at least 2^-40 */
        int32_t power = flat ? 0 : -law_floor_log2(maximum > 0.0f ? maximum : 1.0f);
        int32_t first = power < -100 ? -100 : power > 100 ? 100 : power;
        w.scale = law_float((uint32_t)(first + 127) << 23);
        w.scale2 = law_float((uint32_t)(power - first + 127) << 23);
    } else if (!flat) {
        w.scale = LAW_LOG2E; /* divided by 1 */
    }
    return w;
}

/* Sets the temperature of a row of logits; false when it is greedy (and the weigher then flat). */
TB_DEV bool tb_set_temperature(tb_weigher *w, float temperature)
{
    law_temper temper = law_temperature(temperature);
    w->flat = w->maximum == LAW_INF || temper.mode != LAW_SCALED;
    w->plain = !w->flat;
    w->scale = w->flat ? 1.0f : temper.scale;
    return temper.mode != LAW_GREEDY;
}

/* t of a logit of K0. */
TB_DEV float tb_exponent(const tb_weigher &w, float x)
{
    return w.flat ? 0.0f : law_exponent(x, w.maximum, w.scale);
}

/* E(t), but for t < -64 (and NaN) E(-64), whose weight is 0 too. */
TB_DEV float tb_exp2(float t)
{
#ifdef __CUDA_ARCH__
    t = fmaxf(t, LAW_T_MIN);
    float shifted = __fadd_rn(t, 0x1.8p23f), n = __fsub_rn(shifted, 0x1.8p23f), f = __fsub_rn(t, n);
    f = __fsub_rn(__fadd_rn(f, 1.5f), 1.5f);
    float q = LAW_C5;
    q = __fmaf_rn(q, f, LAW_C4);
    q = __fmaf_rn(q, f, LAW_C3);
    q = __fmaf_rn(q, f, LAW_C2);
    q = __fmaf_rn(q, f, LAW_C1);
    q = __fmaf_rn(q, f, 1.0f);
    return law_float(law_bits(q) + (law_bits(shifted) << 23)); /* the low bits of `shifted` are n */
#else
    return law_exp2(t >= LAW_T_MIN ? t : LAW_T_MIN);
#endif
}

/* r of a token of K0 of a plain row, and of any row; anything for other values. */
TB_DEV float tb_ratio_plain(const tb_weigher &w, float x)
{
    return tb_exp2(law_exponent(x, w.maximum, w.scale));
}

TB_DEV float tb_ratio(const tb_weigher &w, float x)
{
    if (w.plain) return tb_ratio_plain(w, x);
    return w.flat ? 1.0f : x * w.scale * w.scale2;
}

/* floor(r * 2^40) = high * 2^20 + low, for 0 <= r < 2: sums rounded towards zero leave the wanted bits at the
 * end of the significand. The results carry constant biases, to be taken off once for a whole sum. */
#define TB_HIGH_BIAS 0x41000000u /* bits of 8 */
#define TB_LOW_BIAS 0x37000000u  /* bits of 2^-17 */

TB_DEV void tb_split_ratio(float r, uint32_t *high, uint32_t *low)
{
#ifdef __CUDA_ARCH__
    float top = __fadd_rz(r, 8.0f), rest = __fsub_rn(r, __fsub_rn(top, 8.0f));
    *high = law_bits(top);
    *low = law_bits(__fadd_rz(rest, 0x1p-17f));
#else
    uint64_t w = (uint64_t)(r * LAW_ONE_F);
    *high = (uint32_t)(w >> 20) + TB_HIGH_BIAS;
    *low = ((uint32_t)w & 0xfffffu) + TB_LOW_BIAS;
#endif
}

TB_DEV uint64_t tb_join_sums(uint32_t high, uint32_t low)
{
    return ((uint64_t)high << 20) + low;
}

TB_DEV uint64_t tb_weight_of_ratio(float r)
{
    uint32_t high, low;
    tb_split_ratio(r, &high, &low);
    return tb_join_sums(high - TB_HIGH_BIAS, low - TB_LOW_BIAS);
}

/* The weight of a token of K0. */
TB_DEV uint64_t tb_weight(const tb_weigher &w, float x)
{
    return tb_weight_of_ratio(tb_ratio(w, x));
}

/* Log-probability of a token of K0 under a kept mass. */
TB_DEV float tb_logprob(const tb_weigher &w, float x, uint64_t mass)
{
    if (w.probabilities) return law_probability_logprob(tb_weight(w, x), mass);
    return law_logprob(tb_exponent(w, x), mass);
}

/* Renormalised probability of a token of K0 from its r; `scale` is tb_renorm_scale of the kept mass. */
TB_DEV float tb_renorm_scale(const tb_weigher &w, uint64_t mass)
{
    return w.probabilities ? law_probability_renorm_scale(mass) : law_renorm_scale(mass);
}

TB_DEV float tb_renormalised(bool probabilities, float r, float scale)
{
    /* of probabilities the weight itself is scaled: an f32 of 24 bits, its fraction cut off */
    if (probabilities) return truncf(r * LAW_ONE_F) * scale;
    return r * LAW_ONE_F >= 1.0f ? r * scale : 0.0f;
}

/* ---- what a first pass learns of a row ---- */

typedef struct tb_facts {
    uint32_t status;   /* TOMBOLA_ROW_ bits that the values set, EMPTY included */
    uint32_t all;      /* tokens of K0 */
    uint32_t greatest; /* key of the greatest of K0; 0 when K0 is empty */
    uint32_t least;    /* key of the least of K0 */
} tb_facts;

/* A value outside K0 that sets no status bit: what tb_load_piece fills with. */
TB_DEV float tb_fill(bool probabilities)
{
    return probabilities ? 0.0f : -LAW_INF;
}

/* The floor of K0. */
TB_DEV uint64_t tb_floor_of_all(const tb_facts &facts, bool probabilities)
{
    uint32_t key = probabilities ? TB_KEY_LEAST_PROBABILITY : TB_KEY_LEAST_LOGIT;
    return tb_floor_of_key(facts.greatest == TB_KEY_POS_INF ? TB_KEY_POS_INF : key);
}

#endif
