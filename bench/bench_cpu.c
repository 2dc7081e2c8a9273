/*
 * The CPU backend beside llama.cpp and beside a plain read of the row, one thread, one row at a time.
 *
 *     bench_cpu [--llama LIBLLAMA --llama-version TEXT] [--gemma FILE.npy] [--isa NAME] [--seconds S]
 *               [--only CHAIN] [--logits NAME] [--vocab-size V] [--dtype f32|f16|bf16] [--json FILE]
 *
 * A job is the whole way from a row of floats to a token: what llama_sampler_sample does (fill the candidate
 * array, apply the chain, accept), and tombola_run. Before each job one of 32 different rows is copied into
 * the working row, untimed: "just written by the model". Medians. The read is an XOR over the row in the
 * widest vectors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <tombola.h>

#include "npy.h"
#include "peer_llama.h"
#include "workload.h"
#include "../src/law/convert.h"

#define ROWS 32
#define MAX_REPEATS 2000

typedef struct setting {
    const char *name;
    tombola_step steps[4];
    int step_count;
    peer_llama_step peer[5];
    int peer_count;
} setting;

/* default_chain is llama.cpp's default order. k50_p0.9 is the joint filter here and top_k, then top_p, there.
 */
static const setting settings[] = {
    {"default_chain",
     {{.kind = TOMBOLA_TOP_K, .k = 40},
      {.kind = TOMBOLA_TOP_P, .value = 0.95f},
      {.kind = TOMBOLA_MIN_P, .value = 0.05f},
      {.kind = TOMBOLA_TEMPERATURE, .value = 0.8f}},
     4,
     {{.kind = PEER_LLAMA_TOP_K, .k = 40},
      {.kind = PEER_LLAMA_TOP_P, .value = 0.95f},
      {.kind = PEER_LLAMA_MIN_P, .value = 0.05f},
      {.kind = PEER_LLAMA_TEMP, .value = 0.8f},
      {.kind = PEER_LLAMA_DIST, .seed = 1}},
     5},
    {"p0.9",
     {{.kind = TOMBOLA_TOP_P, .value = 0.9f}},
     1,
     {{.kind = PEER_LLAMA_TOP_P, .value = 0.9f}, {.kind = PEER_LLAMA_DIST, .seed = 1}},
     2},
    {"temperature",
     {{.kind = TOMBOLA_TEMPERATURE, .value = 0.8f}},
     1,
     {{.kind = PEER_LLAMA_TEMP, .value = 0.8f}, {.kind = PEER_LLAMA_DIST, .seed = 1}},
     2},
    {"min_p0.05",
     {{.kind = TOMBOLA_MIN_P, .value = 0.05f}},
     1,
     {{.kind = PEER_LLAMA_MIN_P, .value = 0.05f}, {.kind = PEER_LLAMA_DIST, .seed = 1}},
     2},
    {"k1000",
     {{.kind = TOMBOLA_TOP_K, .k = 1000}},
     1,
     {{.kind = PEER_LLAMA_TOP_K, .k = 1000}, {.kind = PEER_LLAMA_DIST, .seed = 1}},
     2},
    {"k50_p0.9",
     {{.kind = TOMBOLA_TOP_K_TOP_P, .k = 50, .value = 0.9f}},
     1,
     {{.kind = PEER_LLAMA_TOP_K, .k = 50},
      {.kind = PEER_LLAMA_TOP_P, .value = 0.9f},
      {.kind = PEER_LLAMA_DIST, .seed = 1}},
     3},
    {"greedy", {{.kind = TOMBOLA_TEMPERATURE, .value = 0.0f}}, 1, {{.kind = PEER_LLAMA_GREEDY}}, 1},
};

typedef struct bench {
    tombola_context *context;
    const char *isa;
    peer_llama *llama;
    char peer_name[96];
    int32_t dtype;
    double seconds; /* time spent on one cell and one contestant, about */
    float *work;    /* the working row: one buffer for all cells, in huge pages where the system has them, so
                       that    the luck of physical pages in the cache does not differ from cell to cell */
    FILE *json;
    int cells;
} bench;

static volatile uint64_t sink;

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static uint64_t
read_row(const uint64_t *words, int64_t n)
{
    uint64_t bits = 0;
    for (int64_t i = 0; i < n; i++) bits ^= words[i];
    return bits;
}

static void die(const char *text)
{
    fprintf(stderr, "bench_cpu: %s\n", text);
    exit(1);
}

/* One contestant's job on the working row. */
typedef struct job {
    const float *row;
    int64_t n, words;
    const tombola_context *context;
    tombola_call *call;
    peer_llama_chain *chain;
} job;

