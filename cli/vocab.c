#include "vocab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tombola.h>

#include "fail.h"

#define MAX_BYTES ((size_t)1 << 30)

/* The whole of a regular file; NULL with errno, or with errno 0 when it is no regular file. */
static char *read_file(const char *path, size_t *size)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return NULL;
    struct stat status;
    if (fstat(descriptor, &status) || !S_ISREG(status.st_mode) || (uint64_t)status.st_size > MAX_BYTES) {
        close(descriptor);
        errno = 0;
        return NULL;
    }
    char *bytes = allocate((size_t)status.st_size, 1);
    *size = 0;
    while (*size < (size_t)status.st_size) {
        ssize_t got = read(descriptor, bytes + *size, (size_t)status.st_size - *size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        *size += (size_t)got;
    }
    close(descriptor);
    return bytes;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Undoes the escape after a backslash at `from`. Returns how many characters it took, 0 when it is none. */
static size_t unescape(const char *from, const char *end, char *to)
{
    if (from == end) return 0;
    switch (*from) {
    case 'n': *to = '\n'; return 1;
    case 'r': *to = '\r'; return 1;
    case 't': *to = '\t'; return 1;
    case '\\': *to = '\\'; return 1;
    case 'x':
        if (end - from < 3 || hex_digit(from[1]) < 0 || hex_digit(from[2]) < 0) return 0;
        *to = (char)(hex_digit(from[1]) * 16 + hex_digit(from[2]));
        return 3;
    default: return 0;
    }
}

bool vocab_read(const char *path, vocab *out, char *message, size_t capacity)
{
    *out = (vocab){0};
    size_t size = 0;
    char *bytes = read_file(path, &size);
    if (!bytes) {
        snprintf(message, capacity, "%s", errno ? strerror(errno) : "not a regular file of at most 1 GiB");
        return false;
    }
    size_t lines = size > 0 && bytes[size - 1] != '\n'; /* the last newline may be missing */
    for (size_t i = 0; i < size; i++) lines += bytes[i] == '\n';
    if (lines == 0 || lines > TOMBOLA_MAX_VOCAB_SIZE) {
        snprintf(message, capacity, "%zu lines; a vocabulary has 1 to %d", lines, TOMBOLA_MAX_VOCAB_SIZE);
        free(bytes);
        return false;
    }
    *out =
        (vocab){.bytes = bytes, .starts = allocate(lines + 1, sizeof *out->starts), .count = (int64_t)lines};
    /* In place: undoing escapes never lengthens a text. */
    const char *from = bytes, *end = bytes + size;
    char *to = bytes;
    for (size_t line = 0; line < lines; line++) {
        out->starts[line] = (size_t)(to - bytes);
        while (from < end && *from != '\n') {
            if (*from != '\\') {
                *to++ = *from++;
                continue;
            }
            size_t taken = unescape(from + 1, end, to);
            if (!taken) {
                snprintf(message, capacity,
                         "line %zu: a backslash that begins none of \\n \\r \\t \\\\ \\xHH", line + 1);
                vocab_free(out);
                return false;
            }
            to++, from += 1 + taken;
        }
        from++;
    }
    out->starts[lines] = (size_t)(to - bytes);
    return true;
}

char *vocab_beside(const char *beside)
{
    static const char name[] = "vocab.txt";
    const char *slash = strrchr(beside, '/');
    size_t folder = slash ? (size_t)(slash - beside) + 1 : 0;
    char *path = allocate(folder + sizeof name, 1);
    memcpy(path, beside, folder);
    memcpy(path + folder, name, sizeof name);
    return path;
}

bool vocab_find(const char *beside, int64_t count, vocab *out)
{
    char *path = vocab_beside(beside);
    char message[128];
    bool found = vocab_read(path, out, message, sizeof message);
    free(path);
    if (found && out->count != count) {
        vocab_free(out);
        found = false;
    }
    return found;
}

void vocab_free(vocab *v)
{
    free(v->bytes);
    free(v->starts);
    *v = (vocab){0};
}

const char *vocab_text(const vocab *v, int64_t token, size_t *length)
{
    if (token < 0 || token >= v->count) return NULL;
    *length = v->starts[token + 1] - v->starts[token];
    return v->bytes + v->starts[token];
}
