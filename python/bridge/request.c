#include "request.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "raise.h"
#include "tensors.h"

#define MAX_NAME 32

const field bridge_fields[FIELD_COUNT] = {
#define DESCRIBE(constant, name, sort, step, shape, type, at, at_all)                                        \
    [FIELD_##constant] = {name,                                                                              \
                          SORT_##sort,                                                                       \
                          step,                                                                              \
                          SHAPE_##shape,                                                                     \
                          TYPE_##type,                                                                       \
                          offsetof(tombola_call, at),                                                        \
                          offsetof(tombola_call, at_all)},
    BRIDGE_FIELDS(DESCRIBE)
#undef DESCRIBE
};

static void set_pointer(tombola_call *call, size_t at, void *pointer)
{
    memcpy((char *)call + at, &pointer, sizeof pointer);
}

/* ---- names ---- */

/* The bytes of a string argument; false where it is none. */
static bool string_of(const TVMFFIAny *argument, const char **text, size_t *size)
{
    if (argument->type_index == kTVMFFIRawStr) {
        *text = argument->v_c_str, *size = strlen(argument->v_c_str);
    } else if (argument->type_index == kTVMFFISmallStr) {
        *text = argument->v_bytes, *size = argument->small_str_len;
    } else if (argument->type_index == kTVMFFIStr) {
        const TVMFFIByteArray *bytes =
            (const TVMFFIByteArray *)((const char *)argument->v_obj + sizeof(TVMFFIObject));
        *text = bytes->data, *size = bytes->size;
    } else {
        return false;
    }
    return true;
}

static int find_field(const TVMFFIAny *argument)
{
    const char *text = NULL;
    size_t size = 0;
    if (argument->type_index == kTVMFFIInt) {
        if (argument->v_int64 >= 0 && argument->v_int64 < FIELD_COUNT) return (int)argument->v_int64;
        return bridge_raise("ValueError", "", "there is no field number %lld", (long long)argument->v_int64);
    }
    if (!string_of(argument, &text, &size))
        return bridge_raise("TypeError", "", "fields are named by a string or a number, not by %s",
                            argument_words(argument));
    for (int i = 0; i < FIELD_COUNT; i++)
        if (strlen(bridge_fields[i].name) == size && !memcmp(bridge_fields[i].name, text, size)) return i;
    return bridge_raise("ValueError", "", "there is no field '%.*s'",
                        (int)(size < MAX_NAME ? size : MAX_NAME), text);
}

/* ---- scalars ---- */

static int read_int(const field *field, const TVMFFIAny *argument, int32_t *value)
{
    if (argument->type_index != kTVMFFIInt && argument->type_index != kTVMFFIBool)
        return bridge_raise("TypeError", field->name, "must be an integer, not %s", argument_words(argument));
    if (argument->v_int64 < INT32_MIN || argument->v_int64 > INT32_MAX)
        return bridge_raise("ValueError", field->name, "is %lld, beyond 32 bits",
                            (long long)argument->v_int64);
    *value = (int32_t)argument->v_int64;
    return 0;
}

static int read_k(const field *field, const TVMFFIAny *argument, int32_t *k)
{
    if (argument->type_index != kTVMFFIInt)
        return bridge_raise("TypeError", field->name, "must be an integer or an int32 tensor, not %s",
                            argument_words(argument));
    return read_int(field, argument, k);
}

static int read_value(const field *field, const TVMFFIAny *argument, float *value)
{
    if (argument->type_index == kTVMFFIFloat)
        *value = (float)argument->v_float64;
    else if (argument->type_index == kTVMFFIInt)
        *value = (float)argument->v_int64;
    else
        return bridge_raise("TypeError", field->name, "must be a number or a float32 tensor, not %s",
                            argument_words(argument));
    if (isnan(*value)) return bridge_raise("ValueError", field->name, "is NaN");
    if (field->step == TOMBOLA_TEMPERATURE && *value < 0)
        return bridge_raise("ValueError", field->name, "is %g; it must not be negative", (double)*value);
    return 0;
}

/* ---- reading the arguments ---- */

