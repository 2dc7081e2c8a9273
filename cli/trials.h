/*
 * `tombola sample --trace FILE`: what each trial of each draw does, as JSON lines. The reference draws them
 * once more; every backend draws the same tokens in the same rounds.
 */
#ifndef CLI_TRIALS_H
#define CLI_TRIALS_H

#include <stdio.h>

#include "sample.h"

/* Opens --trace's file, and empties it; fails where it is one that the command reads. To be called when
 * nothing else can be wrong with the call, so that a mistake elsewhere costs no file. */
FILE *trials_open(const options *o);
void trials_close(FILE *file, const char *path);

/* Writes the draws of row r of the call that was run for `s`. */
void trials_write(FILE *file, const sampled *s, const tombola_call *call, int64_t r);

#endif
