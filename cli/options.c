#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "parse.h"

const char *const dtype_names[] = {"f32", "f16", "bf16", NULL};
static const char *const kinds[] = {"logits", "probabilities", NULL};
static const char *const ties_names[] = {"all", "index", NULL};
const char *const method_names[] = {"exact", "rejection", "dual-pivot", NULL};
static const char *const bench_methods[] = {"exact", "rejection", "dual-pivot", "all", NULL};
static const char *const backends[] = {"auto", "cpu", "cuda", "reference", NULL};
static const char *const isas[] = {"auto", "portable", "avx2", "avx512", NULL};

enum {
    TEMPERATURE,
    TOP_K,
    TOP_P,
    MIN_P,
    JOINT,
    TIES,
    SEED,
    OFFSET,
    DRAWS,
    METHOD,
    ROW,
    DTYPE_IN,
    KIND,
    VOCAB,
    VOCAB_SIZE,
    BATCH,
    DISTRIBUTION,
    DTYPE,
    REPEATS,
    PROBS,
    ROUNDS,
    JSON,
    TRACE,
    TOP,
    BACKEND,
    THREADS,
    ISA,
    HELP
};

#define FILES (SAMPLE | SHOW)
#define EVERY (SAMPLE | SHOW | BENCH | INFO)

static const struct entry {
    int id, commands;
    const char *name, *argument; /* argument NULL: a flag */
    const char *heading;         /* printed before it in the help */
    const char *help;
} table[] = {
    {TEMPERATURE, EVERY, "temperature", "T",
     "Chain: its steps run in the order in which the options are given", "divide logits by T; 0 is greedy"},
    {TOP_K, EVERY, "top-k", "K", NULL, "keep the K greatest tokens; off: K <= 0"},
    {TOP_P, EVERY, "top-p", "P", NULL, "keep the greatest tokens that make up P of the mass; off: P >= 1"},
    {MIN_P, EVERY, "min-p", "Q", NULL, "keep tokens of at least Q times the greatest weight; off: Q <= 0"},
    {JOINT, EVERY, "joint", NULL, NULL,
     "apply --top-k and --top-p (one of each) to the same set, where\n"
     "the first of them stands"},
    {TIES, EVERY, "ties", "all|index", NULL,
     "equal values at a cut: keep them all, or the lower ids first [all]"},
    {SEED, SAMPLE, "seed", "S", "Draw",
     "0 to 2^64 - 1, decimal or with 0x [0]; a row's number in the file\n"
     "is its stream, so that rows differ"},
    {OFFSET, SAMPLE, "offset", "O", NULL, "the position in every row's stream: that of the token [0]"},
    {DRAWS, SAMPLE, "draws", "N", NULL, "independent draws per row [1]"},
    {METHOD, SAMPLE | INFO, "method", "exact|rejection|dual-pivot", NULL,
     "how a token is drawn from what is kept [exact]"},
    {METHOD, BENCH, "method", "exact|rejection|dual-pivot|all", "Draw",
     "how a token is drawn from what is kept; all: each of them, with\n"
     "the mean of the rounds, in place of the baseline [exact]"},
    {ROW, SAMPLE, "row", "R|all", "Input", "one row of the file, counted from 0 [all]"},
    {ROW, SHOW, "row", "R", "Input", "the row of the file, counted from 0 [0]"},
    {DTYPE_IN, FILES, "dtype-in", "f32|f16|bf16", NULL,
     "the type of the elements; needed for bf16, which .npy files\n"
     "hold as '<u2' or '|V2'"},
    {KIND, FILES | INFO, "kind", "logits|probabilities", NULL, "what the rows are [logits]"},
    {VOCAB, FILES, "vocab", "FILE", NULL,
     "token texts, one line per token in the order of ids, with the\n"
     "escapes \\n \\r \\t \\\\ \\xHH; tokens after the last line have no\n"
     "text. Without it, a vocab.txt in the folder of FILE.npy is used\n"
     "if it has exactly one line per token"},
    {VOCAB_SIZE, BENCH | INFO, "vocab-size", "V", "Shape", "tokens in a row [128256]"},
    {BATCH, BENCH | INFO, "batch", "B", NULL, "rows in a call [1]"},
    {DISTRIBUTION, BENCH, "distribution", "NAME", NULL,
     "the rows' values [zipf]: zipf, n01, n05, equal, ascending,\n"
     "descending, two, masked or three"},
    {DTYPE, BENCH | INFO, "dtype", "f32|f16|bf16", NULL, "the type of the elements [f32]"},
    {REPEATS, BENCH, "repeats", "N", NULL, "timed calls, of which the median is shown [31]"},
    {PROBS, SAMPLE, "probs", NULL, "Output", "also the kept tokens with their probabilities, greatest first"},
    {ROUNDS, SAMPLE, "rounds", NULL, NULL, "also the trials of rejection and dual-pivot"},
    {JSON, SAMPLE, "json", NULL, NULL, "one JSON object per row and line"},
    {TRACE, SAMPLE, "trace", "FILE", NULL,
     "also write what each trial of each draw does, as the reference\n"
     "computes it: one JSON object per line"},
    {TOP, SHOW, "top", "N", "Output", "kept tokens to chart [20]"},
    {BACKEND, FILES | INFO, "backend", "auto|cpu|cuda|reference", "Execution",
     "[auto: the cpu, since rows come from a file]"},
    {BACKEND, BENCH, "backend", "auto|cpu|cuda|reference", "Execution", "[cpu]"},
    {THREADS, FILES | INFO, "threads", "N", NULL, "greatest number of threads, 0 = one per processor [0]"},
    {THREADS, BENCH, "threads", "N", NULL, "greatest number of threads, 0 = one per processor [1]"},
    {ISA, EVERY, "isa", "auto|portable|avx2|avx512", NULL, "the instruction set of the cpu backend"},
    {HELP, EVERY, "help", NULL, NULL, "this text"},
};

