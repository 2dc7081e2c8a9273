/* `tombola sample --json`: one object per row. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "fail.h"
#include "sample.h"
#include "text.h"

/* JSON has neither NaN nor infinities. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* The token's text; null where there is none. Bytes that are not UTF-8 become U+FFFD. */
static json_t *text_of(const sampled *s, int64_t token)
{
    size_t length;
    const char *bytes = vocab_text(&s->source->vocab, token, &length);
    if (!bytes) return json_null();
    char *text = allocate(3 * length + 1, 1);
    size_t size = text_utf8(text, bytes, length);
    json_t *string = json_stringn(text, size);
    free(text);
    return string;
}

static json_t *floats(const float *values, int32_t count)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < count; i++) json_array_append_new(array, number((double)values[i]));
    return array;
}

static json_t *integers(const int32_t *values, int32_t count)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < count; i++) json_array_append_new(array, json_integer(values[i]));
    return array;
}

static json_t *texts(const sampled *s, const int32_t *tokens, int32_t count)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < count; i++) json_array_append_new(array, text_of(s, tokens[i]));
    return array;
}

static json_t *statuses(uint32_t status)
{
    json_t *array = json_array();
    for (const status_name *n = status_names; n->bit; n++)
        if (status & n->bit) json_array_append_new(array, json_string(n->name));
    return array;
}

static json_t *kept_tokens(const sampled *s, int64_t r)
{
    json_t *array = json_array();
    const float *probabilities = s->probabilities + r * s->source->vocab_size;
    int32_t *ids;
    int64_t count = sampled_kept(s, r, &ids);
    for (int64_t i = 0; i < count; i++) {
        json_t *token = json_object();
        json_object_set_new(token, "id", json_integer(ids[i]));
        if (s->source->vocab.count) json_object_set_new(token, "text", text_of(s, ids[i]));
        json_object_set_new(token, "prob", number((double)probabilities[ids[i]]));
        json_array_append_new(array, token);
    }
    free(ids);
    return array;
}

void print_json(const sampled *s, int64_t r)
{
    int32_t draws = s->options->draws;
    int64_t at = r * draws;
    json_t *row = json_object();
    json_object_set_new(row, "row", json_integer(s->first + r));
    json_object_set_new(row, "tokens", integers(s->tokens + at, draws));
    if (s->source->vocab.count) json_object_set_new(row, "texts", texts(s, s->tokens + at, draws));
    json_object_set_new(row, "logprobs", floats(s->logprobs + at, draws));
    json_object_set_new(row, "raw_logprobs", floats(s->raw_logprobs + at, draws));
    json_object_set_new(row, "ranks", integers(s->ranks + at, draws));
    json_object_set_new(row, "status", statuses(s->status[r]));
    json_object_set_new(row, "kept_count", json_integer(s->kept_count[r]));
    json_object_set_new(row, "kept_mass", number(s->fraction[r]));
    json_object_set_new(row, "entropy", number((double)s->entropy[r]));
    if (s->options->rounds) json_object_set_new(row, "rounds", integers(s->rounds + at, draws));
    if (s->options->probs) json_object_set_new(row, "probs", kept_tokens(s, r));
    json_object_set_new(row, "seconds", number(s->seconds));
    /* nine digits tell every f32 apart; the printed number reads back as the same one */
    if (json_dumpf(row, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9))) fail("no memory for a row's JSON");
    putchar('\n');
    json_decref(row);
}
