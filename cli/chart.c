#include "chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

#define CUT_SHOWN 3  /* of the tokens that one step cuts */
#define MODEL_BAR 16 /* at most */
#define LEAST_BAR 8

/* The text n times, for rules. */
static void repeat(const char *text, int n)
{
    for (int i = 0; i < n; i++) fputs(text, stdout);
}

/* A share in percent, in seven columns: "37.91 %", and "<0.01 %" rather than nothing. */
static const char *percent(double share, char text[16])
{
    if (isnan(share))
        strcpy(text, "-");
    else if (share > 0 && share < 0.00005)
        strcpy(text, "<0.01 %");
    else
        snprintf(text, 16, share < 0.99995 ? "%5.2f %%" : "%5.1f %%", 100 * share);
    return text;
}

/* ---- the steps ---- */

/* The model's own probability of the tokens that are kept after i steps. */
static double model_share(const chart *c, int32_t i)
{
    double sum = 0;
    for (int64_t place = 0; place < c->trace.points[i].kept; place++) sum += (double)c->before[place];
    return sum;
}

void chart_steps(const chart *c)
{
    const terminal *t = &c->terminal;
    char names[TOMBOLA_MAX_STEPS + 1][64] = {"before the chain"};
    int width = 16;
    for (int32_t i = 1; i <= c->trace.step_count; i++) {
        options_step_name(&c->options->steps[i - 1], names[i], sizeof names[i]);
        if ((int)strlen(names[i]) > width) width = (int)strlen(names[i]);
    }
    int bar = t->width - width - 45; /* what the columns leave */
    if (bar > MODEL_BAR) bar = MODEL_BAR;
    bool wide = bar >= LEAST_BAR, entropy = t->width >= width + 44;
    printf("%s    %-*s  %8s  %8s", terminal_on(t, BOLD), width, "step", "tokens", "keeps");
    if (entropy) printf("  %7s", "entropy");
    printf("  %s%s\n", wide ? "of the model" : "  model", terminal_off(t));
    for (int32_t i = 0; i <= c->trace.step_count; i++) {
        const trace_point *p = &c->trace.points[i];
        bool idle = i > 0 && p->kept == c->trace.points[i - 1].kept; /* cuts nothing */
        bool filter = i > 0 && c->options->steps[i - 1].kind != TOMBOLA_TEMPERATURE;
        char number[16], text[16];
        if (i)
            printf(" %2d %-*s", i, width, names[i]);
        else
            printf("    %-*s", width, names[i]);
        printf("  %s%8" PRId32 "%s", terminal_on(t, idle && filter ? DIM : PLAIN), p->kept, terminal_off(t));
        /* a temperature keeps everything, which would only distract */
        printf("  %8s", filter ? percent(trace_step_fraction(&c->trace, c->options, i), number) : "");
        if (entropy && isnan(p->entropy))
            printf("  %7s", "-");
        else if (entropy)
            printf("  %7.3f", (double)p->entropy);
        double share = model_share(c, i);
        printf("  %7s", percent(share, text));
        if (wide) {
            printf("  ");
            terminal_bar(t, share * bar, 0, (1 - share) * bar);
        }
        putchar('\n');
    }
}

/* ---- the tokens ---- */

/* The columns that there is room for. */
typedef struct layout {
    int text, bar;
    bool id, cumulative;
    double scale; /* cells per probability */
} layout;

static int quote(const chart *c, int64_t place, char *text, size_t capacity, int columns)
{
    size_t length;
    const char *bytes = vocab_text(&c->source->vocab, c->ids[place], &length);
    if (bytes) return text_quote(text, capacity, bytes, length, columns);
    strcpy(text, "-");
    return 1;
}

/* The places to draw: kept ones up to --top, and the first of those that each step cuts. The steps cut from
 * the end, so that the last one to cut stands first. */
typedef struct section {
    int32_t step; /* 0: kept */
    int64_t first, end, shown_end;
} section;

static int find_sections(const chart *c, section sections[TOMBOLA_MAX_STEPS + 1])
{
    int count = 0;
    int64_t kept = c->trace.points[c->trace.step_count].kept;
    sections[count++] = (section){0, 0, kept, kept < c->options->top ? kept : c->options->top};
    for (int32_t i = c->trace.step_count; i > 0; i--) {
        int64_t first = c->trace.points[i].kept, end = c->trace.points[i - 1].kept;
        if (first == end) continue;
        /* one more token takes no more room than the line that says "1 more" */
        int64_t shown = end - first <= CUT_SHOWN + 1 ? end : first + CUT_SHOWN;
        sections[count++] = (section){i, first, end, shown};
    }
    if (sections[0].shown_end + 1 == sections[0].end) sections[0].shown_end++;
    return count;
}

static layout find_layout(const chart *c, const section *sections, int count)
{
    layout l = {.text = 4, .id = true, .cumulative = true};
    double greatest = 0;
    int most = c->terminal.width / 4 < 32 ? c->terminal.width / 4 : 32;
    for (int s = 0; s < count; s++) {
        for (int64_t place = sections[s].first; place < sections[s].shown_end; place++) {
            char text[256];
            int width = quote(c, place, text, sizeof text, most);
            if (width > l.text) l.text = width;
            greatest = fmax(greatest, fmax((double)c->before[place], (double)c->after[place]));
        }
    }
    if (!c->source->vocab.count) l.text = 0;
    int fixed = 6 + (l.text ? l.text + 2 : 0) + 2 * 9 + 2; /* rank, text, before, after, gap */
    if (c->terminal.width < fixed + 9 + 9 + LEAST_BAR) l.id = false;
    if (c->terminal.width < fixed + (l.id ? 9 : 0) + 9 + LEAST_BAR) l.cumulative = false;
    l.bar = c->terminal.width - fixed - (l.id ? 9 : 0) - (l.cumulative ? 9 : 0) - 1;
    if (l.bar < LEAST_BAR) l.bar = LEAST_BAR;
    l.scale = greatest > 0 ? l.bar / greatest : 0;
    return l;
}