#define TABLE_SIZE ((int)(sizeof table / sizeof table[0]))
#define HELP_COLUMN 22

static const struct about {
    command cmd;
    const char *name, *usage, *text;
} abouts[] = {
    {SAMPLE, "sample", "tombola sample FILE.npy [OPTION]...",
     "Draws tokens from the rows of a .npy file: float32 or float16 (or bf16, see --dtype-in), C order, of "
     "shape\n"
     "[rows, vocab_size] or [vocab_size]. For each row: the token, its log-probability after the chain and "
     "before\n"
     "it, its rank, and how many tokens and what part of the mass the filters kept."},
    {SHOW, "show", "tombola show FILE.npy [OPTION]...",
     "Shows what the chain keeps of one row and why: what each step leaves, a chart of the most probable "
     "tokens,\n"
     "and which step cuts the others."},
    {BENCH, "bench", "tombola bench [OPTION]...",
     "Times chains on made-up rows: medians of microseconds per row, beside a sort-based baseline on one "
     "thread in\n"
     "the same run. Without a chain, the usual ones are timed. Both draw with the same random numbers and "
     "their\n"
     "tokens are compared; the baseline sums in binary64, so that a token may differ where two are at the "
     "border."},
    {INFO, "info", "tombola info [OPTION]...",
     "Shows the version, the backends, the instruction sets, and how a call of a shape would run."},
};

static void print_help(command cmd)
{
    for (size_t i = 0; i < sizeof abouts / sizeof abouts[0]; i++)
        if (abouts[i].cmd == cmd) printf("Usage: %s\n\n%s\n", abouts[i].usage, abouts[i].text);
    const char *heading = NULL, *printed = NULL;
    for (int i = 0; i < TABLE_SIZE; i++) {
        const struct entry *e = &table[i];
        /* a heading stands at the first entries of its group, which the command may not have */
        if (e->heading) heading = e->heading;
        if (!(e->commands & cmd)) continue;
        if (!printed || strcmp(printed, heading)) printf("\n%s:\n", heading);
        printed = heading;
        char left[64];
        int width = snprintf(left, sizeof left, "  --%s%s%s", e->name, e->argument ? " " : "",
                             e->argument ? e->argument : "");
        printf("%s", left);
        if (width >= HELP_COLUMN)
            printf("\n%*s", HELP_COLUMN, "");
        else
            printf("%*s", HELP_COLUMN - width, "");
        for (const char *c = e->help; *c; c++) {
            putchar(*c);
            if (*c == '\n') printf("%*s", HELP_COLUMN, "");
        }
        putchar('\n');
    }
}

