/* `tombola bench --method`: EXACT beside the article's methods, with the rounds that these take. */
#include <inttypes.h>
#include <stdio.h>

#include "bench.h"
#include "fail.h"

static bool wanted(const bench *b, int32_t method)
{
    return method == TOMBOLA_EXACT || b->options->method == ALL_METHODS || b->options->method == method;
}

void bench_methods_heading(const bench *b)
{
    printf("%-40s  %8s", "microseconds per row", "exact");
    for (int32_t m = TOMBOLA_REJECTION; m <= TOMBOLA_DUAL_PIVOT; m++)
        if (wanted(b, m)) printf("  %11s  %6s  %4s", method_names[m], "rounds", "most");
    printf("\n");
}

/* A temperature after the last filter, which the article's methods refuse; `why` says so. */
static bool refused(const bench *b, tombola_call *call, tombola_error *why)
{
    size_t size;
    return tombola_workspace_size(b->engine.context, call, &size, why) == TOMBOLA_ERROR_REFUSED;
}

/* False, and why, where the library refuses the chain. */
static bool time_method(bench *b, const chain *c, int32_t method, tombola_error *why)
{
    const options *o = b->options;
    double rounds = 0;
    int32_t most = 0;
    for (int32_t i = -BENCH_WARM_UP; i < o->repeats; i++) {
        tombola_call call = bench_call(b, c, bench_fresh_rows(b, i + BENCH_WARM_UP));
        call.method = method;
        call.rounds = b->rounds;
        call.offset = (uint64_t)(i + BENCH_WARM_UP);
        if (refused(b, &call, why)) {
            printf("  %11s  %6s  %4s", "refused", "-", "-");
            return false;
        }
        double seconds = engine_run(&b->engine, &call) / (double)o->batch;
        if (i < 0) continue;
        b->ours[i] = seconds;
        for (int64_t r = 0; r < o->batch; r++) {
            rounds += b->rounds[r];
            if (b->rounds[r] > most) most = b->rounds[r];
        }
    }
    double microseconds = 1e6 * workload_median(b->ours, o->repeats);
    if (method == TOMBOLA_EXACT)
        printf("  %8.2f", microseconds);
    else
        b->methods_timed++,
            printf("  %11.2f  %6.2f  %4" PRId32, microseconds, rounds / o->repeats / (double)o->batch, most);
    return true;
}

void bench_methods_line(bench *b, const chain *c)
{
    char name[256];
    bench_chain_name(c, name, sizeof name);
    printf("%-40s", name);
    tombola_error why = {0};
    bool all = true;
    for (int32_t m = TOMBOLA_EXACT; m <= TOMBOLA_DUAL_PIVOT; m++)
        if (wanted(b, m)) all &= time_method(b, c, m, &why);
    putchar('\n');
    if (!all) printf("    refused: %s\n", why.message);
    fflush(stdout);
}
