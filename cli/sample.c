/* `tombola sample`: draws from the rows of a file. */
#include "sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "fail.h"
#include "sort.h"
#include "text.h"
#include "trace.h"
#include "trials.h"

#define CALL_BYTES ((size_t)64 << 20) /* about how much memory the rows of one call take */
#define TEXT_COLUMNS 28

const status_name status_names[] = {
    {TOMBOLA_ROW_NAN, "nan"},     {TOMBOLA_ROW_POS_INF, "pos_inf"},     {TOMBOLA_ROW_NEGATIVE, "negative"},
    {TOMBOLA_ROW_EMPTY, "empty"}, {TOMBOLA_ROW_BAD_PARAM, "bad_param"}, {0, NULL}};

int64_t sampled_kept(const sampled *s, int64_t r, int32_t **ids)
{
    int64_t count = s->kept_count[r], vocab_size = s->source->vocab_size;
    const int32_t *kept = s->kept_ids + r * vocab_size;
    const float *probabilities = s->probabilities + r * vocab_size;
    uint64_t *keys = allocate((size_t)count, sizeof *keys), *scratch = allocate((size_t)count, sizeof *keys);
    for (int64_t i = 0; i < count; i++) keys[i] = sort_key(probabilities[kept[i]], (uint32_t)kept[i]);
    sort_keys(keys, scratch, count);
    *ids = allocate((size_t)count, sizeof **ids);
    for (int64_t i = 0; i < count; i++) (*ids)[i] = (int32_t)sort_id(keys[i]);
    free(keys);
    free(scratch);
    return count;
}

/* ---- the table ---- */

/* Prints a token's text, padded to `width` columns. */
static void print_text(const sampled *s, int64_t token, int width)
{
    char quoted[256] = "-";
    size_t length;
    const char *bytes = vocab_text(&s->source->vocab, token, &length);
    int used = bytes ? text_quote(quoted, sizeof quoted, bytes, length, TEXT_COLUMNS) : 1;
    printf("  %s%*s", quoted, width > used ? width - used : 0, "");
}

/* The widest text of the call's tokens, so that the columns after it stand in line. */
static int text_width(const sampled *s)
{
    int width = 4;
    for (int64_t i = 0; i < s->rows * s->options->draws; i++) {
        char quoted[256];
        size_t length;
        const char *bytes = vocab_text(&s->source->vocab, s->tokens[i], &length);
        int used = bytes ? text_quote(quoted, sizeof quoted, bytes, length, TEXT_COLUMNS) : 1;
        if (used > width) width = used;
    }
    return width;
}

static void print_heading(const sampled *s, int width)
{
    printf("%6s  %7s", "row", "token");
    if (s->source->vocab.count) printf("  %-*s", width, "text");
    printf("  %9s  %7s", "logprob", "rank");
    if (s->options->rounds) printf("  %6s", "rounds");
    printf("  %7s  %8s\n", "kept", "mass");
}

static void print_kept(const sampled *s, int64_t r)
{
    int32_t *ids;
    int64_t count = sampled_kept(s, r, &ids);
    for (int64_t i = 0; i < count; i++) {
        printf("%6s  %7" PRId32, "", ids[i]);
        if (s->source->vocab.count) print_text(s, ids[i], TEXT_COLUMNS);
        printf("  %.9g\n", (double)s->probabilities[r * s->source->vocab_size + ids[i]]);
    }
    free(ids);
}

static void print_row(const sampled *s, int64_t r, int width)
{
    for (int64_t i = r * s->options->draws; i < (r + 1) * s->options->draws; i++) {
        printf("%6" PRId64 "  ", s->first + r);
        if (s->tokens[i] < 0)
            printf("%7s", "-");
        else
            printf("%7" PRId32, s->tokens[i]);
        if (s->source->vocab.count) print_text(s, s->tokens[i], width);
        if (s->tokens[i] < 0)
            printf("  %9s  %7s", "-", "-");
        else
            printf("  %9.4f  %7" PRId32, (double)s->logprobs[i], s->ranks[i]);
        if (s->options->rounds) printf("  %6" PRId32, s->rounds[i]);
        printf("  %7" PRId32, s->kept_count[r]);
        if (isnan(s->fraction[r]))
            printf("  %8s", "-");
        else
            printf("  %6.2f %%", 100 * s->fraction[r]);
        for (const status_name *n = status_names; n->bit; n++)
            if (s->status[r] & n->bit) printf("  %s", n->name);
        putchar('\n');
    }
    if (s->options->probs) print_kept(s, r);
}

/* ---- the calls ---- */

static void find_fractions(engine *e, sampled *s)
{
    for (int64_t r = 0; r < s->rows; r++) {
        s->fraction[r] = s->total_mass[r] ? (double)s->kept_mass[r] / (double)s->total_mass[r] : NAN;
        if (!trace_needed(s->options)) continue;
        trace t;
        const char *row = (const char *)s->data + (size_t)r * source_row_bytes(s->source);
        trace_row(e, s->options, row, s->source->dtype, s->source->vocab_size, &t);
        s->fraction[r] = trace_fraction(&t, s->options);
    }
}

