/*
 * Which block of host memory a pointer lies in. The test support's calls point into blocks from malloc,
 * margins that nobody may touch included; run_gpu.c copies whole blocks to the device and back, so that all
 * the support's checks hold for device memory as they are.
 *
 * The program is linked with --wrap=malloc and --wrap=free.
 */
#ifndef TEST_GPU_BLOCKS_H
#define TEST_GPU_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct block {
    unsigned char *start;
    size_t bytes;
} block;

/* False when the pointer is in no living block. */
bool block_of(const void *pointer, block *found);

#endif
