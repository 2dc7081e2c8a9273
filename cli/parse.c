#include "parse.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

float parse_float(const char *option, const char *text)
{
    char *end;
    errno = 0;
    /* strtof rounds once; strtod and a conversion would round twice */
    float value = strtof(text, &end);
    if (!strchr("+-.0123456789iInN", text[0]) || end == text || *end)
        fail("--%s: '%s' is not a number", option, text);
    if (errno == ERANGE && isinf(value)) fail("--%s: %s is too great for a 32-bit float", option, text);
    return value;
}

int64_t parse_integer(const char *option, const char *text, int64_t least, int64_t greatest)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!strchr("+-0123456789", text[0]) || end == text || *end)
        fail("--%s: '%s' is not an integer", option, text);
    if (errno == ERANGE || value < least || value > greatest)
        fail("--%s: %s is not within %" PRId64 " .. %" PRId64, option, text, least, greatest);
    return value;
}

uint64_t parse_u64(const char *option, const char *text)
{
    char *end;
    int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
    errno = 0;
    unsigned long long value = strtoull(text, &end, base);
    /* strtoull would take a minus sign and wrap around */
    if (text[0] < '0' || text[0] > '9' || *end)
        fail("--%s: '%s' is not an integer of at least 0", option, text);
    if (errno == ERANGE) fail("--%s: %s is greater than 2^64 - 1", option, text);
    return value;
}

int parse_name(const char *option, const char *text, const char *const *names)
{
    char list[160] = "";
    for (int i = 0; names[i]; i++) {
        if (!strcmp(text, names[i])) return i;
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s",
                 !i             ? ""
                 : names[i + 1] ? ", "
                                : " or ",
                 names[i]);
    }
    fail("--%s: '%s' is not %s", option, text, list);
}
