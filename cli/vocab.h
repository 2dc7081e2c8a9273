/*
 * The texts of a vocabulary's tokens: a file with one line per token, in the order of the ids. In a line
 * \n \r \t \\ and \xHH (one byte) stand for what cannot be there itself; a token's text is bytes, which need
 * not be UTF-8.
 */
#ifndef CLI_VOCAB_H
#define CLI_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vocab {
    char *bytes;    /* all texts, without separators */
    size_t *starts; /* [count + 1] */
    int64_t count;
} vocab;

/* False: the message says why, in one line. */
bool vocab_read(const char *path, vocab *out, char *message, size_t capacity);

/* The path of vocab.txt in the folder of `beside`, the caller's to free. */
char *vocab_beside(const char *beside);

/* Takes vocab.txt from the folder of `beside`, if it is there, well formed and has exactly `count` lines. */
bool vocab_find(const char *beside, int64_t count, vocab *out);

void vocab_free(vocab *v);

/* A token's text; NULL where the vocabulary does not have it. */
const char *vocab_text(const vocab *v, int64_t token, size_t *length);

#endif
