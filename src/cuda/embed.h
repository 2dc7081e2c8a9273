/* The compiled kernels: one fat binary for each .cu file, embedded in the library by the build. */
#ifndef TB_CUDA_EMBED_H
#define TB_CUDA_EMBED_H

#include <stdbool.h>

typedef struct tb_cuda_image {
    const char *name; /* of its .cu file, without the suffix */
    const void *data;
    bool large;    /* its kernels need more shared memory than TB_LARGE_BYTES, */
    bool clusters; /* and clusters */
} tb_cuda_image;

#define TB_MAX_MODULES 32

extern const tb_cuda_image tb_cuda_images[]; /* ends with a NULL name */

/* The targets that the kernels were compiled for, for messages: "80 86 89 ...". */
extern const char tb_cuda_targets[];

#endif
