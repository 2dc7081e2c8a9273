#include "validate.h"

#include <string.h>

#include "../call/row.h"
#include "error.h"

#define REFUSE(argument, ...) return tb_fail(error, TOMBOLA_ERROR_INVALID_ARGUMENT, argument, __VA_ARGS__)

/* True when element (rows - 1, width - 1) of an array with this stride has an offset in bytes that does not
 * fit. */
static bool too_far(int64_t rows, int64_t stride, int64_t width)
{
    return rows > 1 && stride > (INT64_MAX / 16 - width) / (rows - 1);
}

static tombola_result check_source(tombola_call *c, tombola_error *error)
{
    if (c->kind != TOMBOLA_LOGITS && c->kind != TOMBOLA_PROBABILITIES)
        REFUSE("kind", "kind is %d; it must be TOMBOLA_LOGITS or TOMBOLA_PROBABILITIES", c->kind);
    if (c->dtype < TOMBOLA_F32 || c->dtype > TOMBOLA_BF16)
        REFUSE("dtype", "dtype is %d; it must be TOMBOLA_F32, TOMBOLA_F16 or TOMBOLA_BF16", c->dtype);
    if (c->rows < 0 || c->rows > INT32_MAX)
        REFUSE("rows", "rows is %lld; it must be 0 to 2^31 - 1", (long long)c->rows);
    if (c->vocab_size < 1 || c->vocab_size > TOMBOLA_MAX_VOCAB_SIZE)
        REFUSE("vocab_size", "vocab_size is %lld; it must be 1 to %d", (long long)c->vocab_size,
               TOMBOLA_MAX_VOCAB_SIZE);
    if (c->row_stride == 0) c->row_stride = c->vocab_size;
    if (c->row_stride < c->vocab_size)
        REFUSE("row_stride", "row_stride is %lld elements, less than vocab_size %lld",
               (long long)c->row_stride, (long long)c->vocab_size);
    if (c->source_rows == 0) c->source_rows = c->rows;
    if (c->source_rows < 0 || c->source_rows > INT32_MAX)
        REFUSE("source_rows", "source_rows is %lld; it must be 0 to 2^31 - 1", (long long)c->source_rows);
    if (!c->row_index && c->source_rows < c->rows)
        REFUSE("source_rows", "source_rows is %lld, less than rows %lld, and there is no row_index",
               (long long)c->source_rows, (long long)c->rows);
    if (too_far(c->source_rows, c->row_stride, c->vocab_size))
        REFUSE("row_stride", "row_stride is %lld elements: %lld rows of it have no address",
               (long long)c->row_stride, (long long)c->source_rows);
    if (c->data_size < 0)
        REFUSE("data_size", "data_size is %lld; it must not be negative", (long long)c->data_size);
    bool dense = !c->row_start && !c->row_length;
    if (dense && c->data_size > 0 && c->source_rows > 0 &&
        (c->data_size < c->vocab_size || (c->data_size - c->vocab_size) / c->row_stride < c->source_rows - 1))
        REFUSE("data_size", "data_size is %lld elements, too few for %lld rows of %lld with stride %lld",
               (long long)c->data_size, (long long)c->source_rows, (long long)c->vocab_size,
               (long long)c->row_stride);
    if (c->slot_count == 0) c->slot_count = c->rows;
    if (c->slot_count < 0)
        REFUSE("slot_count", "slot_count is %lld; it must not be negative", (long long)c->slot_count);
    if (!c->slot_index && c->slot_count != 1 && c->slot_count < c->rows)
        REFUSE("slot_count", "slot_count is %lld, less than rows %lld, and there is no slot_index",
               (long long)c->slot_count, (long long)c->rows);
    if (c->adjust) REFUSE("adjust", "adjust must be NULL in this version");
    if (!c->data && c->rows > 0) REFUSE("data", "data is NULL");
    if (c->data && (uintptr_t)c->data % tb_dtype_size(c->dtype))
        REFUSE("data", "data is not aligned to its elements of %d bytes", (int)tb_dtype_size(c->dtype));
    return TOMBOLA_OK;
}

static tombola_result check_chain(const tombola_call *c, tombola_error *error)
{
    if (c->step_count < 0 || c->step_count > TOMBOLA_MAX_STEPS)
        REFUSE("step_count", "step_count is %d; it must be 0 to %d", c->step_count, TOMBOLA_MAX_STEPS);
    if (c->step_count > 0 && !c->steps) REFUSE("steps", "steps is NULL and step_count is %d", c->step_count);
    if (c->ties != TOMBOLA_TIES_ALL && c->ties != TOMBOLA_TIES_INDEX)
        REFUSE("ties", "ties is %d; it must be TOMBOLA_TIES_ALL or TOMBOLA_TIES_INDEX", c->ties);
    for (int32_t i = 0; i < c->step_count; i++) {
        int32_t kind = c->steps[i].kind;
        if (kind < TOMBOLA_TEMPERATURE || kind > TOMBOLA_TOP_K_TOP_P)
            REFUSE("steps", "steps[%d].kind is %d, which is no step", i, kind);
        if (kind == TOMBOLA_TEMPERATURE && c->kind == TOMBOLA_PROBABILITIES)
            return tb_fail(error, TOMBOLA_ERROR_REFUSED, "steps",
                           "steps[%d] is a temperature, which a source of probabilities does not have", i);
    }
    return TOMBOLA_OK;
}