static void print_heading(const chart *c, const layout *l)
{
    const terminal *t = &c->terminal;
    printf("%s%6s", terminal_on(t, BOLD), "rank");
    if (l->id) printf("  %7s", "id");
    if (l->text) printf("  %-*s", l->text, "text");
    printf("  %7s  %7s", "before", "after");
    if (l->cumulative) printf("  %7s", "cumul.");
    printf("%s\n", terminal_off(t));
}

static void print_token(const chart *c, const layout *l, int64_t place, bool kept, const char *why)
{
    const terminal *t = &c->terminal;
    char text[256], number[16];
    const char *dim = terminal_on(t, kept ? PLAIN : DIM), *off = terminal_off(t);
    printf("%s%6" PRId64, dim, place + 1);
    if (l->id) printf("  %7" PRIu32, c->ids[place]);
    printf("%s", off);
    if (l->text) {
        int width = quote(c, place, text, sizeof text, l->text);
        printf("  %s%s%s%*s", dim, text, off, l->text - width, "");
    }
    double before = (double)c->before[place], after = (double)c->after[place];
    printf("%s  %7s%s", terminal_on(t, DIM), percent(before, number), off);
    if (kept)
        printf("  %s%7s%s", terminal_on(t, BOLD), percent(after, number), off);
    else
        printf("  %7s", "");
    if (l->cumulative)
        printf("%s  %7s%s", dim, isnan(c->cumulative[place]) ? "" : percent(c->cumulative[place], number),
               off);
    printf("  ");
    double low = before < after ? before : after;
    terminal_bar(t, low * l->scale, (after - low) * l->scale, (before - low) * l->scale);
    if (why) {
        /* beside the bar if there is room, else the reason matters more than the rest of the line */
        int bar = (int)lround(before * l->scale);
        if (bar < 1) bar = 1;
        int room = l->bar - bar - 1;
        if (room >= (int)strlen(why)) printf(" %s%s%s", terminal_on(t, STRESS), why, off);
    }
    putchar('\n');
}

static double sum(const float *values, int64_t first, int64_t end)
{
    double total = 0;
    for (int64_t i = first; i < end; i++) total += (double)values[i];
    return total;
}

/* "── cut by 3 top-p 0.9: 33 tokens, 8.94 % before the chain ──────", shorter where there is no room */
static void print_rule(const chart *c, const section *s)
{
    const terminal *t = &c->terminal;
    char name[64], number[16], label[240];
    options_step_name(&c->options->steps[s->step - 1], name, sizeof name);
    percent(sum(c->before, s->first, s->end), number);
    snprintf(label, sizeof label, "cut by %" PRId32 " %s: %" PRId64 " token%s, %s before the chain", s->step,
             name, s->end - s->first, s->end - s->first == 1 ? "" : "s", number + strspn(number, " "));
    if ((int)strlen(label) > t->width - 4) *strrchr(label, ',') = 0;
    printf("%s── %s%s%s", terminal_on(t, DIM), terminal_off(t), terminal_on(t, STRESS), label);
    printf("%s%s ", terminal_off(t), terminal_on(t, DIM));
    repeat("─", t->width - (int)strlen(label) - 4);
    printf("%s\n", terminal_off(t));
}

/* "… 30 more, 4.10 % before, 5.20 % after" */
static void print_more(const chart *c, const section *s)
{
    char before[16], after[16];
    if (s->shown_end == s->end) return;
    percent(sum(c->before, s->shown_end, s->end), before);
    percent(sum(c->after, s->shown_end, s->end), after);
    printf("%s%8s %" PRId64 " more, together %s before", terminal_on(&c->terminal, DIM), "…",
           s->end - s->shown_end, before + strspn(before, " "));
    if (!s->step && c->terminal.width >= 60) printf(" and %s after", after + strspn(after, " "));
    printf("%s\n", terminal_off(&c->terminal));
}

static void print_legend(const chart *c, const layout *l)
{
    const terminal *t = &c->terminal;
    printf("\n%6s", "");
    terminal_bar(t, 2, 0, 0);
    printf(" before  ");
    terminal_bar(t, 0, 2, 0);
    printf(" gained  ");
    terminal_bar(t, 0, 0, 2);
    printf(" lost");
    const char *gap = t->width < 66 ? "\n      " : "   ";
    if (l->cumulative && c->cumulative_at)
        printf("%scumul.: as step %" PRId32 " sees it", gap, c->cumulative_at);
    else if (l->cumulative)
        printf("%scumul.: of before", gap);
    putchar('\n');
}

void chart_tokens(const chart *c, chart_why *why, void *context)
{
    section sections[TOMBOLA_MAX_STEPS + 1];
    int count = find_sections(c, sections);
    layout l = find_layout(c, sections, count);
    print_heading(c, &l);
    for (int i = 0; i < count; i++) {
        const section *s = &sections[i];
        if (s->step) print_rule(c, s);
        for (int64_t place = s->first; place < s->shown_end; place++) {
            char text[64];
            if (s->step) why(context, s->step, place, text, sizeof text);
            print_token(c, &l, place, !s->step, s->step ? text : NULL);
        }
        print_more(c, s);
    }
    print_legend(c, &l);
}
