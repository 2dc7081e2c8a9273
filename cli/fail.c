#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void fail(const char *format, ...)
{
    char message[2048];
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    /* File names and arguments may hold control characters; the message stays one line. */
    for (char *c = message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    fflush(stdout);
    fprintf(stderr, "tombola: %s\n", message);
    exit(EXIT_FAIL);
}

_Noreturn void end_with_output(void)
{
    if (fflush(stdout) || ferror(stdout)) fail("standard output cannot be written");
    exit(0);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) fail("out of memory: %zu elements of %zu bytes", count, size);
    return memory;
}
