#include "raise.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

int bridge_raise(const char *kind, const char *argument, const char *format, ...)
{
    char text[640];
    int used = argument[0] ? snprintf(text, sizeof text, "%.60s: ", argument) : 0;
    va_list values;
    va_start(values, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, values);
    va_end(values);
    TVMFFIErrorSetRaisedFromCStr(kind, text);
    return -1;
}

/* The bridge's name of a field of tombola_call. */
static const char *own_name(const char *argument)
{
    static const char *const names[][2] = {
        {"data", "logits"},
        {"row_stride", "logits"},
        {"source_rows", "logits"},
        {"vocab_size", "logits"},
        {"data_size", "logits"},
        {"dtype", "logits"},
        {"rows", "logits"},
        {"draws", "num_samples"},
        {"row_index", "rows"},
        {"slot_index", "slots"},
        {"row_length", "lengths"},
        {"advance_offsets", "advance"},
        {"given_ids", "ids"},
        {"masked_logits", "masked"},
        {"kept_capacity", "kept_ids"},
        {"workspace_size", "workspace"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(argument, names[i][0])) return names[i][1];
    return argument;
}

int bridge_raise_library(const tombola_error *error)
{
    const char *kind = "RuntimeError";
    if (error->result == TOMBOLA_ERROR_INVALID_ARGUMENT || error->result == TOMBOLA_ERROR_REFUSED ||
        error->result == TOMBOLA_ERROR_WORKSPACE)
        kind = "ValueError";
    else if (error->result == TOMBOLA_ERROR_UNSUPPORTED)
        kind = "NotImplementedError";
    else if (error->result == TOMBOLA_ERROR_OUT_OF_MEMORY)
        kind = "MemoryError";
    const char *own = own_name(error->argument);
    size_t length = strlen(error->argument);
    if (own != error->argument && strcmp(own, "logits") &&
        !strncmp(error->message, error->argument, length) && error->message[length] == ' ')
        return bridge_raise(kind, own, "%s", error->message + length + 1);
    return bridge_raise(kind, own, "%s", error->message);
}
