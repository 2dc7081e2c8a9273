/*
 * libFuzzer over the command line's reader of .npy headers: any bytes, as the beginning of a file of any
 * size.
 */
#include <stdlib.h>
#include <string.h>

#include "npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t file_size = size;
    npy_header header;
    npy_message message;
    if (size && data[0] != 0x93) { /* not the magic: an odd size of the file, then the file */
        size_t taken = size < 8 ? size : 8;
        memcpy(&file_size, data, taken);
        data += taken, size -= taken;
        if (file_size < size) file_size = size;
    }
    /* a copy of the exact size, so that the address sanitizer sees a byte read too many */
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) return 0;
    memcpy(copy, data, size);
    memset(message.text, 0x7f, sizeof message.text);
    if (npy_parse(copy, size, file_size, &header, &message)) {
        uint64_t item = npy_item_size(&header);
        if (header.rows < 1 || header.columns < 1 || header.data_offset > file_size) abort();
        if ((file_size - header.data_offset) / item / (uint64_t)header.columns != (uint64_t)header.rows)
            abort();
    } else if (!memchr(message.text, 0, sizeof message.text) || !message.text[0]) {
        abort();
    }
    free(copy);
    return 0;
}
