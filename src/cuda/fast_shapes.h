/*
 * The shared memory of the fast kernels' blocks, for plan.c, which is C; the kernels check these numbers.
 */
#ifndef TB_CUDA_FAST_SHAPES_H
#define TB_CUDA_FAST_SHAPES_H

#define TB_STREAM_C1_512R_BYTES 101504
#define TB_STREAM_C1_512_BYTES 83712
#define TB_STREAM_C1_256_BYTES 57216
#define TB_STREAM_C2_512_BYTES 125568
#define TB_STREAM_C4_256_BYTES 90624
#define TB_STREAM_C8_256_BYTES 103168  /* and its share of the row */
#define TB_STREAM_C16_256_BYTES 144384 /* likewise */

#define TB_FLAT_C1_512_BYTES 8832
#define TB_FLAT_C8_256_BYTES 8832
#define TB_FLAT_C16_256_BYTES 9088

#define TB_PIPE_C2_BYTES 13952 /* each of these and what it has room for of its rows */
#define TB_PIPE_C4_BYTES 15872
#define TB_PIPE_C8_BYTES 19840
#define TB_PIPE_C16_BYTES 28032
#define TB_PIPE_SLOTS 4  /* chunks of a warp, at most */
#define TB_PIPE_WARPS 16 /* of a block, with chunks */

#endif
