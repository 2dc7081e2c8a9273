/*
 * Rows from a .npy file (NumPy's format, versions 1.0 to 3.0).
 *
 * Read are one- and two-dimensional arrays in C order of '<f4', '<f2', and of the two-byte types that
 * bf16 hides behind: '<u2', '|V2' and '<V2' (what NumPy writes for ml_dtypes' bfloat16). A
 * one-dimensional array is one row. The data must end where the file ends: bytes after it mean that the
 * header lies, or that the file holds several arrays, and are refused.
 *
 * Rows are read with pread into memory of the caller, not mapped: a file that shrinks meanwhile is then an
 * error and not a SIGBUS, the data is aligned wherever the header ends, and one row of a large file costs
 * one row.
 */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest header that is read, its prefix included. NumPy writes 128 bytes, and reads 10000. */
#define NPY_MAX_HEADER 65536

typedef enum npy_type { NPY_F32, NPY_F16, NPY_TWO_BYTES } npy_type;

typedef struct npy_header {
    npy_type type;
    char descr[8]; /* as it stands in the file, for messages */
    int64_t rows, columns;
    uint64_t data_offset;
} npy_header;

typedef struct npy_message {
    char text[320];
} npy_message;

/* Reads a header from the file's first bytes: the whole file, or at least NPY_MAX_HEADER bytes of it. A pure
 * function that touches nothing outside its arguments. False: *message says why. */
bool npy_parse(const void *bytes, size_t size, uint64_t file_size, npy_header *header, npy_message *message);

typedef struct npy_file {
    npy_header header;
    int descriptor;
} npy_file;

/* Opens a regular file; anything else (a folder, a pipe, a device) is refused without reading from it. */
bool npy_open(const char *path, npy_file *file, npy_message *message);
void npy_close(npy_file *file);

size_t npy_item_size(const npy_header *header);

/* Reads rows first .. first + count - 1. */
bool npy_read(const npy_file *file, int64_t first, int64_t count, void *to, npy_message *message);

#endif
