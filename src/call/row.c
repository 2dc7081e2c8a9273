#include "row.h"

#include "../law/philox.h"

int64_t tb_row_slot(const tombola_call *call, int64_t index)
{
    if (!call->slot_index) return call->slot_count == 1 ? 0 : index;
    int64_t slot = call->slot_index[index];
    return slot >= 0 && slot < call->slot_count ? slot : -1;
}

/* Start and length of a row; false when they, or the row index, are out of range. *length is set all the
 * same where it is known (else 0), so that outputs of a bad row can be cleared. */
static bool locate(const tombola_call *call, int64_t index, int64_t *start, int64_t *length)
{
    *start = 0;
    *length = call->row_length ? 0 : call->vocab_size;
    int64_t source = call->row_index ? call->row_index[index] : index;
    if (source < 0 || source >= call->source_rows) return false;
    int64_t first = call->row_start ? call->row_start[source] : source * call->row_stride;
    int64_t count = call->row_length ? call->row_length[source] : call->vocab_size;
    if (count < 0 || count > call->vocab_size) return false;
    *length = count;
    if (first < 0) return false;
    if (call->data_size > 0 && (first > call->data_size || count > call->data_size - first)) return false;
    *start = first;
    return true;
}

bool tb_row_resolve(const tombola_call *call, int64_t index, tb_row *row)
{
    row->index = index;
    row->step_count = call->step_count;
    if (!locate(call, index, &row->source_offset, &row->length)) return false;
    row->data = (const char *)call->data + (size_t)row->source_offset * tb_dtype_size(call->dtype);
    int64_t slot = tb_row_slot(call, index);
    if (slot < 0) return false;
    bool good = true;
    for (int32_t i = 0; i < call->step_count; i++) {
        const tombola_step *step = &call->steps[i];
        tb_step *out = &row->steps[i];
        out->kind = step->kind;
        out->k = step->k_per_slot ? step->k_per_slot[slot] : step->k;
        out->value = step->value_per_slot ? step->value_per_slot[slot] : step->value;
        if (step->kind == TOMBOLA_TOP_K) continue; /* its value is not a parameter */
        if (law_isnan(out->value)) good = false;
        if (step->kind == TOMBOLA_TEMPERATURE && out->value < 0.0f) good = false;
    }
    row->seed = call->seeds ? call->seeds[slot] : call->seed;
    row->offset = call->offsets ? call->offsets[slot] : call->offset;
    row->stream = call->streams ? call->streams[index] : call->seeds ? 0 : (uint32_t)index;
    return good;
}

bool tb_call_draws(const tombola_call *call)
{
    return call->tokens || call->rounds || call->logprobs || call->raw_logprobs || call->ranks;
}

uint64_t tb_row_random(const tombola_call *call, const tb_row *row, int32_t draw)
{
    if (call->random) return call->random[row->index * call->draws + draw];
    return law_random(row->seed, row->offset, row->stream, LAW_PURPOSE_DRAW, (uint32_t)draw, 0);
}

void *tb_row_masked(const tombola_call *call, int64_t index, int64_t source_offset)
{
    int64_t at = call->masked_logits == call->data ? source_offset : index * call->masked_stride;
    return (char *)call->masked_logits + (size_t)at * tb_dtype_size(call->dtype);
}

static void fill_i32(int32_t *out, int64_t row, int64_t count, int32_t value)
{
    if (out)
        for (int64_t i = 0; i < count; i++) out[row * count + i] = value;
}

static void fill_f32(float *out, int64_t row, int64_t count, float value)
{
    if (out)
        for (int64_t i = 0; i < count; i++) out[row * count + i] = value;
}

void tb_row_write_void(const tombola_call *call, int64_t index, uint32_t status)
{
    float none = law_float(LAW_NAN_BITS);
    int64_t start, length;
    bool placed = locate(call, index, &start, &length);
    bool in_place = call->masked_logits == call->data;
    if (call->status) call->status[index] = status;
    fill_i32(call->tokens, index, call->draws, -1);
    fill_i32(call->rounds, index, call->draws, 0);
    fill_f32(call->logprobs, index, call->draws, none);
    fill_f32(call->raw_logprobs, index, call->draws, none);
    fill_i32(call->ranks, index, call->draws, 0);
    fill_i32(call->kept_count, index, 1, 0);
    fill_i32(call->kept_ids, index, call->kept_capacity, -1);
    if (call->kept_mass) call->kept_mass[index] = 0;
    if (call->total_mass) call->total_mass[index] = 0;
    fill_i32(call->top_ids, index, call->top_count, -1);
    fill_f32(call->top_logprobs, index, call->top_count, none);
    fill_f32(call->given_logprobs, index, call->given_count, none);
    fill_f32(call->given_raw_logprobs, index, call->given_count, none);
    fill_f32(call->entropy, index, 1, none);
    if (call->probabilities)
        for (int64_t i = 0; i < length; i++)
            call->probabilities[index * call->probabilities_stride + i] = 0.0f;
    if (call->masked_logits && (placed || !in_place)) {
        void *out = tb_row_masked(call, index, start);
        for (int64_t i = 0; i < length; i++) tb_mask_value(out, call->data, call->dtype, i, false);
    }
}

void tb_advance_offsets(const tombola_call *call, uint64_t *saved)
{
    for (int64_t r = 0; r < call->rows; r++) {
        int64_t slot = tb_row_slot(call, r);
        if (slot >= 0) saved[r] = call->offsets[slot] + 1;
    }
    for (int64_t r = 0; r < call->rows; r++) {
        int64_t slot = tb_row_slot(call, r);
        if (slot >= 0) call->offsets[slot] = saved[r];
    }
}