static void job_read(job *j)
{
    sink ^= read_row((const uint64_t *)(const void *)j->row, j->words);
}

static void job_tombola(job *j)
{
    if (tombola_run(j->context, j->call, NULL)) die("tombola_run failed");
    j->call->offset++;
}

static void job_llama(job *j)
{
    sink ^= (uint64_t)peer_llama_run(j->chain, j->row);
}

/* Median of microseconds over rotating rows of `size` bytes. */
static double time_job(void (*run)(job *), job *j, void *work, const void *rows, size_t size, double seconds)
{
    static double times[MAX_REPEATS];
    int count = 0;
    double end = workload_now() + seconds;
    for (int i = -2; count < MAX_REPEATS && (count < 9 || workload_now() < end); i++) {
        memcpy(work, (const char *)rows + (size_t)((i + 2) % ROWS) * size, size);
        double start = workload_now();
        run(j);
        if (i >= 0) times[count++] = (workload_now() - start) * 1e6;
    }
    return workload_median(times, count);
}

static void write_json(bench *b, const char *name, const char *distribution, int64_t n, double ours,
                       double read, double peer)
{
    const char *const dtypes[] = {"f32", "f16", "bf16"};
    fprintf(b->json,
            "%s\n  {\"name\": \"%s\", \"distribution\": \"%s\", \"dtype\": \"%s\", \"rows\": 1, "
            "\"vocab_size\": %lld, \"threads\": 1, \"isa\": \"%s\", \"microseconds\": %.2f, "
            "\"read_microseconds\": %.2f, ",
            b->cells ? "," : "", name, distribution, dtypes[b->dtype], (long long)n, b->isa, ours, read);
    if (peer > 0)
        fprintf(b->json, "\"best_peer\": \"%s\", \"best_peer_microseconds\": %.2f}", b->peer_name, peer);
    else
        fprintf(b->json, "\"best_peer\": null, \"best_peer_microseconds\": null}");
}

static void run_cell(bench *b, const setting *s, const char *distribution, const void *rows, int64_t n)
{
    float *work = b->work;
    size_t size = (size_t)n * (b->dtype == TOMBOLA_F32 ? 4 : 2);
    int32_t token;
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = work;
    call.dtype = b->dtype;
    call.rows = 1;
    call.vocab_size = n;
    call.steps = s->steps;
    call.step_count = s->step_count;
    call.tokens = &token;
    call.seed = 1;
    call.threads = 1;
    call.backend = TOMBOLA_BACKEND_CPU;
    if (tombola_workspace_size(b->context, &call, &call.workspace_size, NULL))
        die("tombola_workspace_size failed");
    call.workspace = malloc(call.workspace_size);
    memset(call.workspace, 0, call.workspace_size);
    job j = {.row = work, .n = n, .words = (int64_t)size / 8, .context = b->context, .call = &call};
    double read = time_job(job_read, &j, work, rows, size, 0.05);
    double ours = time_job(job_tombola, &j, work, rows, size, b->seconds), peer = 0;
    if (b->llama && b->dtype == TOMBOLA_F32) {
        j.chain = peer_llama_chain_create(b->llama, s->peer, s->peer_count, (int32_t)n);
        peer = time_job(job_llama, &j, work, rows, size, b->seconds);
        peer_llama_chain_destroy(j.chain);
    }
    printf("%-14s %-10s %7lld  %9.1f  %8.1f", s->name, distribution, (long long)n, ours, read);
    if (peer > 0) printf("  %10.1f  %6.1fx", peer, peer / ours);
    printf("   %5.1f GB/s\n", (double)size / ours * 1e-3);
    fflush(stdout);
    if (b->json) write_json(b, s->name, distribution, n, ours, read, peer);
    b->cells++;
    free(call.workspace);
}

/* Widened rows of a recorded file, repeated up to ROWS. */
static float *load_rows(const char *path, int64_t *n)
{
    npy_file file;
    npy_message message;
    if (!npy_open(path, &file, &message)) die(message.text);
    if (file.header.type != NPY_F16) die("the recorded rows are not f16");
    int64_t columns = file.header.columns, count = file.header.rows < ROWS ? file.header.rows : ROWS;
    uint16_t *halves = malloc((size_t)(count * columns) * sizeof *halves);
    float *rows = malloc((size_t)(ROWS * columns) * sizeof *rows);
    if (!halves || !rows || !npy_read(&file, 0, count, halves, &message))
        die("the recorded rows cannot be read");
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t i = 0; i < columns; i++)
            rows[r * columns + i] = law_f16_value(halves[r % count * columns + i]);
    npy_close(&file);
    free(halves);
    *n = columns;
    return rows;
}

