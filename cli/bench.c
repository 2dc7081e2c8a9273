/* `tombola bench`: chains timed beside the sort-based baseline. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "commands.h"
#include "fail.h"

#define ROTATING 16                   /* different rows at least */
#define ROWS_BYTES ((int64_t)1 << 30) /* of all rows at most */

/* The chains that are timed when none is given; the first is llama.cpp's default in llama.cpp's order. */
static const chain usual_chains[] = {
    {4,
     {{.kind = TOMBOLA_TOP_K, .k = 40},
      {.kind = TOMBOLA_TOP_P, .value = 0.95f},
      {.kind = TOMBOLA_MIN_P, .value = 0.05f},
      {.kind = TOMBOLA_TEMPERATURE, .value = 0.8f}}},
    {2, {{.kind = TOMBOLA_TOP_K, .k = 50}, {.kind = TOMBOLA_TOP_P, .value = 0.9f}}},
    {1, {{.kind = TOMBOLA_TOP_P, .value = 0.9f}}},
    {1, {{.kind = TOMBOLA_TEMPERATURE, .value = 0.8f}}},
    {1, {{.kind = TOMBOLA_MIN_P, .value = 0.05f}}},
    {1, {{.kind = TOMBOLA_TOP_K, .k = 1000}}},
};

static void make_rows(bench *b)
{
    const options *o = b->options;
    b->row_bytes = (size_t)o->vocab_size * (o->dtype == TOMBOLA_F32 ? 4 : 2);
    b->row_count = o->batch * 2 > ROTATING ? o->batch * 2 : ROTATING;
    if (b->row_count * (int64_t)b->row_bytes > ROWS_BYTES) b->row_count = ROWS_BYTES / (int64_t)b->row_bytes;
    if (b->row_count < o->batch) b->row_count = o->batch;
    b->rows = engine_allocate(&b->engine, (size_t)b->row_count, b->row_bytes);
    float *row = allocate((size_t)o->vocab_size, sizeof *row);
    for (int64_t i = 0; i < b->row_count; i++) {
        workload_fill(row, o->vocab_size, o->distribution, (uint64_t)i + 1);
        workload_store(b->rows + (size_t)i * b->row_bytes, row, o->vocab_size, o->dtype);
    }
    free(row);
}

/* The rows of call number i: the next ones of the rotation. */
static const char *rows_of(const bench *b, int64_t i)
{
    int64_t calls = b->row_count / b->options->batch;
    return b->rows + (size_t)(i % calls * b->options->batch) * b->row_bytes;
}

const char *bench_fresh_rows(const bench *b, int64_t i)
{
    if (b->options->backend == TOMBOLA_BACKEND_CUDA) return rows_of(b, i);
    memcpy(b->work, rows_of(b, i), (size_t)b->options->batch * b->row_bytes);
    return b->work;
}

tombola_call bench_call(const bench *b, const chain *c, const char *rows)
{
    tombola_call call = engine_call(b->options);
    call.method = TOMBOLA_EXACT;
    call.steps = c->steps;
    call.step_count = c->step_count;
    call.data = rows;
    call.dtype = b->options->dtype;
    call.rows = b->options->batch;
    call.vocab_size = b->options->vocab_size;
    call.tokens = b->tokens;
    return call;
}

/* Draws one call's rows on both sides with the same random numbers, in the same order of tokens. */
static void compare(bench *b, const chain *c, workload_random *random, int64_t i, int64_t *same, int64_t *of)
{
    const options *o = b->options;
    const char *rows = rows_of(b, i);
    for (int64_t r = 0; r < o->batch; r++) b->random[r] = workload_random_bits(random);
    tombola_call call = bench_call(b, c, rows);
    call.random = b->random;
    call.kept_count = b->kept;
    engine_run(&b->engine, &call);
    /* the baseline is slow: a few rows of a large batch do */
    for (int64_t r = 0; r < o->batch && r < ROTATING; r++, ++*of)
        *same += b->tokens[r] == baseline_draw(b->baseline, rows + (size_t)r * b->row_bytes, o->dtype,
                                               c->steps, c->step_count, o->ties, b->random[r], true);
}

void bench_chain_name(const chain *c, char *name, size_t capacity)
{
    snprintf(name, capacity, "no chain");
    for (int32_t i = 0, at = 0; i < c->step_count && at < (int)capacity; i++) {
        char step[64];
        if (c->steps[i].kind == TOMBOLA_TEMPERATURE)
            snprintf(step, sizeof step, "T %.7g", (double)c->steps[i].value);
        else
            options_step_name(&c->steps[i], step, sizeof step);
        at += snprintf(name + at, capacity - (size_t)at, "%s%s", i ? ", " : "", step);
    }
}