static void add_step(options *o, tombola_step step)
{
    if (o->step_count == TOMBOLA_MAX_STEPS) fail("the chain has more than %d steps", TOMBOLA_MAX_STEPS);
    o->steps[o->step_count++] = step;
}

/* Fuses the chain's one top_k and one top_p where the first of them stands. */
static void join(options *o)
{
    int k_at = -1, p_at = -1, k_count = 0, p_count = 0;
    for (int i = 0; i < o->step_count; i++) {
        if (o->steps[i].kind == TOMBOLA_TOP_K) k_at = i, k_count++;
        if (o->steps[i].kind == TOMBOLA_TOP_P) p_at = i, p_count++;
    }
    if (k_count != 1 || p_count != 1)
        fail("--joint needs one --top-k and one --top-p; here are %d and %d", k_count, p_count);
    int first = k_at < p_at ? k_at : p_at, second = k_at < p_at ? p_at : k_at;
    o->steps[first] =
        (tombola_step){.kind = TOMBOLA_TOP_K_TOP_P, .k = o->steps[k_at].k, .value = o->steps[p_at].value};
    o->step_count--;
    for (int i = second; i < o->step_count; i++) o->steps[i] = o->steps[i + 1];
}

static void take_option(options *o, command cmd, const struct entry *e, const char *text, bool *joint)
{
    const char *name = e->name;
    switch (e->id) {
    case TEMPERATURE:
        add_step(o, (tombola_step){.kind = TOMBOLA_TEMPERATURE, .value = parse_float(name, text)});
        break;
    case TOP_K:
        add_step(o, (tombola_step){.kind = TOMBOLA_TOP_K,
                                   .k = (int32_t)parse_integer(name, text, INT32_MIN, INT32_MAX)});
        break;
    case TOP_P: add_step(o, (tombola_step){.kind = TOMBOLA_TOP_P, .value = parse_float(name, text)}); break;
    case MIN_P: add_step(o, (tombola_step){.kind = TOMBOLA_MIN_P, .value = parse_float(name, text)}); break;
    case JOINT: *joint = true; break;
    case TIES: o->ties = parse_name(name, text, ties_names); break;
    case SEED: o->seed = parse_u64(name, text); break;
    case OFFSET: o->offset = parse_u64(name, text); break;
    case DRAWS: o->draws = (int32_t)parse_integer(name, text, 1, TOMBOLA_MAX_DRAWS); break;
    case METHOD: o->method = parse_name(name, text, cmd == BENCH ? bench_methods : method_names); break;
    case ROW:
        if (cmd == SAMPLE && !strcmp(text, "all"))
            o->row = ALL_ROWS;
        else
            o->row = parse_integer(name, text, 0, INT32_MAX);
        break;
    case DTYPE_IN:
    case DTYPE: o->dtype = parse_name(name, text, dtype_names); break;
    case KIND: o->kind = parse_name(name, text, kinds); break;
    case VOCAB: o->vocab = text; break;
    case VOCAB_SIZE: o->vocab_size = parse_integer(name, text, 1, TOMBOLA_MAX_VOCAB_SIZE); break;
    case BATCH: o->batch = parse_integer(name, text, 1, 65536); break;
    case DISTRIBUTION: o->distribution = (workload_distribution)parse_name(name, text, workload_names); break;
    case REPEATS: o->repeats = (int32_t)parse_integer(name, text, 1, 100000); break;
    case PROBS: o->probs = true; break;
    case ROUNDS: o->rounds = true; break;
    case JSON: o->json = true; break;
    case TRACE:
        if (!*text) fail("--trace needs the name of a file");
        if (!strcmp(text, "-"))
            fail("--trace -: standard output has the tokens; give a file's name (./- for one of that name)");
        o->trace = text;
        break;
    case TOP: o->top = (int32_t)parse_integer(name, text, 1, 10000); break;
    case BACKEND: o->backend = parse_name(name, text, backends); break;
    case THREADS: o->threads = (int32_t)parse_integer(name, text, 0, 1024); break;
    case ISA: o->isa = parse_name(name, text, isas); break;
    case HELP: print_help(cmd); end_with_output();
    default: break;
    }
}