/* The rows as the benchmark's dtype; frees its argument where it makes new ones. */
static void *as_dtype(float *rows, int64_t count, int32_t dtype)
{
    if (dtype == TOMBOLA_F32) return rows;
    void *narrow = malloc((size_t)count * 2);
    if (!narrow) die("no memory");
    workload_store(narrow, rows, count, dtype);
    free(rows);
    return narrow;
}

int main(int argc, char **argv)
{
    const struct option options[] = {{"llama", 1, 0, 'l'},
                                     {"llama-version", 1, 0, 'L'},
                                     {"gemma", 1, 0, 'g'},
                                     {"isa", 1, 0, 'i'},
                                     {"seconds", 1, 0, 's'},
                                     {"only", 1, 0, 'o'},
                                     {"logits", 1, 0, 'd'},
                                     {"vocab-size", 1, 0, 'v'},
                                     {"json", 1, 0, 'j'},
                                     {"dtype", 1, 0, 't'},
                                     {0, 0, 0, 0}};
    const char *llama = NULL, *version = "", *gemma = NULL, *only = NULL, *logits = NULL, *json = NULL;
    int64_t sizes[] = {32000, 128256, 262144}, size_wanted = 0;
    bench b = {.seconds = 0.25};
    tombola_options made = {.struct_size = sizeof made, .threads = 1, .cuda = -1};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 'l': llama = optarg; break;
        case 'L': version = optarg; break;
        case 'g': gemma = optarg; break;
        case 's': b.seconds = atof(optarg); break;
        case 'o': only = optarg; break;
        case 'd': logits = optarg; break;
        case 'v': size_wanted = atoll(optarg); break;
        case 'j': json = optarg; break;
        case 't':
            b.dtype = !strcmp(optarg, "f16")    ? TOMBOLA_F16
                      : !strcmp(optarg, "bf16") ? TOMBOLA_BF16
                                                : TOMBOLA_F32;
            break;
        case 'i':
            for (int i = 1; i <= 3; i++)
                if (!strcmp(optarg, tombola_isa_name((tombola_isa)i))) made.isa = i;
            break;
        default: return 2;
        }
    }
    tombola_error error;
    if (tombola_context_create(&made, &b.context, &error)) die(error.message);
    tombola_info info = {.struct_size = sizeof info};
    if (tombola_context_info(b.context, &info)) die("no information");
    b.isa = tombola_isa_name((tombola_isa)info.isa);
    b.work = aligned_alloc(1 << 21, 1 << 21);
    if (!b.work) die("no memory");
    madvise(b.work, 1 << 21, MADV_HUGEPAGE);
    memset(b.work, 0, 1 << 21);
    char message[256];
    if (llama && !(b.llama = peer_llama_open(llama, message, sizeof message))) die(message);
    if (b.llama)
        snprintf(b.peer_name, sizeof b.peer_name, "llama.cpp %s (llama-cpp-python %s)",
                 peer_llama_version(b.llama), version);
    if (json && !(b.json = fopen(json, "w"))) die("cannot write the JSON file");
    if (b.json) fputc('[', b.json);

    printf("tombola %d, %s, 1 thread; medians in microseconds; peer: %s\n", tombola_version(), b.isa,
           b.llama ? b.peer_name : "none");
    printf("%-14s %-10s %7s  %9s  %8s  %10s\n", "chain", "logits", "V", "tombola", "read", "llama.cpp");
    for (int v = 0; v < 4; v++) {
        if (v == 3 && !gemma) break;
        int64_t n = v < 3 ? sizes[v] : 0;
        if (v < 3 && size_wanted && n != size_wanted) continue;
        for (int d = 0; v == 3 ? d < 1 : workload_names[d] != NULL; d++) {
            if (logits && strcmp(logits, v == 3 ? "gemma" : workload_names[d])) continue;
            float *rows = v == 3 ? load_rows(gemma, &n) : malloc((size_t)(ROWS * n) * sizeof(float));
            for (int r = 0; v < 3 && r < ROWS; r++)
                workload_fill(rows + r * n, n, (workload_distribution)d, 1000 * (uint64_t)d + (uint64_t)r);
            void *stored = as_dtype(rows, ROWS * n, b.dtype);
            for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
                if (!only || !strcmp(only, settings[i].name))
                    run_cell(&b, &settings[i], v == 3 ? "gemma" : workload_names[d], stored, n);
            free(stored);
        }
    }
    if (b.json) {
        fprintf(b.json, "\n]\n");
        fclose(b.json);
    }
    peer_llama_close(b.llama);
    tombola_context_destroy(b.context);
    return 0;
}
