#include "text.h"

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

void text_begin(void)
{
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "");
}

/* Decodes one code point: its length in bytes, 0 when the bytes are not UTF-8 (overlong forms, surrogates
 * and what lies above U+10FFFF included). */
static size_t decode(const char *bytes, size_t length, uint32_t *point)
{
    const uint8_t *b = (const uint8_t *)bytes;
    if (length == 0) return 0;
    if (b[0] < 0x80) {
        *point = b[0];
        return 1;
    }
    size_t size = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (b[0] < 0xc2 || b[0] > 0xf4 || length < size) return 0;
    *point = b[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((b[i] & 0xc0) != 0x80) return 0;
        *point = *point << 6 | (b[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (*point < least[size] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000)) return 0;
    return size;
}

/* Characters that are invisible or change the direction of what follows: they would spoil a table. */
static bool is_hidden(uint32_t point)
{
    return point == 0xad || (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2060 && point <= 0x206f) || point == 0xfeff || (point >= 0xfe00 && point <= 0xfe0f) ||
           point >= 0xe0000;
}

/* Appends one character or escape as it is shown; returns the bytes taken from the input. */
static size_t show_one(char out[16], int *columns, const char *bytes, size_t length)
{
    uint32_t point = 0;
    size_t size = decode(bytes, length, &point);
    const char *plain = !size           ? NULL
                        : point == '\n' ? "\\n"
                        : point == '\r' ? "\\r"
                        : point == '\t' ? "\\t"
                        : point == '"'  ? "\\\""
                        : point == '\\' ? "\\\\"
                                        : NULL;
    if (plain)
        strcpy(out, plain);
    else if (!size)
        snprintf(out, 16, "\\x%02X", (unsigned char)bytes[0]);
    else if (point < 0x20 || (point >= 0x7f && point < 0xa0))
        snprintf(out, 16, "\\x%02X", (unsigned)point);
    else if (point >= 0x80 && (!iswprint((wint_t)point) || wcwidth((wchar_t)point) < 0 || is_hidden(point)))
        snprintf(out, 16, "\\u{%X}", (unsigned)point);
    else {
        memcpy(out, bytes, size);
        out[size] = 0;
        *columns = point < 0x80 ? 1 : wcwidth((wchar_t)point);
        return size;
    }
    *columns = (int)strlen(out);
    return size ? size : 1;
}

int text_quote(char *out, size_t capacity, const char *bytes, size_t length, int columns)
{
    static const char ellipsis[] = "\u2026";
    char *to = out, *limit = out + capacity - sizeof ellipsis - 2; /* room for the ending */
    /* where to go back to when an ellipsis is needed after all */
    char *fits = out + 1;
    int used = 1, fits_used = 1;
    *to++ = '"';
    for (size_t i = 0; i < length;) {
        char piece[16];
        int width = 0;
        size_t taken = show_one(piece, &width, bytes + i, length - i);
        size_t size = strlen(piece);
        if (used + width + 1 > columns || to + size > limit) {
            memcpy(fits, ellipsis, sizeof ellipsis);
            strcat(fits, "\"");
            return fits_used + 2;
        }
        memcpy(to, piece, size);
        to += size, used += width, i += taken;
        if (used + 2 <= columns) fits = to, fits_used = used;
    }
    *to++ = '"';
    *to = 0;
    return used + 1;
}

size_t text_utf8(char *out, const char *bytes, size_t length)
{
    char *to = out;
    for (size_t i = 0; i < length;) {
        uint32_t point;
        size_t size = decode(bytes + i, length - i, &point);
        memcpy(to, size ? bytes + i : "\xef\xbf\xbd", size ? size : 3);
        to += size ? size : 3;
        i += size ? size : 1;
    }
    *to = 0;
    return (size_t)(to - out);
}
