/*
 * One row of a call as a backend sees it: indirections followed, parameters picked from their slot.
 * Host code, shared by the cpu and reference backends. The call was validated and its defaults filled in
 * by src/api before it comes here.
 */
#ifndef TB_CALL_ROW_H
#define TB_CALL_ROW_H

#include <tombola.h>

#include "../law/base.h"
#include "../law/convert.h"

typedef struct tb_step {
    int32_t kind; /* tombola_step_kind */
    int32_t k;
    float value;
} tb_step;

typedef struct tb_row {
    int64_t index;         /* output row */
    const void *data;      /* its first element */
    int64_t length;        /* elements */
    int64_t source_offset; /* of its first element in call->data */
    int32_t step_count;
    tb_step steps[TOMBOLA_MAX_STEPS];
    uint64_t seed, offset;
    uint32_t stream;
} tb_row;

/* Fills *row; false when the row is BAD_PARAM. */
bool tb_row_resolve(const tombola_call *call, int64_t index, tb_row *row);

/* Writes every output of a row that has no token: status EMPTY or BAD_PARAM. */
void tb_row_write_void(const tombola_call *call, int64_t index, uint32_t status);

/* The slot of an output row, -1 when it is out of range. */
int64_t tb_row_slot(const tombola_call *call, int64_t index);

/* Where a row's masked logits go: the output row, or its own place in the source. */
void *tb_row_masked(const tombola_call *call, int64_t index, int64_t source_offset);

/* True when the call asks for anything that needs a drawn token. */
bool tb_call_draws(const tombola_call *call);

/* The 64 random bits of draw number `draw` of method EXACT. */
uint64_t tb_row_random(const tombola_call *call, const tb_row *row, int32_t draw);

/* Device-side advance (host version): raises the offset of every slot that a row names by one. `saved`
 * has room for one u64 per row, so that a slot named twice is raised once. */
void tb_advance_offsets(const tombola_call *call, uint64_t *saved);

static inline size_t tb_dtype_size(int32_t dtype)
{
    return dtype == TOMBOLA_F32 ? 4 : 2;
}

/* Element i of a row, widened. */
static inline float tb_row_value(const void *data, int32_t dtype, int64_t i)
{
    if (dtype == TOMBOLA_F32) {
        float x;
        __builtin_memcpy(&x, (const char *)data + 4 * i, sizeof x);
        return x;
    }
    uint16_t bits;
    __builtin_memcpy(&bits, (const char *)data + 2 * i, sizeof bits);
    return dtype == TOMBOLA_F16 ? law_f16_value(bits) : law_bf16_value(bits);
}

/* Sets element i of masked logits: the source's bits where kept, -inf elsewhere. */
static inline void tb_mask_value(void *out, const void *data, int32_t dtype, int64_t i, bool kept)
{
    size_t size = tb_dtype_size(dtype);
    char *to = (char *)out + size * (size_t)i;
    if (kept) {
        __builtin_memmove(to, (const char *)data + size * (size_t)i, size);
    } else if (dtype == TOMBOLA_F32) {
        float infinite = -LAW_INF;
        __builtin_memcpy(to, &infinite, 4);
    } else {
        uint16_t bits = dtype == TOMBOLA_F16 ? 0xfc00 : 0xff80;
        __builtin_memcpy(to, &bits, 2);
    }
}

#endif
