/*
 * The shared memory of the fast kernels' blocks, for the plan, which is C; the kernels check these numbers.
 */
#ifndef TB_CUDA_FAST_SHAPES_H
#define TB_CUDA_FAST_SHAPES_H

#define TB_STREAM_C1_512_BYTES 83712
#define TB_STREAM_C1_256_BYTES 57216
#define TB_STREAM_C2_512_BYTES 125696
#define TB_STREAM_C4_256_BYTES 90752
#define TB_STREAM_C4_512_BYTES 107264
#define TB_STREAM_C8_256_BYTES 103680  /* and its share of the row */
#define TB_STREAM_C16_256_BYTES 145024 /* likewise */

#define TB_LARGE_BYTES 101376 /* what a block can have on the smaller devices with clusters, 12.x */

#define TB_FLAT_C1_512_BYTES 8832
#define TB_FLAT_C8_256_BYTES 8832

#define TB_PIPE_C2_BYTES 14208 /* each of these and what it has room for of its rows */
#define TB_PIPE_C4_BYTES 16128
#define TB_PIPE_C8_BYTES 20096
#define TB_PIPE_C16_BYTES 28288
#define TB_PIPE_ENTROPY_BYTES 8192 /* and for the entropy: 16 for each chunk of rows to be drawn */
#define TB_PIPE_SLOTS 4            /* rows in a block's shared memory, at most */
#define TB_PIPE_WARPS 16           /* of a block, with a chunk of the row each */
#define TB_PIPE_LOOKERS 4          /* warps that find the maximum, of the chunks of several each */
#define TB_PIPE_OTHERS (TB_PIPE_WARPS + TB_PIPE_LOOKERS + 3) /* and one that copies, looks ahead, decides */
#define TB_PIPE_DRAWERS(blocks) ((blocks) > 2 ? 1 : 2)       /* warps that draw */

#define TB_GREEDY_THREADS 512 /* of a block of several for a greedy row, */
#define TB_GREEDY_ALONE 256   /* and of one alone */

#define TB_FLAT_ONCE_THREADS 512 /* of few rows without a filter: a block's, */
#define TB_FLAT_ONCE_BYTES 1280  /* and what it has beside its share of the row */

#define TB_WHOLE_PIPE_C2_BYTES 9216 /* of softmax, likewise */
#define TB_WHOLE_PIPE_C4_BYTES 9216
#define TB_WHOLE_PIPE_C8_BYTES 12288
#define TB_WHOLE_PIPE_C16_BYTES 18432
#define TB_WHOLE_PIPE_WRITERS 4 /* warps that write */

#define TB_WHOLE_ONCE_THREADS 512 /* of softmax of few rows: a block of 16, */
#define TB_WHOLE_ONCE_WEIGHTS 16  /* elements of each */

#define TB_FEW_PIPE_C2_BYTES 28800 /* of few kept tokens, likewise */
#define TB_FEW_PIPE_C4_BYTES 28672
#define TB_FEW_PIPE_C8_BYTES 35712
#define TB_FEW_PIPE_FINISHERS 5 /* warps: one that mails, two that cut, two that fill the output */
#define TB_FEW_PIPE_MOST_K 64

#endif
