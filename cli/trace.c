#include "trace.h"

#include <math.h>

static tombola_call prefix_call(const options *o, const void *row, int32_t dtype, int64_t vocab_size,
                                int32_t steps)
{
    tombola_call call = engine_call(o);
    call.method = TOMBOLA_EXACT; /* no token is drawn, and a prefix may end in a temperature */
    call.step_count = steps;
    call.draws = 1;
    call.data = row;
    call.dtype = dtype;
    call.rows = 1;
    call.vocab_size = vocab_size;
    return call;
}

void trace_row(engine *e, const options *o, const void *row, int32_t dtype, int64_t vocab_size, trace *out)
{
    trace_point *now = engine_allocate(e, 1, sizeof *now);
    out->step_count = o->step_count;
    for (int32_t i = 0; i <= o->step_count; i++) {
        tombola_call call = prefix_call(o, row, dtype, vocab_size, i);
        call.kept_count = &now->kept;
        call.kept_mass = &now->mass;
        call.entropy = &now->entropy;
        call.status = &now->status;
        engine_run(e, &call);
        out->points[i] = *now;
    }
    engine_free(e, now);
}

double trace_step_fraction(const trace *t, const options *o, int32_t i)
{
    const trace_point *before = &t->points[i - 1], *after = &t->points[i];
    if (after->kept == 0 || before->mass == 0) return NAN;
    if (o->steps[i - 1].kind == TOMBOLA_TEMPERATURE) return 1;
    return (double)after->mass / (double)before->mass;
}

double trace_fraction(const trace *t, const options *o)
{
    double fraction = t->points[t->step_count].kept ? 1 : NAN;
    for (int32_t i = 1; i <= t->step_count; i++) fraction *= trace_step_fraction(t, o, i);
    return fraction;
}

bool trace_needed(const options *o)
{
    bool filtered = false;
    for (int32_t i = 0; i < o->step_count; i++) {
        if (o->steps[i].kind != TOMBOLA_TEMPERATURE)
            filtered = true;
        else if (filtered)
            return true;
    }
    return false;
}

void trace_probabilities(engine *e, const options *o, const void *row, int32_t dtype, int64_t vocab_size,
                         int32_t steps, float *probabilities)
{
    tombola_call call = prefix_call(o, row, dtype, vocab_size, steps);
    call.probabilities = probabilities;
    engine_run(e, &call);
}
