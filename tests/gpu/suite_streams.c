/* Several streams and threads at once, each with its own workspace and outputs. */
#include "suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "direct.h"

#define STREAMS 8
#define ROUNDS 40
#define SMALL (OUT_ALL & ~(1u << OUT_PROBABILITIES | 1u << OUT_MASKED))

/* A thread's batches while others run theirs. */
static void check_thread(suite *s, void *job, int64_t i)
{
    const pool *pools = job;
    rng r = {options.seed * 77 + (uint64_t)i};
    const pool *p = &pools[i % pool_chains];
    const variant *v = &variants[rng_below(&r, 2) ? rng_below(&r, variant_count) : 0];
    batch how = {.rows = 1 + rng_below(&r, rng_one_in(&r, 3) ? 300 : 20)};
    char text[512], what[300];
    bool good = pool_check(p, v->context, &how, &r, text, sizeof text);
    snprintf(what, sizeof what, "%s, variant %s, %lld rows, beside other threads", p->text, v->name,
             (long long)how.rows);
    suite_result(s, good, text, what);
}

/* One thread keeps eight streams full. The input is shared; workspaces and outputs are not. */
static void check_streams(suite *s, const variant *v, const pool *p)
{
    direct d[STREAMS];
    tb_cu_stream streams[STREAMS];
    tombola_call calls[STREAMS];
    size_t bytes = (size_t)(p->call.rows * p->call.draws) * 4;
    int32_t *got = malloc(bytes), *expected = malloc(bytes);
    bool good = true;
    if (!got || !expected) abort();
    for (int i = 0; i < STREAMS; i++) {
        direct_make(&d[i], p);
        streams[i] = device_stream();
        calls[i] = d[i].call;
        calls[i].data = d[0].call.data;
        calls[i].cuda_stream = streams[i];
        calls[i].advance_offsets = 1;
        calls[i].dependent_launch = i % 2;
        calls[i].tokens = direct_memory(&d[i], bytes);
        good &= direct_workspace(s, &d[i], v->context, &calls[i]);
    }
    tombola_error error = {0};
    for (int round = 0; good && round < ROUNDS; round++)
        for (int i = 0; good && i < STREAMS; i++) {
            good = !tombola_run(v->context, &calls[i], &error);
            if (!good) suite_check(s, false, "%s, variant %s: %s", p->text, v->name, error.message);
        }
    pool_tokens(p, ROUNDS - 1, expected);
    for (int i = 0; good && i < STREAMS; i++) {
        device_read(got, calls[i].tokens, bytes, streams[i]);
        suite_check(s, !memcmp(got, expected, bytes), "%s, variant %s: stream %d of %d differs", p->text,
                    v->name, i, STREAMS);
    }
    for (int i = STREAMS - 1; i >= 0; i--) {
        direct_free(&d[i]);
        CU(cu.cuStreamDestroy(streams[i]));
    }
    free(got);
    free(expected);
}

void suite_streams(suite *s)
{
    pool pools[16];
    int before = options.threads;
    for (int chain = 0; chain < pool_chains; chain++)
        pool_make(&pools[chain], options.seed + 100 + (uint64_t)chain, chain, chain % 3,
                  chain % 2 ? 128256 : 32000, 16, SMALL);
    options.threads = STREAMS;
    suite_parallel(s, check_thread, pools, options.count ? options.count : 1200);
    options.threads = before;
    for (int chain = 0; chain < pool_chains; chain++)
        for (int v = 0; v < variant_count; v++)
            if (variant_turn(v, chain, 4)) check_streams(s, &variants[v], &pools[chain]);
    for (int chain = 0; chain < pool_chains; chain++) pool_free(&pools[chain]);
}