static int add_step(request *r, int f, const TVMFFIAny *argument)
{
    const field *field = &bridge_fields[f];
    int32_t last = r->call.step_count - 1;
    if (field->sort == SORT_JOINT_P) {
        if (last < 0 || r->steps[last].kind != TOMBOLA_TOP_K_TOP_P || r->step_values[last][1])
            return bridge_raise("ValueError", field->name, "must follow joint_top_k");
        r->step_values[last][1] = argument;
    } else {
        if (++last == TOMBOLA_MAX_STEPS)
            return bridge_raise("ValueError", field->name, "the chain has more than %d steps",
                                TOMBOLA_MAX_STEPS);
        r->steps[last] = (tombola_step){.kind = field->step, .value = 1};
        r->step_values[last][0] = r->step_values[last][1] = NULL;
        r->step_values[last][field->sort == SORT_STEP_VALUE] = argument;
        r->call.step_count = last + 1;
    }
    if (tensor_of(argument)) return 0; /* looked at when the number of slots is known */
    if (field->sort == SORT_STEP_K) return read_k(field, argument, &r->steps[last].k);
    return read_value(field, argument, &r->steps[last].value);
}

static int read_field(request *r, int f, const TVMFFIAny *argument)
{
    const field *field = &bridge_fields[f];
    if (field->sort == SORT_STEP_VALUE || field->sort == SORT_STEP_K || field->sort == SORT_JOINT_P)
        return add_step(r, f, argument);
    r->given[f] = argument;
    r->tensors[f] = tensor_of(argument);
    char *at = (char *)&r->call + field->at;
    switch (field->sort) {
    case SORT_INT: return read_int(field, argument, (int32_t *)(void *)at);
    case SORT_WORD:
        if (r->tensors[f]) return 0;
        if (argument->type_index != kTVMFFIInt)
            return bridge_raise("TypeError", field->name,
                                "must be an integer or a 64-bit integer tensor, not %s",
                                argument_words(argument));
        memcpy(at, &argument->v_int64, sizeof argument->v_int64);
        return 0;
    case SORT_INPUT:
    case SORT_OUTPUT:
        if (!r->tensors[f])
            return bridge_raise("TypeError", field->name, "must be a tensor, not %s",
                                argument_words(argument));
        return 0;
    default: return 0;
    }
}

/* ---- shapes ---- */

static int refuse_shape(const DLTensor *tensor, const field *field, const char *wanted)
{
    char shape[96];
    return bridge_raise("ValueError", field->name, "has shape %s; it must be %s",
                        tensor_shape_words(tensor, shape, sizeof shape), wanted);
}

/* Checks that the dimensions are rows (absent for one row), then `more` others, the first of which is `width`
 * unless that is -1. Returns the first other's size, or -1 with an error raised. */
static int64_t check_dimensions(const request *r, const DLTensor *tensor, const field *field, int more,
                                int64_t width)
{
    int first = r->one_row ? 0 : 1;
    bool fits = tensor->ndim == first + more && (r->one_row || tensor->shape[0] == r->call.rows) &&
                (!more || width < 0 || tensor->shape[first] == width);
    if (fits) return more ? tensor->shape[first] : 0;
    char rows[32] = "", wide[32] = "", wanted[80];
    if (!r->one_row) snprintf(rows, sizeof rows, "%lld", (long long)r->call.rows);
    if (more && width < 0)
        snprintf(wide, sizeof wide, "n");
    else if (more)
        snprintf(wide, sizeof wide, "%lld", (long long)width);
    snprintf(wanted, sizeof wanted, "[%s%s%s]", rows, rows[0] && wide[0] ? ", " : "", wide);
    return refuse_shape(tensor, field, wanted);
}

static int check_compact(const DLTensor *tensor, const field *field)
{
    if (tensor_compact(tensor)) return 0;
    return bridge_raise("ValueError", field->name, "is not contiguous");
}

/* A list's width must be the same wherever it is given. */
static int agree(const field *field, int64_t *width, int64_t given)
{
    if (given < 0) return -1;
    if (given > INT32_MAX) return bridge_raise("ValueError", field->name, "is too wide");
    if (*width >= 0 && *width != given)
        return bridge_raise("ValueError", field->name, "is %lld wide, and what belongs to it is %lld wide",
                            (long long)given, (long long)*width);
    *width = given;
    return 0;
}

