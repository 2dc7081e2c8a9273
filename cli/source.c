#include "source.h"

#include <inttypes.h>

#include "fail.h"

/* The dtype of the elements: the file's own, or what --dtype-in makes of two bytes. */
static int32_t find_dtype(const options *o, const npy_header *header)
{
    if (header->type == NPY_TWO_BYTES) {
        if (o->dtype == TOMBOLA_BF16) return TOMBOLA_BF16;
        fail("%s: elements of dtype '%s', which could be anything; say --dtype-in bf16 if they are bf16",
             o->file, header->descr);
    }
    int32_t own = header->type == NPY_F32 ? TOMBOLA_F32 : TOMBOLA_F16;
    if (o->dtype != DTYPE_OF_FILE && o->dtype != own)
        fail("%s: its elements are %s ('%s'), not %s", o->file, dtype_names[own], header->descr,
             dtype_names[o->dtype]);
    return own;
}

static void open_vocab(source *s, const options *o)
{
    char message[160];
    if (!o->vocab) {
        vocab_find(s->path, s->vocab_size, &s->vocab);
        return;
    }
    if (!vocab_read(o->vocab, &s->vocab, message, sizeof message)) fail("%s: %s", o->vocab, message);
    /* fewer are in order: models pad their vocabulary to a round number */
    if (s->vocab.count > s->vocab_size)
        fail("%s: %" PRId64 " lines, more than the %" PRId64 " tokens of a row", o->vocab, s->vocab.count,
             s->vocab_size);
}

void source_open(source *s, const options *o)
{
    npy_message message;
    *s = (source){.path = o->file};
    if (!npy_open(o->file, &s->file, &message)) fail("%s: %s", o->file, message.text);
    s->dtype = find_dtype(o, &s->file.header);
    s->rows = s->file.header.rows;
    s->vocab_size = s->file.header.columns;
    if (o->row != ALL_ROWS && o->row >= s->rows)
        fail("--row %" PRId64 ": %s has the rows 0 to %" PRId64, o->row, o->file, s->rows - 1);
    open_vocab(s, o);
}

void source_close(source *s)
{
    npy_close(&s->file);
    vocab_free(&s->vocab);
}

void source_read(const source *s, int64_t first, int64_t count, void *to)
{
    npy_message message;
    if (!npy_read(&s->file, first, count, to, &message)) fail("%s: %s", s->path, message.text);
}

size_t source_row_bytes(const source *s)
{
    return (size_t)s->vocab_size * npy_item_size(&s->file.header);
}
