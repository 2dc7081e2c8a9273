/*
 * Tensors as arguments: what they are, and whether they have the shape and type that a field wants.
 */
#ifndef BRIDGE_TENSORS_H
#define BRIDGE_TENSORS_H

#include <stdbool.h>
#include <tvm/ffi/c_api.h>

#include "fields.h"

/* The argument's tensor, or NULL where it is something else. */
const DLTensor *tensor_of(const TVMFFIAny *argument);

/* What an argument is, in words, for messages. */
const char *argument_words(const TVMFFIAny *argument);

void *tensor_data(const DLTensor *tensor);

/* True when the last dimension's elements are adjacent (or it has at most one). */
bool tensor_adjacent(const DLTensor *tensor);

/* True when elements lie one after another in the order of the indices. */
bool tensor_compact(const DLTensor *tensor);

/* Elements from one index of the first of two dimensions to the next. */
int64_t tensor_row_stride(const DLTensor *tensor);

/* True when an element of one may lie where an element of the other does. */
bool tensors_overlap(const DLTensor *a, const DLTensor *b);

/* The shape as "[2, 3]". */
const char *tensor_shape_words(const DLTensor *tensor, char *text, size_t capacity);

bool tensor_has_type(const DLTensor *tensor, field_type type, DLDataType data_type);
const char *type_words(field_type type);

/* Refuses a tensor on another device than the data's, of another type than the field's, or misaligned. */
int tensor_check(const DLTensor *tensor, const field *field, DLDevice device, DLDataType data_type);

#endif
