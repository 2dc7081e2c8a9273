#include "pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct tb_pool {
    pthread_mutex_t busy; /* held by the caller whose job runs */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t start, done;
    unsigned generation; /* of the job; workers wait for it to change */
    int wanted;          /* workers with a number below it take part */
    int running;
    bool stop;
    tb_pool_task task;
    void *job;
    int threads;
    struct worker {
        tb_pool *pool;
        pthread_t thread;
        int number;
    } workers[];
};

static void *worker_main(void *argument)
{
    struct worker *self = argument;
    tb_pool *pool = self->pool;
    unsigned seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->stop && pool->generation == seen) pthread_cond_wait(&pool->start, &pool->lock);
        if (pool->stop) break;
        seen = pool->generation;
        if (self->number >= pool->wanted) continue;
        tb_pool_task task = pool->task;
        void *job = pool->job;
        pthread_mutex_unlock(&pool->lock);
        task(job, self->number);
        pthread_mutex_lock(&pool->lock);
        if (--pool->running == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

tb_pool *tb_pool_create(int threads)
{
    tb_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof pool->workers[0]);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->busy, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = 1;
    for (int i = 1; i < threads; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->number = i;
        if (pthread_create(&worker->thread, NULL, worker_main, worker)) {
            tb_pool_destroy(pool);
            return NULL;
        }
        pool->threads = i + 1;
    }
    return pool;
}

void tb_pool_destroy(tb_pool *pool)
{
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i < pool->threads; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->start);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->busy);
    free(pool);
}

void tb_pool_run(tb_pool *pool, int threads, tb_pool_task task, void *job)
{
    if (threads > pool->threads) threads = pool->threads;
    if (threads <= 1 || pthread_mutex_trylock(&pool->busy)) {
        task(job, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->job = job;
    pool->wanted = threads;
    pool->running = threads - 1;
    pool->generation++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    task(job, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->running > 0) pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->busy);
}
