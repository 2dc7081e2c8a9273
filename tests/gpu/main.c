/*
 * The GPU tests.
 *     gpu_tests [--vectors PACKED] [--threads N] [--seed S] [--count N] [--rows N] [--seconds N]
 *               [--only VARIANT] [--apart 1] SUITE ...
 *     gpu_tests --variants     prints their names, "auto" first: the plan's own choice
 * Prints one JSON object for each suite, as in tests/gpu/receipt.json. Exits with 0 when nothing failed, 1
 * when something did, 77 when there is no GPU.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suites.h"

#define PRINTED_FAILURES 12
#define WORKER_BYTES ((size_t)512 << 20) /* of device memory */
#define MAIN_BYTES ((size_t)3 << 30)

suite_options options = {.threads = 8, .seed = 20260101};
variant *variants;
int variant_count;

static const struct {
    const char *name;
    void (*run)(suite *s);
} SUITES[] = {
    {"vectors", suite_vectors},       {"random", suite_random}, {"parts", suite_parts},
    {"anomalies", suite_anomalies},   {"graphs", suite_graphs}, {"invariance", suite_invariance},
    {"streams", suite_streams},       {"large", suite_large},   {"soak", suite_soak},
    {"statistics", suite_statistics}, {"errors", suite_errors}, {"bounded", suite_bounded},
};

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

void suite_check(suite *s, bool good, const char *format, ...)
{
    if (good) {
        atomic_fetch_add(&s->passed, 1);
        return;
    }
    if (atomic_fetch_add(&s->failed, 1) >= PRINTED_FAILURES) return;
    va_list values;
    va_start(values, format);
    pthread_mutex_lock(&printing);
    fprintf(stderr, "FAILED %s: ", s->name);
    vfprintf(stderr, format, values);
    fprintf(stderr, "\n");
    pthread_mutex_unlock(&printing);
    va_end(values);
}

void suite_skip(suite *s, const char *reason)
{
    atomic_fetch_add(&s->skipped, 1);
    pthread_mutex_lock(&printing);
    if (!s->reason[0]) snprintf(s->reason, sizeof s->reason, "%s", reason);
    pthread_mutex_unlock(&printing);
}

void suite_unserved(suite *s, const char *message)
{
    if (!strstr(message, "TOMBOLA_CUDA_VARIANT")) suite_skip(s, message);
}

void suite_result(suite *s, bool good, const char *text, const char *what)
{
    if (!good && !strncmp(text, "not supported", 13))
        suite_unserved(s, text);
    else
        suite_check(s, good, "%s: %s", what, text);
}

bool variant_turn(int v, int64_t i, int share)
{
    int forced = variant_count - 1, stride = (forced + share - 1) / share;
    uint64_t place = (uint64_t)i * 0x9e3779b97f4a7c15u >> 33; /* cases often come in cycles */
    return v == 0 || ((uint64_t)v + place) % (uint64_t)stride == 0;
}

typedef struct work {
    suite *s;
    void (*body)(suite *s, void *job, int64_t i);
    void *job;
    int64_t count;
    atomic_llong next;
} work;

static void *worker(void *argument)
{
    work *w = argument;
    lane_open(WORKER_BYTES);
    for (;;) {
        int64_t i = atomic_fetch_add(&w->next, 1);
        if (i >= w->count) break;
        w->body(w->s, w->job, i);
    }
    lane_close();
    return NULL;
}

void suite_parallel(suite *s, void (*body)(suite *s, void *job, int64_t i), void *job, int64_t count)
{
    work w = {.s = s, .body = body, .job = job, .count = count};
    pthread_t threads[64];
    int n = options.threads > 64 ? 64 : options.threads;
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, worker, &w)) abort();
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

/* Text for a JSON string. */
static void print_text(const char *text)
{
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            putchar(' ');
        else
            putchar(*text);
}

static bool run_suite(const char *name)
{
    suite s = {.name = name};
    size_t i = 0;
    while (i < sizeof SUITES / sizeof *SUITES && strcmp(SUITES[i].name, name)) i++;
    if (i == sizeof SUITES / sizeof *SUITES) {
        fprintf(stderr, "there is no suite %s\n", name);
        exit(2);
    }
    SUITES[i].run(&s);
    if (s.passed + s.failed + s.skipped == 0) suite_check(&s, false, "no check was made");
    printf("{\"name\": \"%s\", \"passed\": %lld, \"failed\": %lld, \"skipped\": %lld", name,
           (long long)s.passed, (long long)s.failed, (long long)s.skipped);
    if (s.reason[0]) {
        printf(", \"reason\": \"");
        print_text(s.reason);
        printf("\"");
    }
    printf("}\n");
    fflush(stdout);
    return s.failed == 0;
}

/* The plan's own choice and all variants; or only one of them. */
static void open_variants(const char *only)
{
    const bool automatic = !only || !strcmp(only, "auto");
    int n = 0;
    tombola_context *first = open_gpu_context(automatic ? NULL : only, 1); /* also finds gpu_variants */
    if (!only)
        while (gpu_variants[n]) n++;
    variants = calloc((size_t)n + 1, sizeof *variants);
    variants[variant_count++] = (variant){automatic ? "auto" : only, first};
    for (int i = 0; i < n; i++)
        variants[variant_count++] = (variant){gpu_variants[i], open_gpu_context(gpu_variants[i], 1)};
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    char reason[300];
    int first = 1;
    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        const char *value = argv[first + 1];
        if (!strcmp(argv[first], "--vectors"))
            options.vectors = value;
        else if (!strcmp(argv[first], "--threads"))
            options.threads = atoi(value);
        else if (!strcmp(argv[first], "--seed"))
            options.seed = strtoull(value, NULL, 0);
        else if (!strcmp(argv[first], "--count"))
            options.count = atoll(value);
        else if (!strcmp(argv[first], "--rows"))
            options.rows = atoll(value);
        else if (!strcmp(argv[first], "--seconds"))
            options.seconds = atoi(value);
        else if (!strcmp(argv[first], "--only"))
            only = value;
        else if (!strcmp(argv[first], "--apart"))
            gpu.apart = atoi(value) != 0;
        else
            break;
    }
    const bool lists = argc == 2 && !strcmp(argv[1], "--variants");
    if (!lists && (first >= argc || argv[first][0] == '-')) {
        fprintf(stderr,
                "usage: gpu_tests [--vectors PACKED] [--threads N] [--seed S] [--count N] [--rows N] "
                "[--seconds N] [--only VARIANT] [--apart 1] SUITE ...\n       gpu_tests --variants\n");
        return 2;
    }
    if (!device_open(reason, sizeof reason)) {
        fprintf(stderr, "SKIPPED: %s\n", reason);
        return 77;
    }
    if (lists) {
        tombola_context_destroy(open_gpu_context(NULL, 1)); /* finds gpu_variants */
        puts("auto");
        for (int i = 0; gpu_variants[i]; i++) puts(gpu_variants[i]);
        return 0;
    }
    gpu.exact_memory = !strcmp(argv[first], "bounded");
    open_variants(only);
    fprintf(stderr, "%s, driver for CUDA %d.%d, %d variants\n", device_name, driver->version / 1000,
            driver->version % 1000 / 10, variant_count - 1);
    lane_open(MAIN_BYTES);
    bool good = true;
    for (int i = first; i < argc; i++) good &= run_suite(argv[i]);
    lane_close();
    for (int i = 0; i < variant_count; i++) tombola_context_destroy(variants[i].context);
    return good ? 0 : 1;
}
