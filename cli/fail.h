/*
 * How the command line gives up: one line on stderr, exit status 2.
 */
#ifndef CLI_FAIL_H
#define CLI_FAIL_H

#include <stddef.h>

#define EXIT_FAIL 2

/* Prints "tombola: MESSAGE" as exactly one line and exits. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed memory for count elements, never NULL. */
void *allocate(size_t count, size_t size);

#endif
