/*
 * The state of one row under way, and its workspace.
 */

#define HEAD 96           /* how many of the greatest tokens, about, are tried first for a top_p, */
#define HEAD_DRAW 32      /* and weighed exactly for a draw from the whole row */
#define GROUP 16          /* vectors in a group row: each lane's maximum over them is kept */
#define SPAN (GROUP * VL) /* elements covered by one vector of group maxima */
#define BLOCK 1024        /* elements whose exact mass is kept together */
#define LIST_PAD 64       /* list entries that a vector store may touch past the end */

typedef struct list {
    float *x;    /* values */
    int32_t *id; /* ascending */
    int64_t n;
} list;

/* Float sums of 2^t~ by blocks, t~ = (x - reference) * scale (rough.h). */
typedef struct rough {
    bool ready;
    float reference, scale;
    double *block; /* [blocks + 1] */
    double probed; /* sum of 2^t~ over the PROBES elements looked at first; 0: none were */
} rough;

typedef struct state {
    const tombola_call *call;
    const tb_row *row;
    const float *x; /* the row in f32 */
    int64_t length;
    float maximum;
    uint32_t status;
    bool infinite;    /* +inf entries */
    int32_t exponent; /* probabilities: e */
    float *group;     /* [spans * VL] maxima of groups of 16 elements */
    float *merged;    /* [spans * VL] scratch of bounds */
    int64_t spans;
    list found;       /* tokens >= found_from, in index order */
    float found_from; /* NaN: no list */
    list kept;        /* the final set as a list, when in_list */
    bool in_list;
    cut cut;       /* the final set */
    weights final; /* weights at the end of the chain */
    rough rough;
    float *scratch[3];  /* [length + pad] each */
    uint64_t *block;    /* [blocks + 1] exact masses of the final set */
    int64_t *block_at;  /* [blocks + 1] */
    int32_t *tie_count; /* [2 * (blocks + 1)] */
    int32_t *tokens, *rounds;
    bool blocks_ready;
    uint64_t kept_mass;
    int64_t kept_count;
} state;

static float bottom_value(const state *s)
{
    if (s->infinite) return LAW_INF;
    return s->call->kind == TOMBOLA_PROBABILITIES ? 0x1p-149f : -0x1.fffffep127f;
}

/* The row's weights at a temperature. */
static weights make_weights(const state *s, law_temper temper)
{
    weights w = {.kind = WEIGHT_FLAT, .maximum = s->maximum, .bottom = bottom_value(s)};
    if (s->infinite || temper.mode != LAW_SCALED) return w;
    if (s->call->kind == TOMBOLA_LOGITS) {
        w.kind = WEIGHT_LOGITS;
        w.scale = temper.scale;
        return w;
    }
    w.kind = WEIGHT_PROBABILITIES;
    int32_t power = 40 - s->exponent, half = power / 2;
    w.up = law_float((uint32_t)(half + 127) << 23);
    w.up2 = law_float((uint32_t)(power - half + 127) << 23);
    return w;
}
