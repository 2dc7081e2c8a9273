#include "outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILL 0xa5
#define MARGIN 64 /* bytes before and after each output that must stay as they are */

typedef enum width { PER_DRAW, PER_ROW, PER_KEPT, PER_TOKEN, PER_TOP, PER_GIVEN } width;

static const struct {
    const char *name;
    size_t field; /* offset of the pointer in tombola_call */
    size_t element;
    width per;
} TABLE[OUT_COUNT] = {
#define ENTRY(name, element, per)                                                                            \
    {                                                                                                        \
#name, offsetof(tombola_call, name), element, per                                                    \
    }
    [OUT_TOKENS] = ENTRY(tokens, 4, PER_DRAW),
    [OUT_STATUS] = ENTRY(status, 4, PER_ROW),
    [OUT_ROUNDS] = ENTRY(rounds, 4, PER_DRAW),
    [OUT_LOGPROBS] = ENTRY(logprobs, 4, PER_DRAW),
    [OUT_RAW_LOGPROBS] = ENTRY(raw_logprobs, 4, PER_DRAW),
    [OUT_RANKS] = ENTRY(ranks, 4, PER_DRAW),
    [OUT_KEPT_COUNT] = ENTRY(kept_count, 4, PER_ROW),
    [OUT_KEPT_IDS] = ENTRY(kept_ids, 4, PER_KEPT),
    [OUT_KEPT_MASS] = ENTRY(kept_mass, 8, PER_ROW),
    [OUT_TOTAL_MASS] = ENTRY(total_mass, 8, PER_ROW),
    [OUT_PROBABILITIES] = ENTRY(probabilities, 4, PER_TOKEN),
    [OUT_MASKED] = ENTRY(masked_logits, 0, PER_TOKEN),
    [OUT_TOP_IDS] = ENTRY(top_ids, 4, PER_TOP),
    [OUT_TOP_LOGPROBS] = ENTRY(top_logprobs, 4, PER_TOP),
    [OUT_GIVEN_LOGPROBS] = ENTRY(given_logprobs, 4, PER_GIVEN),
    [OUT_GIVEN_RAW_LOGPROBS] = ENTRY(given_raw_logprobs, 4, PER_GIVEN),
    [OUT_ENTROPY] = ENTRY(entropy, 4, PER_ROW),
#undef ENTRY
};

const char *output_name(output which)
{
    return TABLE[which].name;
}

size_t output_element(output which, const tombola_call *call)
{
    return TABLE[which].element ? TABLE[which].element : call->dtype == TOMBOLA_F32 ? 4 : 2;
}

int64_t output_width(output which, const tombola_call *call)
{
    switch (TABLE[which].per) {
    case PER_DRAW: return call->draws ? call->draws : 1;
    case PER_ROW: return 1;
    case PER_KEPT: return call->kept_capacity;
    case PER_TOKEN: return call->vocab_size;
    case PER_TOP: return call->top_count;
    case PER_GIVEN: return call->given_count;
    }
    return 0;
}

int64_t output_stride(output which, const tombola_call *call)
{
    int64_t stride = which == OUT_PROBABILITIES ? call->probabilities_stride
                     : which == OUT_MASKED      ? call->masked_stride
                                                : 0;
    return stride ? stride : output_width(which, call);
}

void outputs_make(outputs *out, const tombola_call *call, unsigned mask)
{
    size_t at = MARGIN;
    out->mask = mask;
    for (int i = 0; i < OUT_COUNT; i++) {
        size_t element = output_element(i, call);
        at += (element - at % element) % element;
        at += element * (size_t)(i * 5 % 16); /* so that a place has its element's alignment only */
        out->place[i] = at;
        if (mask >> i & 1) at += element * (size_t)(call->rows * output_stride(i, call)) + MARGIN;
    }
    out->bytes = at + MARGIN;
    out->memory = malloc(out->bytes);
    if (!out->memory) abort();
    outputs_refill(out);
}

void outputs_free(outputs *out)
{
    free(out->memory);
    out->memory = NULL;
}

void outputs_refill(outputs *out)
{
    memset(out->memory, FILL, out->bytes);
}

void output_set(output which, tombola_call *call, void *pointer)
{
    memcpy((char *)call + TABLE[which].field, &pointer, sizeof pointer);
}

void outputs_bind(const outputs *out, tombola_call *call)
{
    for (int i = 0; i < OUT_COUNT; i++)
        output_set(i, call, out->mask >> i & 1 ? out->memory + out->place[i] : NULL);
}

/* Where the first difference at byte `at` of an output lies, and the two values. */
static void describe(const char *name, const unsigned char *expected, const unsigned char *got, size_t at,
                     size_t element, int64_t stride, char *text, size_t capacity)
{
    uint64_t a = 0, b = 0;
    memcpy(&a, expected + at / element * element, element);
    memcpy(&b, got + at / element * element, element);
    long long index = (long long)(at / element);
    int n = snprintf(text, capacity, "%s row %lld element %lld: expected %llx (%lld), got %llx (%lld)", name,
                     stride ? index / stride : 0, stride ? index % stride : index, (unsigned long long)a,
                     element == 8 ? (long long)a : (long long)(int32_t)a, (unsigned long long)b,
                     element == 8 ? (long long)b : (long long)(int32_t)b);
    if (element == 4 && n > 0 && (size_t)n < capacity) {
        float x, y;
        memcpy(&x, &a, 4);
        memcpy(&y, &b, 4);
        snprintf(text + n, capacity - (size_t)n, " as f32 %.9g and %.9g", x, y);
    }
}

static size_t first_difference(const unsigned char *a, const unsigned char *b, size_t n)
{
    size_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

bool elements_same(const char *name, const void *expected, const void *got, size_t bytes, size_t element,
                   int64_t stride, char *text, size_t capacity)
{
    if (!memcmp(expected, got, bytes)) return true;
    describe(name, expected, got, first_difference(expected, got, bytes), element, stride, text, capacity);
    return false;
}

bool outputs_same(const outputs *expected, const outputs *got, const tombola_call *call, char *text,
                  size_t capacity)
{
    if (!memcmp(expected->memory, got->memory, got->bytes)) return true;
    for (int i = 0; i < OUT_COUNT; i++) {
        if (!(got->mask >> i & 1)) continue;
        size_t element = output_element(i, call),
               bytes = element * (size_t)(call->rows * output_stride(i, call));
        if (!elements_same(TABLE[i].name, expected->memory + got->place[i], got->memory + got->place[i],
                           bytes, element, output_stride(i, call), text, capacity))
            return false;
    }
    size_t at = first_difference(expected->memory, got->memory, got->bytes);
    const char *near = "the first output";
    for (int i = 0; i < OUT_COUNT; i++)
        if (got->mask >> i & 1 && got->place[i] <= at) near = TABLE[i].name;
    snprintf(text, capacity, "a byte outside the outputs was written, after or before %s", near);
    return false;
}

bool outputs_row_same(const outputs *expected, int64_t i, const outputs *got, int64_t j,
                      const tombola_call *call, char *text, size_t capacity)
{
    for (int k = 0; k < OUT_COUNT; k++) {
        if (!(got->mask >> k & 1)) continue;
        size_t element = output_element(k, call), row = element * (size_t)output_stride(k, call);
        if (!elements_same(TABLE[k].name, expected->memory + expected->place[k] + (size_t)i * row,
                           got->memory + got->place[k] + (size_t)j * row,
                           element * (size_t)output_width(k, call), element, 0, text, capacity))
            return false;
    }
    return true;
}
