#include "source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tombola.h>

#define TAIL 72 /* elements of poison after the last row: more than a vector, or four of them */

void source_make(source *s, int32_t dtype, int64_t rows, int64_t stride, int64_t shift)
{
    static const uint32_t POISON[3][2] = {
        {0x7fc00000, 0x7f800000}, {0x7e00, 0x7c00}, {0x7fc0, 0x7f80}}; /* NaN and +inf */
    s->element = dtype == TOMBOLA_F32 ? 4 : 2;
    s->stride = stride;
    int64_t count = shift + rows * stride + TAIL;
    s->bytes = s->element * (size_t)count;
    s->memory = malloc(s->bytes);
    if (!s->memory) abort();
    for (int64_t i = 0; i < count; i++) /* the low bytes come first on every machine this runs on */
        memcpy(s->memory + s->element * (size_t)i, &POISON[dtype][i & 1], s->element);
    s->data = s->memory + s->element * (size_t)shift;
}

void source_free(source *s)
{
    free(s->memory);
    s->memory = NULL;
}

void source_put(source *s, int64_t row, const void *elements, int64_t count)
{
    memcpy((char *)s->data + s->element * (size_t)(row * s->stride), elements, s->element * (size_t)count);
}

uint32_t source_bits(int32_t dtype, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (dtype == TOMBOLA_F32) return bits;
    if (dtype == TOMBOLA_BF16) return isnan(x) ? 0x7fc0 : bits >> 16;
    uint32_t sign = bits >> 16 & 0x8000;
    float magnitude = fabsf(x);
    if (isnan(x)) return sign | 0x7e00;
    if (magnitude >= 65536.0f) return sign | 0x7c00;
    if (magnitude < 0x1p-14f) return sign | (uint32_t)(magnitude * 0x1p24f);
    return sign | (((bits & 0x7fffffff) - (112u << 23)) >> 13);
}