/* A line of the table beside the baseline. */
static void time_chain(bench *b, const chain *c)
{
    const options *o = b->options;
    workload_random random;
    workload_random_seed(&random, 1);
    int64_t same = 0, of = 0;
    for (int64_t i = 0; i < BENCH_WARM_UP; i++) {
        tombola_call call = bench_call(b, c, rows_of(b, i));
        engine_run(&b->engine, &call);
    }
    for (int32_t i = 0; i < o->repeats; i++) { /* in turns, so that a change of clock meets both */
        tombola_call call = bench_call(b, c, bench_fresh_rows(b, i));
        call.offset = (uint64_t)i;
        b->ours[i] = engine_run(&b->engine, &call) / (double)o->batch;
        uint64_t bits = workload_random_bits(&random);
        const char *rows = bench_fresh_rows(b, i);
        double start = workload_now();
        baseline_draw(b->baseline, rows, o->dtype, c->steps, c->step_count, TOMBOLA_TIES_INDEX, bits, false);
        b->theirs[i] = workload_now() - start;
        if (of < 4 * ROTATING) compare(b, c, &random, i, &same, &of);
    }
    double ours = workload_median(b->ours, o->repeats), theirs = workload_median(b->theirs, o->repeats);
    char name[256];
    bench_chain_name(c, name, sizeof name);
    printf("%-40s  %8.2f  %10.2f  %6.1fx  %7" PRId32 "  %3" PRId64 "/%" PRId64 "\n", name, 1e6 * ours,
           1e6 * theirs, theirs / ours, b->kept[0], same, of);
    fflush(stdout);
}

static void print_heading(const bench *b)
{
    const options *o = b->options;
    chain none = {0};
    tombola_call call = bench_call(b, &none, b->rows);
    char plan[256];
    tombola_error error;
    if (tombola_plan(b->engine.context, &call, plan, sizeof plan, &error)) fail("%s", error.message);
    printf("%s rows of %" PRId64 " %s, %" PRId64 " in a call, medians of %" PRId32 " calls; %s\n\n",
           workload_names[o->distribution], o->vocab_size, dtype_names[o->dtype], o->batch, o->repeats, plan);
    if (o->method != TOMBOLA_EXACT) {
        bench_methods_heading(b);
        return;
    }
    printf("%-40s  %8s  %10s  %7s  %7s  %s\n", "microseconds per row", "tombola", "sort-based", "ratio",
           "kept", "same token");
}

int run_bench(const options *o)
{
    bench b = {.options = o};
    engine_open(&b.engine, o);
    make_rows(&b);
    b.work = allocate((size_t)o->batch, b.row_bytes);
    b.baseline = baseline_create(o->vocab_size);
    b.tokens = engine_allocate(&b.engine, (size_t)o->batch, sizeof *b.tokens);
    b.kept = engine_allocate(&b.engine, (size_t)o->batch, sizeof *b.kept);
    b.rounds = engine_allocate(&b.engine, (size_t)o->batch, sizeof *b.rounds);
    b.random = engine_allocate(&b.engine, (size_t)o->batch, sizeof *b.random);
    b.ours = allocate((size_t)o->repeats, sizeof *b.ours);
    b.theirs = allocate((size_t)o->repeats, sizeof *b.theirs);
    print_heading(&b);
    void (*line)(bench * b, const chain *c) = o->method == TOMBOLA_EXACT ? time_chain : bench_methods_line;
    if (o->step_count) {
        chain given = {.step_count = o->step_count};
        memcpy(given.steps, o->steps, sizeof given.steps);
        line(&b, &given);
    }
    for (size_t i = 0; !o->step_count && i < sizeof usual_chains / sizeof usual_chains[0]; i++)
        line(&b, &usual_chains[i]);
    free(b.ours), free(b.theirs), free(b.work);
    engine_free(&b.engine, b.tokens), engine_free(&b.engine, b.kept), engine_free(&b.engine, b.random);
    engine_free(&b.engine, b.rounds);
    engine_free(&b.engine, b.rows);
    baseline_destroy(b.baseline);
    engine_close(&b.engine);
    /* a table in which every method was refused answers nothing */
    return o->method != TOMBOLA_EXACT && !b.methods_timed ? EXIT_FAIL : 0;
}
