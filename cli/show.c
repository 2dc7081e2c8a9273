/* `tombola show`: finds what the chain keeps of one row and why; chart.c draws it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chart.h"
#include "commands.h"
#include "fail.h"
#include "sample.h"
#include "sort.h"

/* The row, its order, and room for a distribution in the order of ids. */
typedef struct picture {
    engine *engine;
    const options *options;
    const source *source;
    const void *row;
    chart chart;
    float *by_id; /* [vocab_size] */
    /* the distribution that a step sees, in the chart's order; kept because why() is asked several times */
    float *seen; /* [count] */
    int32_t seen_by;
} picture;

/* The tokens that can be kept, greatest first. */
static void find_order(picture *p)
{
    int64_t size = p->source->vocab_size, count = 0;
    uint64_t *keys = allocate((size_t)size, sizeof *keys), *scratch = allocate((size_t)size, sizeof *keys);
    for (int64_t i = 0; i < size; i++) {
        float value = engine_value(p->row, p->source->dtype, i);
        if (!isnan(value)) keys[count++] = sort_key(value, (uint32_t)i);
    }
    sort_keys(keys, scratch, count);
    free(scratch);
    /* the library's count, for it knows what infinities and signs mean */
    if (count > p->chart.trace.points[0].kept) count = p->chart.trace.points[0].kept;
    uint32_t *ids = allocate((size_t)count, sizeof *ids);
    float *values = allocate((size_t)count, sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = sort_id(keys[i]);
        values[i] = sort_value(keys[i]);
    }
    free(keys);
    p->chart.count = count;
    p->chart.ids = ids;
    p->chart.values = values;
}

/* Probabilities after the first `steps` steps, in the chart's order. */
static void find_distribution(picture *p, int32_t steps, float *out)
{
    trace_probabilities(p->engine, p->options, p->row, p->source->dtype, p->source->vocab_size, steps,
                        p->by_id);
    for (int64_t place = 0; place < p->chart.count; place++) out[place] = p->by_id[p->chart.ids[place]];
}

/* The running total as the last top_p sees it, since its parameter is compared with that; without a top_p,
 * that of the model's own distribution. */
static double *find_cumulative(picture *p)
{
    chart *c = &p->chart;
    for (int32_t i = 1; i <= p->options->step_count; i++) {
        int32_t kind = p->options->steps[i - 1].kind;
        if (kind == TOMBOLA_TOP_P || kind == TOMBOLA_TOP_K_TOP_P) c->cumulative_at = i;
    }
    int32_t steps = c->cumulative_at ? c->cumulative_at - 1 : 0;
    find_distribution(p, steps, p->seen);
    double *cumulative = allocate((size_t)c->count, sizeof *cumulative);
    double sum = 0;
    for (int64_t place = 0; place < c->count; place++) {
        sum += (double)p->seen[place];
        cumulative[place] = place < c->trace.points[steps].kept ? sum : NAN;
    }
    return cumulative;
}

/* The number of tokens greater than the one at a place, as the chain's ties count them. */
static int64_t greater_than(const picture *p, int64_t place)
{
    if (p->options->ties == TOMBOLA_TIES_ALL)
        while (place > 0 && p->chart.values[place - 1] == p->chart.values[place]) place--;
    return place;
}

static void explain(void *context, int32_t s, int64_t place, char *text, int capacity)
{
    picture *p = context;
    const tombola_step *step = &p->options->steps[s - 1];
    if (p->seen_by != s) {
        find_distribution(p, s - 1, p->seen);
        p->seen_by = s;
    }
    int64_t greater = greater_than(p, place);
    double above = 0;
    for (int64_t i = 0; i < greater; i++) above += (double)p->seen[i];
    double ratio = p->seen[0] > 0 ? (double)p->seen[place] / (double)p->seen[0] : 0;
    bool by_rank = step->kind == TOMBOLA_TOP_K ||
                   (step->kind == TOMBOLA_TOP_K_TOP_P && step->k > 0 && greater >= step->k);
    if (step->kind == TOMBOLA_TEMPERATURE)
        snprintf(text, (size_t)capacity, "greedy");
    else if (by_rank)
        snprintf(text, (size_t)capacity, "%" PRId64 " are greater", greater);
    else if (step->kind == TOMBOLA_MIN_P)
        snprintf(text, (size_t)capacity, "%.4g of the greatest", ratio);
    else
        snprintf(text, (size_t)capacity, "%.2f %% above it", 100 * above);
}

static void print_title(const picture *p)
{
    const chart *c = &p->chart;
    printf("%srow %" PRId64 "%s of %s, %" PRId64 " tokens", terminal_on(&c->terminal, BOLD), p->options->row,
           terminal_off(&c->terminal), p->source->path, p->source->vocab_size);
    int64_t out = p->source->vocab_size - c->trace.points[0].kept;
    if (out) printf(", %" PRId64 " of them out from the start", out);
    uint32_t status = c->trace.points[0].status | c->trace.points[c->trace.step_count].status;
    for (const status_name *n = status_names; n->bit; n++)
        if (status & n->bit)
            printf(", %s%s%s", terminal_on(&c->terminal, STRESS), n->name, terminal_off(&c->terminal));
    printf("\n\n");
}

/* The last line: what it comes to. */
static void print_summary(const picture *p)
{
    const trace *t = &p->chart.trace;
    const trace_point *first = &t->points[0], *last = &t->points[t->step_count];
    if (isnan(first->entropy)) return;
    printf("%6sentropy %.3f → %.3f nats", "", (double)first->entropy, (double)last->entropy);
    if (p->chart.terminal.width >= 72)
        printf(", as of %.3g → %.3g equally likely tokens", exp((double)first->entropy),
               exp((double)last->entropy));
    putchar('\n');
}

int run_show(const options *o)
{
    source file;
    engine e;
    source_open(&file, o);
    engine_open(&e, o);
    void *row = engine_allocate(&e, 1, source_row_bytes(&file));
    source_read(&file, o->row, 1, row);

    picture p = {.engine = &e, .options = o, .source = &file, .row = row};
    chart *c = &p.chart;
    *c = (chart){.options = o, .source = &file, .terminal = terminal_of_stdout()};
    trace_row(&e, o, row, file.dtype, file.vocab_size, &c->trace);
    print_title(&p);
    if (c->trace.points[o->step_count].kept == 0) {
        printf("      nothing can be drawn from this row with this chain\n");
    } else {
        find_order(&p);
        p.by_id = engine_allocate(&e, (size_t)file.vocab_size, sizeof *p.by_id);
        p.seen = allocate((size_t)c->count, sizeof *p.seen);
        float *before = allocate((size_t)c->count, sizeof *before);
        float *after = allocate((size_t)c->count, sizeof *after);
        find_distribution(&p, 0, before);
        find_distribution(&p, o->step_count, after);
        double *cumulative = find_cumulative(&p);
        c->before = before, c->after = after, c->cumulative = cumulative;

        chart_steps(c);
        putchar('\n');
        chart_tokens(c, explain, &p);
        print_summary(&p);

        free(cumulative), free(before), free(after), free(p.seen);
        free((void *)c->ids), free((void *)c->values);
        engine_free(&e, p.by_id);
    }
    engine_free(&e, row);
    engine_close(&e);
    source_close(&file);
    return 0;
}
