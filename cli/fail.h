/*
 * How the command line ends: with status 0, or with one line on stderr and status 2.
 */
#ifndef CLI_FAIL_H
#define CLI_FAIL_H

#include <stddef.h>

#define EXIT_FAIL 2

/* Prints "tombola: MESSAGE" as exactly one line and exits. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Exits with 0 when everything printed has reached standard output, else fails. */
_Noreturn void end_with_output(void);

/* Zeroed memory for count elements, never NULL. */
void *allocate(size_t count, size_t size);

#endif
