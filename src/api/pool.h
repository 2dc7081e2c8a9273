/*
 * A small pool of threads. One job runs at a time; a job that finds the pool busy runs on its caller's
 * thread alone, so that callers never wait for each other.
 */
#ifndef TB_API_POOL_H
#define TB_API_POOL_H

typedef struct tb_pool tb_pool;
typedef void (*tb_pool_task)(void *job, int worker);

/* threads >= 1, the caller's included. NULL when threads cannot be had. */
tb_pool *tb_pool_create(int threads);
void tb_pool_destroy(tb_pool *pool);

/* Calls task(job, worker) on up to `threads` threads at once, worker 0 being the caller, and returns when
 * all have returned. Any subset of the workers may be used: tasks must share the work out themselves. */
void tb_pool_run(tb_pool *pool, int threads, tb_pool_task task, void *job);

#endif
