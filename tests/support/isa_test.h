/*
 * The cmocka programs that run once per instruction set: `test_x portable|avx2|avx512`.
 */
#ifndef TEST_ISA_TEST_H
#define TEST_ISA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run.h"

/* Ends a test loudly where a context is missing because the machine lacks its instruction set. */
#define SKIP_WITHOUT(context, isa)                                                                           \
    do {                                                                                                     \
        if (!(context)) {                                                                                    \
            printf("SKIPPED: this machine lacks %s\n", tombola_isa_name(isa));                               \
            skip();                                                                                          \
        }                                                                                                    \
    } while (0)

/* The instruction set that the command line names; ends the program where it names none. */
#define ISA_ARGUMENT(argc, argv)                                                                             \
    ((argc) > 1 && isa_of_name((argv)[1])                                                                    \
         ? isa_of_name((argv)[1])                                                                            \
         : (fprintf(stderr, "usage: %s portable|avx2|avx512\n", *(argv)), exit(2), TOMBOLA_ISA_AUTO))

#endif