/* `*trials`: where each trial is written, with --trace; opened after the first call, which has then been
 * found right. */
static void draw(engine *e, sampled *s, FILE **trials)
{
    tombola_call call = engine_call(s->options);
    call.data = s->data;
    call.dtype = s->source->dtype;
    call.rows = s->rows;
    call.vocab_size = s->source->vocab_size;
    call.streams = s->streams;
    call.tokens = s->tokens;
    call.status = s->status;
    call.rounds = s->rounds;
    call.logprobs = s->logprobs;
    call.raw_logprobs = s->raw_logprobs;
    call.ranks = s->ranks;
    call.kept_count = s->kept_count;
    call.kept_mass = s->kept_mass;
    call.total_mass = s->total_mass;
    call.entropy = s->entropy;
    call.kept_ids = s->kept_ids;
    call.kept_capacity = s->kept_ids ? s->source->vocab_size : 0;
    call.probabilities = s->probabilities;
    s->seconds = engine_run(e, &call) / (double)s->rows;
    if (!s->options->trace) return;
    if (!*trials) *trials = trials_open(s->options);
    for (int64_t r = 0; r < s->rows; r++) trials_write(*trials, s, &call, r);
}

int run_sample(const options *o)
{
    source file;
    engine e;
    source_open(&file, o);
    engine_open(&e, o);

    /* The rows of a large file take several calls. Which ones makes no difference to their tokens, because
     * each row's stream is its number in the file. */
    int64_t first = o->row == ALL_ROWS ? 0 : o->row, end = o->row == ALL_ROWS ? file.rows : o->row + 1;
    size_t row_bytes =
        source_row_bytes(&file) + (o->probs ? 8 * (size_t)file.vocab_size : 0) + 64 * (size_t)o->draws;
    int64_t most = (int64_t)(CALL_BYTES / row_bytes);
    if (most < 1) most = 1;
    if (most > end - first) most = end - first;

    size_t rows = (size_t)most, drawn = rows * (size_t)o->draws;
    size_t all = o->probs ? rows * (size_t)file.vocab_size : 0;
    void *data = engine_allocate(&e, rows, source_row_bytes(&file));
    sampled s = {.options = o,
                 .source = &file,
                 .data = data,
                 .streams = engine_allocate(&e, rows, sizeof *s.streams),
                 .tokens = engine_allocate(&e, drawn, sizeof *s.tokens),
                 .ranks = engine_allocate(&e, drawn, sizeof *s.ranks),
                 .rounds = engine_allocate(&e, drawn, sizeof *s.rounds),
                 .logprobs = engine_allocate(&e, drawn, sizeof *s.logprobs),
                 .raw_logprobs = engine_allocate(&e, drawn, sizeof *s.raw_logprobs),
                 .kept_count = engine_allocate(&e, rows, sizeof *s.kept_count),
                 .status = engine_allocate(&e, rows, sizeof *s.status),
                 .kept_mass = engine_allocate(&e, rows, sizeof *s.kept_mass),
                 .total_mass = engine_allocate(&e, rows, sizeof *s.total_mass),
                 .entropy = engine_allocate(&e, rows, sizeof *s.entropy),
                 .kept_ids = all ? engine_allocate(&e, all, sizeof *s.kept_ids) : NULL,
                 .probabilities = all ? engine_allocate(&e, all, sizeof *s.probabilities) : NULL,
                 .fraction = allocate(rows, sizeof *s.fraction)};
    FILE *trials = NULL;
    for (s.first = first; s.first < end; s.first += s.rows) {
        s.rows = end - s.first < most ? end - s.first : most;
        source_read(&file, s.first, s.rows, data);
        for (int64_t r = 0; r < s.rows; r++) s.streams[r] = (uint32_t)(s.first + r);
        draw(&e, &s, &trials);
        find_fractions(&e, &s);
        int width = o->json ? 0 : text_width(&s);
        if (!o->json && s.first == first) print_heading(&s, width);
        for (int64_t r = 0; r < s.rows; r++) {
            if (o->json)
                print_json(&s, r);
            else
                print_row(&s, r, width);
        }
    }

    if (trials) trials_close(trials, o->trace);

    void *const memory[] = {data,         s.streams,      s.tokens,     s.ranks,        s.rounds,
                            s.logprobs,   s.raw_logprobs, s.kept_count, s.status,       s.kept_mass,
                            s.total_mass, s.entropy,      s.kept_ids,   s.probabilities};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) engine_free(&e, memory[i]);
    free(s.fraction);
    engine_close(&e);
    source_close(&file);
    return 0;
}