static tombola_result check_draw(tombola_call *c, tombola_error *error)
{
    if (c->method < TOMBOLA_EXACT || c->method > TOMBOLA_DUAL_PIVOT)
        REFUSE("method", "method is %d; it must be EXACT, REJECTION or DUAL_PIVOT", c->method);
    if (c->draws == 0) c->draws = 1;
    if (c->draws < 0 || c->draws > TOMBOLA_MAX_DRAWS)
        REFUSE("draws", "draws is %d; it must be 1 to %d", c->draws, TOMBOLA_MAX_DRAWS);
    if (c->advance_offsets && !c->offsets)
        REFUSE("advance_offsets", "advance_offsets is set and offsets is NULL");
    if (c->method == TOMBOLA_EXACT) return TOMBOLA_OK;
    if (c->random)
        return tb_fail(error, TOMBOLA_ERROR_REFUSED, "random",
                       "caller-supplied random numbers serve EXACT only");
    bool filtered = false;
    for (int32_t i = 0; i < c->step_count; i++) filtered |= c->steps[i].kind != TOMBOLA_TEMPERATURE;
    if (filtered && c->steps[c->step_count - 1].kind == TOMBOLA_TEMPERATURE)
        return tb_fail(
            error, TOMBOLA_ERROR_REFUSED, "steps",
            "steps[%d] is a temperature after the last filter, which REJECTION and DUAL_PIVOT refuse",
            c->step_count - 1);
    return TOMBOLA_OK;
}

static tombola_result check_outputs(tombola_call *c, tombola_error *error)
{
    if (c->kept_capacity < 0)
        REFUSE("kept_capacity", "kept_capacity is %lld; it must not be negative",
               (long long)c->kept_capacity);
    if (c->top_count < 0) REFUSE("top_count", "top_count is %d; it must not be negative", c->top_count);
    if (c->given_count < 0)
        REFUSE("given_count", "given_count is %d; it must not be negative", c->given_count);
    if ((c->given_logprobs || c->given_raw_logprobs) && c->given_count > 0 && !c->given_ids)
        REFUSE("given_ids", "given_ids is NULL and log-probabilities of given ids are asked for");
    if (c->probabilities_stride == 0) c->probabilities_stride = c->vocab_size;
    if (c->probabilities && c->probabilities_stride < c->vocab_size)
        REFUSE("probabilities_stride", "probabilities_stride is %lld, less than vocab_size %lld",
               (long long)c->probabilities_stride, (long long)c->vocab_size);
    if (c->masked_stride == 0) c->masked_stride = c->vocab_size;
    if (c->masked_logits && c->masked_logits != c->data && c->masked_stride < c->vocab_size)
        REFUSE("masked_stride", "masked_stride is %lld, less than vocab_size %lld",
               (long long)c->masked_stride, (long long)c->vocab_size);
    if (c->kept_ids && too_far(c->rows, c->kept_capacity, c->kept_capacity))
        REFUSE("kept_capacity", "kept_capacity is %lld: %lld rows of it have no address",
               (long long)c->kept_capacity, (long long)c->rows);
    if (c->probabilities && too_far(c->rows, c->probabilities_stride, c->vocab_size))
        REFUSE("probabilities_stride", "probabilities_stride is %lld: %lld rows of it have no address",
               (long long)c->probabilities_stride, (long long)c->rows);
    if (c->masked_logits && too_far(c->rows, c->masked_stride, c->vocab_size))
        REFUSE("masked_stride", "masked_stride is %lld: %lld rows of it have no address",
               (long long)c->masked_stride, (long long)c->rows);
    if (c->masked_logits && c->masked_logits == c->data && c->row_index)
        REFUSE("masked_logits", "masked_logits in place cannot be combined with row_index");
    if (c->masked_logits && (uintptr_t)c->masked_logits % tb_dtype_size(c->dtype))
        REFUSE("masked_logits", "masked_logits is not aligned to its elements");
    return TOMBOLA_OK;
}

tombola_result tb_validate(const tombola_call *call, tombola_call *out, tombola_error *error)
{
    if (!call) REFUSE("call", "call is NULL");
    if (call->struct_size != sizeof *call)
        return tb_fail(error, TOMBOLA_ERROR_STRUCT_SIZE, "struct_size",
                       "call->struct_size is %zu and this library's tombola_call has %zu bytes: begin with "
                       "TOMBOLA_CALL_INIT, and build against the header of the library in use",
                       call->struct_size, sizeof *call);
    *out = *call;
    tombola_result result;
    if ((result = check_source(out, error)) || (result = check_chain(out, error)) ||
        (result = check_draw(out, error)) || (result = check_outputs(out, error)))
        return result;
    if (out->backend < TOMBOLA_BACKEND_AUTO || out->backend > TOMBOLA_BACKEND_REFERENCE)
        REFUSE("backend", "backend is %d, which is none", out->backend);
    if (out->threads < 0) REFUSE("threads", "threads is %d; it must not be negative", out->threads);
    return tb_succeed(error);
}
