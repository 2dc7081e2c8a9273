/*
 * The library as the commands use it: a context, memory that the chosen backend addresses, timed runs.
 */
#ifndef CLI_ENGINE_H
#define CLI_ENGINE_H

#include <string.h>

#include "options.h"

typedef struct engine {
    tombola_context *context;
    bool on_device; /* memory is the device's */
    void *workspace;
    size_t workspace_size;
} engine;

/* Makes the context; exits where the backend or the instruction set is missing. */
void engine_open(engine *e, const options *o);
void engine_close(engine *e);

/* Memory for a call's inputs and outputs. */
void *engine_allocate(engine *e, size_t count, size_t size);
void engine_free(engine *e, void *memory);

/* A call with the options' chain, draw and execution, without source and outputs. */
tombola_call engine_call(const options *o);

/* Runs a call to its end, with a workspace of the engine's. Returns the seconds that tombola_run took. */
double engine_run(engine *e, tombola_call *call);

/* Element i of a row, widened to f32. */
static inline float engine_value(const void *row, int32_t dtype, int64_t i)
{
    if (dtype == TOMBOLA_F32) return ((const float *)row)[i];
    uint32_t half = ((const uint16_t *)row)[i], bits;
    float value;
    if (dtype == TOMBOLA_BF16) {
        bits = half << 16;
    } else {
        uint32_t exponent = half >> 10 & 31, fraction = half & 0x3ff, sign = half >> 15 << 31;
        if (exponent == 0) { /* subnormal: fraction * 2^-24 */
            value = (float)fraction * 0x1p-24f;
            return sign ? -value : value;
        }
        bits = sign | fraction << 13 | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23);
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
