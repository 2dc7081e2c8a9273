/*
 * The shared memory of the fast kernels' blocks, for plan.c, which is C; the kernels check these numbers.
 */
#ifndef TB_CUDA_FAST_SHAPES_H
#define TB_CUDA_FAST_SHAPES_H

#define TB_STREAM_C1_512_BYTES 94976
#define TB_STREAM_C1_256_BYTES 51968
#define TB_STREAM_C2_512_BYTES 103936
#define TB_STREAM_C4_512_BYTES 105600
#define TB_STREAM_C4_256_BYTES 88704
#define TB_STREAM_C8_256_BYTES 99584   /* and its share of the row */
#define TB_STREAM_C16_256_BYTES 137728 /* likewise */

#define TB_FLAT_C1_512_BYTES 9472
#define TB_FLAT_C8_256_BYTES 10752
#define TB_FLAT_C16_256_BYTES 12800

#define TB_WIDE_C1_512_BYTES 30464 /* each of these and what it keeps of the row */
#define TB_WIDE_C2_512_BYTES 31360
#define TB_WIDE_C8_256_BYTES 25216
#define TB_WIDE_C16_256_BYTES 25216

#endif