static void take_file(options *o, command cmd, const char *text)
{
    if (!(cmd & FILES)) fail("unexpected argument '%s'", text);
    if (o->file) fail("one FILE.npy at a time; '%s' is another", text);
    o->file = text;
}

/* What can be said of a chain better here than by the library, which does not know the options. */
static void check(const options *o, command cmd)
{
    if ((cmd & FILES) && !o->file)
        fail("which FILE.npy? See 'tombola %s --help'", cmd == SAMPLE ? "sample" : "show");
    for (int i = 0; i < o->step_count; i++)
        if (o->kind == TOMBOLA_PROBABILITIES && o->steps[i].kind == TOMBOLA_TEMPERATURE)
            fail("--temperature does not go with --kind probabilities");
}

void options_read(options *o, command cmd, int argc, char **argv)
{
    *o = (options){.draws = 1,
                   .row = cmd == SAMPLE ? ALL_ROWS : 0,
                   .dtype = cmd & FILES ? DTYPE_OF_FILE : TOMBOLA_F32,
                   .backend = cmd == BENCH ? TOMBOLA_BACKEND_CPU : TOMBOLA_BACKEND_AUTO,
                   .threads = cmd == BENCH ? 1 : 0,
                   .top = 20,
                   .vocab_size = 128256,
                   .batch = 1,
                   .repeats = 31};
    struct option known[TABLE_SIZE + 1];
    int count = 0;
    for (int i = 0; i < TABLE_SIZE; i++)
        if (table[i].commands & cmd)
            known[count++] = (struct option){
                table[i].name, table[i].argument ? required_argument : no_argument, NULL, 0x100 + i};
    known[count] = (struct option){0};

    bool joint = false;
    opterr = 0;
    optind = 1;
    for (;;) {
        const char *word = optind < argc ? argv[optind] : "";
        /* '-': other arguments are returned where they stand; ':': a missing argument is told apart */
        int got = getopt_long(argc, argv, "-:h", known, NULL);
        if (got == -1) break;
        if (got == 1) {
            take_file(o, cmd, optarg);
        } else if (got == 'h') {
            print_help(cmd);
            end_with_output();
        } else if (got == ':') {
            fail("%s needs an argument", word);
        } else if (got == '?') {
            if (optopt >= 0x100) fail("%.*s takes no argument", (int)strcspn(word, "="), word);
            fail("unknown option %s", word);
        } else {
            const struct entry *e = &table[got - 0x100];
            /* getopt_long takes abbreviations too, which would break when an option is added */
            if (strcspn(word + 2, "=") != strlen(e->name)) fail("unknown option %s", word);
            take_option(o, cmd, e, optarg, &joint);
        }
    }
    while (optind < argc) take_file(o, cmd, argv[optind++]); /* after "--" */
    if (joint) join(o);
    check(o, cmd);
}

void options_step_name(const tombola_step *step, char *text, int capacity)
{
    switch (step->kind) {
    case TOMBOLA_TEMPERATURE: snprintf(text, (size_t)capacity, "temperature %.7g", step->value); break;
    case TOMBOLA_TOP_K: snprintf(text, (size_t)capacity, "top-k %d", step->k); break;
    case TOMBOLA_TOP_P: snprintf(text, (size_t)capacity, "top-p %.7g", step->value); break;
    case TOMBOLA_MIN_P: snprintf(text, (size_t)capacity, "min-p %.7g", step->value); break;
    default: snprintf(text, (size_t)capacity, "top-k %d with top-p %.7g", step->k, step->value); break;
    }
}
