#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tombola.h>

static __attribute__((format(printf, 2, 3))) bool refuse(npy_message *message, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(message->text, sizeof message->text, format, values);
    va_end(values);
    return false;
}

/* ---- the header's Python literal ---- */

/* The part of the literal that is not read yet. */
typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

/* Takes the character, after any white space. */
static bool take(cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length)) return false;
    c->at += length;
    return true;
}

/* A string in single or double quotes, without escapes: NumPy writes none in what is read here. */
static bool take_string(cursor *c, char *text, size_t capacity)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    size_t length = 0;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (*c->at == '\\' || (unsigned char)*c->at < 0x20 || length + 1 >= capacity) return false;
        text[length++] = *c->at;
    }
    text[length] = 0;
    return take(c, quote);
}

/* A length of the shape; UINT64_MAX where the number does not fit. */
static bool take_length(cursor *c, uint64_t *value)
{
    skip_space(c);
    const char *first = c->at;
    *value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *c->at - '0', value))
            *value = UINT64_MAX;
    if (c->at == first) return false;
    if (c->at < c->end && *c->at == 'L') c->at++; /* Python 2's long integers */
    return true;
}

#define MAX_DIMENSIONS 64

/* A tuple of lengths; only the first two are kept. */
static bool take_shape(cursor *c, uint64_t lengths[2], int *dimensions)
{
    *dimensions = 0;
    if (!take(c, '(')) return false;
    while (!take(c, ')')) {
        uint64_t length;
        if (*dimensions == MAX_DIMENSIONS || !take_length(c, &length)) return false;
        if (*dimensions < 2) lengths[*dimensions] = length;
        ++*dimensions;
        if (take(c, ',')) continue;
        /* (3) is a number and no tuple */
        return *dimensions > 1 && take(c, ')');
    }
    return true;
}

/* What the literal says. */
typedef struct description {
    char descr[24];
    bool fortran;
    uint64_t lengths[2];
    int dimensions;
} description;

static bool parse_literal(cursor c, description *out, npy_message *message)
{
    enum { DESCR = 1, FORTRAN = 2, SHAPE = 4 };
    int seen = 0;
    if (!take(&c, '{')) return refuse(message, "malformed header: no dictionary");
    while (!take(&c, '}')) {
        char key[24];
        int which = 0;
        if (!take_string(&c, key, sizeof key) || !take(&c, ':'))
            return refuse(message, "malformed header: a key is missing");
        if (!strcmp(key, "descr"))
            which = DESCR;
        else if (!strcmp(key, "fortran_order"))
            which = FORTRAN;
        else if (!strcmp(key, "shape"))
            which = SHAPE;
        else
            return refuse(message, "malformed header: unknown key '%s'", key);
        if (seen & which) return refuse(message, "malformed header: '%s' stands twice", key);
        seen |= which;
        bool good = false;
        if (which == DESCR) {
            skip_space(&c);
            if (c.at < c.end && *c.at == '[')
                return refuse(message, "a structured array; float32 or float16 is needed");
            good = take_string(&c, out->descr, sizeof out->descr);
        } else if (which == FORTRAN) {
            out->fortran = take_word(&c, "True");
            good = out->fortran || take_word(&c, "False");
        } else {
            good = take_shape(&c, out->lengths, &out->dimensions);
        }
        if (!good) return refuse(message, "malformed header: the value of '%s'", key);
        if (take(&c, ',')) continue;
        if (take(&c, '}')) break;
        return refuse(message, "malformed header: no comma after the value of '%s'", key);
    }
    skip_space(&c);
    if (c.at != c.end) return refuse(message, "malformed header: text after the dictionary");
    if (seen != (DESCR | FORTRAN | SHAPE))
        return refuse(message, "malformed header: %s is missing",
                      !(seen & DESCR)     ? "'descr'"
                      : !(seen & FORTRAN) ? "'fortran_order'"
                                          : "'shape'");
    return true;
}

/* ---- what the literal means ---- */

static bool find_type(const char *descr, npy_header *header, npy_message *message)
{
    static const struct {
        const char *descr;
        npy_type type;
    } known[] = {{"<f4", NPY_F32},
                 {"<f2", NPY_F16},
                 {"<u2", NPY_TWO_BYTES},
                 {"|V2", NPY_TWO_BYTES},
                 {"<V2", NPY_TWO_BYTES}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(descr, known[i].descr)) continue;
        header->type = known[i].type;
        strcpy(header->descr, known[i].descr);
        return true;
    }
    if (descr[0] == '>') return refuse(message, "dtype '%s' is big endian; save it as '<f4' or '<f2'", descr);
    return refuse(message, "dtype '%s' is not read; save it as float32 ('<f4') or float16 ('<f2')", descr);
}

