/*
 * The commands. Each takes its options and returns the exit status.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "options.h"

int run_sample(const options *o);
int run_show(const options *o);
int run_bench(const options *o);
int run_info(const options *o);

#endif