static int place_vocab(request *r, int f, const DLTensor *tensor, const field *field)
{
    if (check_dimensions(r, tensor, field, 1, r->call.vocab_size) < 0) return -1;
    int64_t stride = tensor_row_stride(tensor);
    if (!tensor_adjacent(tensor))
        return bridge_raise("ValueError", field->name,
                            "has elements of a row that are not adjacent in memory");
    if (stride < r->call.vocab_size) return bridge_raise("ValueError", field->name, "has rows that overlap");
    if (f == FIELD_MASKED) {
        r->call.masked_stride = stride;
        if (tensor_data(tensor) == tensor_data(r->data) && r->call.rows > 1 && stride != r->call.row_stride)
            return bridge_raise("ValueError", field->name, "begins where logits do and has another stride");
    } else {
        r->call.probabilities_stride = stride;
    }
    return 0;
}

/* Checks a field's tensor and puts its pointer into the call. */
static int place(request *r, int f, int64_t widths[3])
{
    const field *field = &bridge_fields[f];
    const DLTensor *tensor = r->tensors[f];
    int64_t *width = f == FIELD_KEPT_IDS                             ? &widths[0]
                     : f == FIELD_TOP_IDS || f == FIELD_TOP_LOGPROBS ? &widths[1]
                                                                     : &widths[2];
    int failed = tensor_check(tensor, field, r->device, r->data->dtype);
    if (failed) return failed;
    switch (field->shape) {
    case SHAPE_ROWS: failed = check_dimensions(r, tensor, field, 0, 0) < 0; break;
    case SHAPE_DRAWS:
        failed = check_dimensions(r, tensor, field, r->given[FIELD_NUM_SAMPLES] != NULL, r->call.draws) < 0;
        break;
    case SHAPE_LIST: failed = agree(field, width, check_dimensions(r, tensor, field, 1, -1)); break;
    case SHAPE_VOCAB: failed = place_vocab(r, f, tensor, field); break;
    case SHAPE_SOURCE:
        if (tensor->ndim != 1 || tensor->shape[0] != r->call.source_rows)
            failed = refuse_shape(tensor, field, "one number per row of logits");
        break;
    default: break;
    }
    if (!failed && field->shape != SHAPE_VOCAB) failed = check_compact(tensor, field);
    if (failed) return -1;
    set_pointer(&r->call, field->sort == SORT_WORD ? field->at_all : field->at, tensor_data(tensor));
    return 0;
}

/* ---- per-slot parameters ---- */

/* All have the same length, which is rows (or 1, for every row) unless slots says who takes which. */
static int check_slots(request *r, const DLTensor *tensor, const field *field, int64_t *slots)
{
    if (tensor_check(tensor, field, r->device, r->data->dtype)) return -1;
    if (tensor->ndim != 1) return refuse_shape(tensor, field, "of one dimension");
    if (check_compact(tensor, field)) return -1;
    int64_t length = tensor->shape[0];
    if (!r->given[FIELD_SLOTS] && length != r->call.rows && length != 1)
        return bridge_raise("ValueError", field->name, "has %lld elements for %lld rows", (long long)length,
                            (long long)r->call.rows);
    if (*slots >= 0 && *slots != length)
        return bridge_raise("ValueError", field->name, "has %lld elements, and another parameter has %lld",
                            (long long)length, (long long)*slots);
    if (length == 0 && r->call.rows > 0) return bridge_raise("ValueError", field->name, "is empty");
    *slots = length;
    return 0;
}

static int place_slots(request *r)
{
    int64_t slots = -1;
    for (int32_t i = 0; i < r->call.step_count; i++) {
        static const int names[][2] = {[TOMBOLA_TEMPERATURE] = {0, FIELD_TEMPERATURE},
                                       [TOMBOLA_TOP_K] = {FIELD_TOP_K, 0},
                                       [TOMBOLA_TOP_P] = {0, FIELD_TOP_P},
                                       [TOMBOLA_MIN_P] = {0, FIELD_MIN_P},
                                       [TOMBOLA_TOP_K_TOP_P] = {FIELD_JOINT_TOP_K, FIELD_JOINT_TOP_P}};
        tombola_step *step = &r->steps[i];
        for (int part = 0; part < 2; part++) {
            const TVMFFIAny *argument = r->step_values[i][part];
            const DLTensor *tensor = argument ? tensor_of(argument) : NULL;
            if (!tensor) continue;
            if (check_slots(r, tensor, &bridge_fields[names[step->kind][part]], &slots)) return -1;
            if (part == 0)
                step->k_per_slot = tensor_data(tensor);
            else
                step->value_per_slot = tensor_data(tensor);
        }
    }
    for (int f = FIELD_SEED; f <= FIELD_OFFSET; f++) {
        if (!r->tensors[f]) continue;
        if (check_slots(r, r->tensors[f], &bridge_fields[f], &slots)) return -1;
        set_pointer(&r->call, bridge_fields[f].at_all, tensor_data(r->tensors[f]));
    }
    r->call.slot_count = slots > 0 ? slots : 0;
    return 0;
}

