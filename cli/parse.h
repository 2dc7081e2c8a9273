/*
 * Numbers and names from the command line. Strict: the whole text, within its range, else fail().
 */
#ifndef CLI_PARSE_H
#define CLI_PARSE_H

#include <stdint.h>

/* The decimal text rounded once to the nearest f32. "inf" and "nan" are values too (the library says what
 * they do); a finite text too great for f32 is an error. */
float parse_float(const char *option, const char *text);

int64_t parse_integer(const char *option, const char *text, int64_t least, int64_t greatest);

/* 0 .. 2^64 - 1, decimal or with 0x. */
uint64_t parse_u64(const char *option, const char *text);

/* The number that the text has in a list of names, which a NULL ends. */
int parse_name(const char *option, const char *text, const char *const *names);

#endif
