/*
 * The shared memory of the kernels for whole-row outputs, for plan.c, which is C; the kernels check it.
 */
#ifndef TB_CUDA_WHOLE_SHAPES_H
#define TB_CUDA_WHOLE_SHAPES_H

#define TB_WHOLE_THREADS 256
#define TB_WHOLE_FIXED_BYTES 6928
#define TB_WHOLE_WARP_BYTES 52 /* for each warp of the team: two words of mail, its groups, its flags */

#define TB_PICK_THREADS 256
#define TB_PICK_BYTES 51200 /* of a block that lists a row's greatest tokens, or runs the generic code */
#define TB_PICK_MOST 2048   /* tokens that it keeps or sorts */

#endif