/* ---- the whole ---- */

/* True when the tensor overlaps a parameter of the chain. */
static bool overlaps_parameter(const request *r, const DLTensor *written)
{
    for (int32_t i = 0; i < 2 * r->call.step_count; i++) {
        const TVMFFIAny *value = r->step_values[i / 2][i % 2];
        const DLTensor *tensor = value ? tensor_of(value) : NULL;
        if (tensor && tensors_overlap(written, tensor)) return true;
    }
    return false;
}

/* Offsets that the call advances lie apart from what it reads. Outputs look at them in turn. */
static int check_offsets_apart(const request *r)
{
    const DLTensor *offsets = r->tensors[FIELD_OFFSET];
    const char *name = bridge_fields[FIELD_OFFSET].name;
    if (!offsets || !r->call.advance_offsets) return 0;
    if (tensors_overlap(offsets, r->data))
        return bridge_raise("ValueError", name, "overlaps logits in memory");
    for (int g = 0; g < FIELD_TOKENS; g++)
        if (g != FIELD_OFFSET && r->tensors[g] && tensors_overlap(offsets, r->tensors[g]))
            return bridge_raise("ValueError", name, "overlaps %s in memory", bridge_fields[g].name);
    if (overlaps_parameter(r, offsets))
        return bridge_raise("ValueError", name, "overlaps a parameter in memory");
    return 0;
}

/* Outputs lie apart from all else, but for logits that are masked in place. */
static int check_apart(const request *r)
{
    if (check_offsets_apart(r)) return -1;
    for (int f = FIELD_TOKENS; f < FIELD_BFLOAT16; f++) {
        const DLTensor *output = r->tensors[f];
        if (!output) continue;
        const char *name = bridge_fields[f].name;
        bool in_place = f == FIELD_MASKED && r->call.masked_logits == r->call.data;
        if (!in_place && tensors_overlap(output, r->data))
            return bridge_raise("ValueError", name, "overlaps logits in memory");
        for (int g = 0; g < f; g++)
            if (r->tensors[g] && tensors_overlap(output, r->tensors[g]))
                return bridge_raise("ValueError", name, "overlaps %s in memory", bridge_fields[g].name);
        if (overlaps_parameter(r, output))
            return bridge_raise("ValueError", name, "overlaps a parameter in memory");
    }
    return 0;
}

