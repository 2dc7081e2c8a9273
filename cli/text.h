/*
 * Token texts for people (quoted, escaped, cut to a width) and for JSON (valid UTF-8).
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>

/* Chooses a UTF-8 locale for character widths; numbers keep the C locale. */
void text_begin(void);

/* Writes the text in double quotes, with what has no glyph of its own as \n, \xHH (bytes that are not UTF-8)
 * or \u{HEX}; longer than `columns` terminal columns, it ends in an ellipsis. Always terminated; returns the
 * columns it takes. */
int text_quote(char *out, size_t capacity, const char *bytes, size_t length, int columns);

/* Copies the text with U+FFFD for each byte that is not UTF-8. `out` has room for 3 * length + 1. */
size_t text_utf8(char *out, const char *bytes, size_t length);

#endif
