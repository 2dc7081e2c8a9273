#include "trials.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/api/validate.h"
#include "../src/reference/reference.h"
#include "fail.h"

#define MOST_TOKENS 4096 /* a set of more tokens is not written out */

typedef struct writer {
    FILE *file;
    const char *path;
    int64_t row; /* of the file of rows */
    int32_t method;
} writer;

/* True when `path` names the open file, under whatever name. */
static bool same_file(const struct stat *opened, const char *path)
{
    struct stat other;
    return path && !stat(path, &other) && other.st_dev == opened->st_dev && other.st_ino == opened->st_ino;
}

FILE *trials_open(const options *o)
{
    /* not emptied before it is known not to be an input */
    int descriptor = open(o->trace, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status)) fail("--trace %s: %s", o->trace, strerror(errno));
    char *found = vocab_beside(o->file);
    if (same_file(&status, o->file) || same_file(&status, o->vocab ? o->vocab : found))
        fail("--trace %s: that is a file which this command reads", o->trace);
    free(found);
    FILE *file = NULL;
    if (!S_ISREG(status.st_mode) || !ftruncate(descriptor, 0)) file = fdopen(descriptor, "w");
    if (!file) fail("--trace %s: %s", o->trace, strerror(errno));
    return file;
}

void trials_close(FILE *file, const char *path)
{
    if (ferror(file) | fclose(file)) fail("--trace %s: it cannot be written", path);
}

static void write_line(const writer *w, json_t *line)
{
    bool dumped = !json_dumpf(line, w->file, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (ferror(w->file)) fail("--trace %s: it cannot be written", w->path);
    if (!dumped) fail("no memory for a trial's JSON");
    fputc('\n', w->file);
    json_decref(line);
}

static json_t *new_line(const writer *w, const char *event)
{
    json_t *line = json_object();
    json_object_set_new(line, "event", json_string(event));
    json_object_set_new(line, "row", json_integer(w->row));
    return line;
}

/* Below 2^63 but for the bound that is none. */
static json_t *bound(uint64_t value, uint64_t none)
{
    return value == none ? json_null() : json_integer((json_int_t)value);
}

static json_t *bits(uint64_t value)
{
    char text[19];
    snprintf(text, sizeof text, "0x%016llx", (unsigned long long)value);
    return json_string(text);
}

static void write_row(void *argument, const tb_traced_row *row)
{
    const writer *w = argument;
    json_t *line = new_line(w, "row");
    json_object_set_new(line, "method", json_string(method_names[w->method]));
    json_object_set_new(line, "count", json_integer(row->kept));
    json_object_set_new(line, "k", bound((uint64_t)row->k, INT64_MAX));
    json_object_set_new(line, "target", bound(row->target, UINT64_MAX));
    json_object_set_new(line, "least", bound(row->least, 0));
    if (row->kept <= MOST_TOKENS) { /* [id, value, weight], the greatest first */
        json_t *tokens = json_array();
        for (int64_t i = 0; i < row->kept; i++) {
            uint32_t id = row->order[i];
            json_t *token = json_array();
            json_array_append_new(token, json_integer(id));
            json_array_append_new(token,
                                  isfinite(row->value[id]) ? json_real((double)row->value[id]) : json_null());
            json_array_append_new(token, json_integer((json_int_t)tb_traced_weight(row, id)));
            json_array_append_new(tokens, token);
        }
        json_object_set_new(line, "tokens", tokens);
    }
    write_line(w, line);
}

static json_t *place(tb_place p)
{
    static const char *const names[] = {NULL, "weight", "key", "token"};
    if (p.kind == TB_BELOW_ALL) return json_null();
    json_t *pair = json_array();
    json_array_append_new(pair, json_string(names[p.kind]));
    json_array_append_new(pair, json_integer((json_int_t)p.at));
    return pair;
}

/* The tokens above a place, and whether the filter passes there. */
static json_t *measured(const tb_measured *m)
{
    json_t *object = json_object();
    json_object_set_new(object, "count", json_integer(m->count));
    json_object_set_new(object, "mass", json_integer((json_int_t)m->mass));
    json_object_set_new(object, "passes", json_boolean(m->passes));
    return object;
}

static void write_trial(void *argument, const tb_trial *t)
{
    static const char *const verdicts[] = {"accept", "low = token", "low = token, high = middle",
                                           "low = middle"};
    const writer *w = argument;
    const tb_drawn *d = &t->drawn;
    json_t *line = new_line(w, t->round ? "trial" : "draw");
    json_object_set_new(line, "draw", json_integer(t->draw));
    if (t->round) json_object_set_new(line, "round", json_integer(t->round));
    json_object_set_new(line, "random", bits(d->random));
    json_object_set_new(line, "count", json_integer(d->count));
    json_object_set_new(line, "mass", json_integer((json_int_t)d->mass));
    json_object_set_new(line, "u", json_integer((json_int_t)d->u));
    json_object_set_new(line, "prefix", json_integer((json_int_t)d->prefix));
    json_object_set_new(line, "token", json_integer(d->token));
    json_object_set_new(line, "weight", json_integer((json_int_t)d->weight));
    if (t->round) {
        json_object_set_new(line, "position", json_integer((json_int_t)d->position));
        json_object_set_new(line, "low", place(t->low));
        json_object_set_new(line, "high", place(t->high));
        json_object_set_new(line, "above_token", measured(&t->at_token));
        bool formed = t->middle.kind != TB_BELOW_ALL;
        json_object_set_new(line, "middle", place(t->middle));
        json_object_set_new(line, "above_middle", formed ? measured(&t->at_middle) : json_null());
        json_object_set_new(line, "verdict", json_string(verdicts[t->verdict]));
    }
    write_line(w, line);
}

void trials_write(FILE *file, const sampled *s, const tombola_call *call, int64_t r)
{
    writer w = {.file = file, .path = s->options->trace, .row = s->first + r, .method = call->method};
    tb_observer observer = {.row = write_row, .trial = write_trial, .argument = &w};
    tombola_call full;
    tombola_error error;
    if (tb_validate(call, &full, &error)) fail("%s", error.message); /* not reached: it has run */
    void *workspace = allocate(tb_reference_workspace(full.vocab_size), 1);
    tb_reference_trace(&full, r, workspace, &observer);
    free(workspace);
    if (fflush(file))
        fail("--trace %s: it cannot be written", w.path); /* before the row's tokens are printed */
}