static bool find_shape(const description *d, npy_header *header, npy_message *message)
{
    if (d->dimensions < 1 || d->dimensions > 2)
        return refuse(message, "an array of %d dimensions; [vocab_size] or [rows, vocab_size] is needed",
                      d->dimensions);
    uint64_t rows = d->dimensions == 2 ? d->lengths[0] : 1;
    uint64_t columns = d->lengths[d->dimensions - 1];
    if (rows == 0) return refuse(message, "no rows: the shape is (0, %" PRIu64 ")", columns);
    if (columns == 0) return refuse(message, "rows of no elements: the last length of the shape is 0");
    if (columns > TOMBOLA_MAX_VOCAB_SIZE)
        return refuse(message, "rows of %" PRIu64 " elements; at most %d are read", columns,
                      TOMBOLA_MAX_VOCAB_SIZE);
    if (rows > INT32_MAX) return refuse(message, "%" PRIu64 " rows; at most %d are read", rows, INT32_MAX);
    header->rows = (int64_t)rows;
    header->columns = (int64_t)columns;
    return true;
}

size_t npy_item_size(const npy_header *header)
{
    return header->type == NPY_F32 ? 4 : 2;
}

bool npy_parse(const void *bytes, size_t size, uint64_t file_size, npy_header *header, npy_message *message)
{
    const uint8_t *b = bytes;
    *header = (npy_header){0};
    if (file_size == 0) return refuse(message, "the file is empty");
    if (size >= 4 && !memcmp(b, "PK\3\4", 4))
        return refuse(message, "a .npz or zip archive; save the one array with numpy.save");
    if (size < 6 || memcmp(b, "\x93NUMPY", 6)) return refuse(message, "not a .npy file (wrong magic)");
    if (size < 8) return refuse(message, "truncated: the header's prefix is missing");
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return refuse(message, ".npy version %d.%d is unknown; 1.0, 2.0 and 3.0 are read", b[6], b[7]);
    size_t prefix = b[6] == 1 ? 10 : 12;
    if (size < prefix) return refuse(message, "truncated: the header's prefix is missing");
    uint64_t length = b[8] | (uint64_t)b[9] << 8;
    if (b[6] > 1) length |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
    header->data_offset = prefix + length;
    if (header->data_offset > file_size)
        return refuse(message, "truncated: the header claims %" PRIu64 " bytes, the file has %" PRIu64,
                      header->data_offset, file_size);
    if (header->data_offset > NPY_MAX_HEADER || header->data_offset > size)
        return refuse(message, "the header claims %" PRIu64 " bytes; at most %d are read",
                      header->data_offset, NPY_MAX_HEADER);

    const char *literal = (const char *)b + prefix;
    description d = {0};
    if (!parse_literal((cursor){literal, literal + length}, &d, message)) return false;
    if (!find_type(d.descr, header, message)) return false;
    if (!find_shape(&d, header, message)) return false;
    /* the header of a one-row array that numpy calls Fortran does not occur: C order is written for both */
    if (d.fortran)
        return refuse(message, "the array is in Fortran order; save numpy.ascontiguousarray(array)");

    /* 2^31 rows of 2^22 elements of 4 bytes: no overflow */
    uint64_t needed = (uint64_t)header->rows * (uint64_t)header->columns * npy_item_size(header);
    uint64_t there = file_size - header->data_offset;
    if (there < needed)
        return refuse(message,
                      "truncated: %" PRId64 " x %" PRId64 " elements of '%s' take %" PRIu64
                      " bytes, the file has %" PRIu64 " after its header",
                      header->rows, header->columns, header->descr, needed, there);
    if (there > needed)
        return refuse(message, "%" PRIu64 " bytes follow the %" PRId64 " x %" PRId64 " array of the header",
                      there - needed, header->rows, header->columns);
    return true;
}

/* ---- the file ---- */

/* Reads size bytes at offset, however many calls it takes. Returns how many there were, or -1. */
static ssize_t read_at(int descriptor, void *to, size_t size, uint64_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(descriptor, (char *)to + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

bool npy_open(const char *path, npy_file *file, npy_message *message)
{
    *file = (npy_file){.descriptor = -1};
    /* O_NONBLOCK: opening a pipe without a writer would wait for one */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return refuse(message, "%s", strerror(errno));
    struct stat status;
    static _Thread_local uint8_t bytes[NPY_MAX_HEADER];
    bool good = false;
    if (fstat(descriptor, &status)) {
        refuse(message, "%s", strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        refuse(message, "not a regular file");
    } else {
        size_t wanted = (uint64_t)status.st_size < sizeof bytes ? (size_t)status.st_size : sizeof bytes;
        ssize_t got = read_at(descriptor, bytes, wanted, 0);
        if (got < 0)
            refuse(message, "%s", strerror(errno));
        else
            good = npy_parse(bytes, (size_t)got, (uint64_t)status.st_size, &file->header, message);
    }
    if (good)
        file->descriptor = descriptor;
    else
        close(descriptor);
    return good;
}

void npy_close(npy_file *file)
{
    if (file->descriptor >= 0) close(file->descriptor);
    file->descriptor = -1;
}

bool npy_read(const npy_file *file, int64_t first, int64_t count, void *to, npy_message *message)
{
    uint64_t row_size = (uint64_t)file->header.columns * npy_item_size(&file->header);
    size_t size = (size_t)(row_size * (uint64_t)count);
    ssize_t got = read_at(file->descriptor, to, size, file->header.data_offset + row_size * (uint64_t)first);
    if (got < 0) return refuse(message, "%s", strerror(errno));
    if ((size_t)got < size) return refuse(message, "truncated while it was read");
    return true;
}
