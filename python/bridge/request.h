/*
 * A call as it comes through the bridge, checked and turned into a tombola_call.
 */
#ifndef BRIDGE_REQUEST_H
#define BRIDGE_REQUEST_H

#include <stdbool.h>
#include <tombola.h>
#include <tvm/ffi/c_api.h>

#include "fields.h"

typedef struct request {
    tombola_call call;
    tombola_step steps[TOMBOLA_MAX_STEPS];
    DLDevice device; /* data's */
    bool no_source;  /* rows are picked of none: all are bad, and row_index is to hold -1 */
    bool one_row;    /* data has one dimension, and no rows are picked: "rows" is absent */
    const DLTensor *data;
    const DLTensor *tensors[FIELD_COUNT]; /* those of the arguments that are tensors, else NULL */
    const TVMFFIAny *given[FIELD_COUNT];  /* the arguments that are there */
    const TVMFFIAny *step_values[TOMBOLA_MAX_STEPS][2]; /* of each step: k, value */
} request;

/* Fills *r from  data, field, value, ...;  0, or -1 with an error raised. */
int request_read(request *r, const TVMFFIAny *arguments, int32_t count);

#endif
