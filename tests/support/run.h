/*
 * Running a call in a test: contexts for every instruction set, and a workspace of exactly the size asked
 * for, full of garbage before and checked around after.
 */
#ifndef TEST_RUN_H
#define TEST_RUN_H

#include <stdbool.h>
#include <tombola.h>

/* A context without CUDA, or NULL where the machine lacks the instruction set. Any other failure aborts. */
tombola_context *open_context(tombola_isa isa, int threads);

/* The instruction set of a name, TOMBOLA_ISA_AUTO when it is none. */
tombola_isa isa_of_name(const char *name);

/* Sizes a workspace, runs the call, checks that nothing was written around the workspace. On failure
 * error->message says why. */
tombola_result run_call(const tombola_context *context, tombola_call *call, tombola_error *error);

#endif