static int read_data(request *r, const TVMFFIAny *argument)
{
    const field data = {.name = "logits"};
    const DLTensor *tensor = tensor_of(argument);
    if (!tensor)
        return bridge_raise("TypeError", data.name, "must be a tensor, not %s", argument_words(argument));
    r->data = tensor;
    r->device = tensor->device;
    if (tensor->ndim != 1 && tensor->ndim != 2)
        return refuse_shape(tensor, &data, "[rows, vocab_size] or [vocab_size]");
    if (r->device.device_type == kDLCUDAHost)
        r->device = (DLDevice){kDLCPU, 0};
    else if (r->device.device_type == kDLCUDAManaged)
        r->device.device_type = kDLCUDA;
    if (r->device.device_type != kDLCPU && r->device.device_type != kDLCUDA)
        return bridge_raise("ValueError", data.name, "must be on the CPU or on a CUDA device");
    DLDataType t = tensor->dtype;
    if (t.lanes == 1 && t.code == kDLFloat && t.bits == 32)
        r->call.dtype = TOMBOLA_F32;
    else if (t.lanes == 1 && t.code == kDLFloat && t.bits == 16)
        r->call.dtype = TOMBOLA_F16;
    else if (t.lanes == 1 && t.code == kDLBfloat && t.bits == 16)
        r->call.dtype = TOMBOLA_BF16;
    else if (t.lanes == 1 && t.code == kDLUInt && t.bits == 16)
        r->call.dtype = -1; /* bfloat16 if the field of that name says so */
    else
        return bridge_raise("TypeError", data.name, "must be float32, float16 or bfloat16");
    if (!tensor_adjacent(tensor))
        return bridge_raise("ValueError", data.name,
                            "has elements of a row that are not adjacent in memory: the last dimension's "
                            "stride must be 1");
    r->call.data = tensor_data(tensor);
    r->call.source_rows = tensor->ndim == 2 ? tensor->shape[0] : 1;
    r->call.vocab_size = tensor->shape[tensor->ndim - 1];
    r->call.row_stride = tensor_row_stride(tensor);
    if (r->call.vocab_size < 1 || r->call.vocab_size > TOMBOLA_MAX_VOCAB_SIZE)
        return bridge_raise("ValueError", data.name, "has a vocabulary of %lld; it must be 1 to %d",
                            (long long)r->call.vocab_size, TOMBOLA_MAX_VOCAB_SIZE);
    if (r->call.row_stride < r->call.vocab_size)
        return bridge_raise("ValueError", data.name, "has rows that overlap (their stride is %lld)",
                            (long long)r->call.row_stride);
    return 0;
}

static int read_rows(request *r)
{
    const DLTensor *rows = r->tensors[FIELD_ROWS];
    r->call.rows = r->call.source_rows;
    r->one_row = r->data->ndim == 1 && !rows;
    if (!rows) return 0;
    if (rows->ndim != 1) return refuse_shape(rows, &bridge_fields[FIELD_ROWS], "of one dimension");
    r->call.rows = rows->shape[0];
    return 0;
}

int request_read(request *r, const TVMFFIAny *arguments, int32_t count)
{
    memset(r, 0, offsetof(request, step_values));
    r->call.struct_size = sizeof r->call;
    if (count < 1) return bridge_raise("TypeError", "logits", "is missing");
    if (read_data(r, &arguments[0])) return -1;
    if (count % 2 == 0) return bridge_raise("TypeError", "", "fields and values come in pairs");
    for (int32_t i = 1; i < count; i += 2) {
        int f = find_field(&arguments[i]);
        if (f < 0) return -1;
        if (arguments[i + 1].type_index == kTVMFFINone) continue;
        if (read_field(r, f, &arguments[i + 1])) return -1;
    }
    if (r->call.dtype < 0) {
        if (!r->given[FIELD_BFLOAT16])
            return bridge_raise("TypeError", "logits", "must be float32, float16 or bfloat16");
        r->call.dtype = TOMBOLA_BF16;
    }
    r->call.steps = r->steps;
    if (read_rows(r) || place_slots(r)) return -1;

    int64_t widths[3] = {-1, -1, -1}; /* of kept ids, top tokens, given ids */
    for (int f = FIELD_ROWS; f < FIELD_BFLOAT16; f++)
        if (r->tensors[f] && place(r, f, widths)) return -1;
    if (check_apart(r)) return -1;
    r->no_source = r->call.source_rows == 0 && r->call.rows > 0;
    if (r->no_source) { /* to the library 0 means as many as rows; any memory serves, since none is read */
        r->call.source_rows = 1;
        r->call.data = r->call.row_index;
    }
    r->call.kept_capacity = widths[0] > 0 ? widths[0] : 0;
    r->call.top_count = widths[1] > 0 ? (int32_t)widths[1] : 0;
    r->call.given_count = widths[2] > 0 ? (int32_t)widths[2] : 0;

    bool device = r->device.device_type == kDLCUDA;
    if (r->call.backend == TOMBOLA_BACKEND_AUTO)
        r->call.backend = device ? TOMBOLA_BACKEND_CUDA : TOMBOLA_BACKEND_CPU;
    else if ((r->call.backend == TOMBOLA_BACKEND_CUDA) != device)
        return bridge_raise("ValueError", "backend",
                            device ? "must be cuda, since logits are on a CUDA device"
                                   : "must be cpu or reference, since logits are on "
                                     "the CPU");
    return 0;
}
