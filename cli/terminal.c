#include "terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_ELSEWHERE 80
#define WIDTH_LEAST 52 /* what the narrowest layout takes */

terminal terminal_of_stdout(void)
{
    terminal t = {.width = WIDTH_ELSEWHERE};
    if (!isatty(STDOUT_FILENO)) return t;
    struct winsize size;
    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col > 0) t.width = size.ws_col;
    if (t.width < WIDTH_LEAST) t.width = WIDTH_LEAST;
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    t.colours = !(no_color && no_color[0]) && !(term && !strcmp(term, "dumb"));
    return t;
}

const char *terminal_on(const terminal *t, colour c)
{
    /* The basic colours, which every theme makes readable on its background. */
    static const char *const sequences[COLOURS] = {
        [PLAIN] = "",          [BOLD] = "\033[1m",  [DIM] = "\033[2m",    [STAYS] = "\033[34m",
        [GAINED] = "\033[36m", [LOST] = "\033[31m", [STRESS] = "\033[33m"};
    return t->colours ? sequences[c] : "";
}

const char *terminal_off(const terminal *t)
{
    return t->colours ? "\033[0m" : "";
}

/* A block that fills the left n eighths of a cell. */
static const char *eighths(int n)
{
    static const char *const blocks[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
    return blocks[n < 0 ? 0 : n > 8 ? 8 : n];
}

/* A row of cells, each colour switched on once for all cells in a row that have it. */
typedef struct pen {
    const terminal *terminal;
    const char *on; /* NULL: nothing is switched on */
} pen;

static void put(pen *p, const char *on, const char *block)
{
    if (p->terminal->colours && p->on != on) printf("%s%s", p->on ? "\033[0m" : "", on);
    p->on = on;
    fputs(block, stdout);
}

void terminal_bar(const terminal *t, double stays, double gained, double lost)
{
    static const char *const border = "\033[34;46m"; /* of STAYS and GAINED within a cell */
    const char *on_stays = terminal_on(t, STAYS), *on_gained = terminal_on(t, GAINED),
               *on_lost = terminal_on(t, LOST);
    pen p = {.terminal = t};
    /* in eighths; something is never shown as nothing */
    int first = (int)lround(stays * 8), end = (int)lround((stays + gained) * 8);
    if (end == 0 && stays + gained > 0) end = 1;
    if (gained <= 0) first = end;
    for (int cell = 0; cell * 8 < end; cell++) {
        int a = first - cell * 8, b = end - cell * 8; /* the cell's eighths up to the first and second part */
        if (a >= 8)
            put(&p, on_stays, "█");
        else if (a <= 0)
            put(&p, on_gained, b < 8 ? eighths(b) : t->colours ? "█" : "▓");
        else if (b >= 8 && t->colours)
            put(&p, border, eighths(a));
        else if (b >= 8)
            put(&p, "", a >= 4 ? "█" : "▓");
        else
            put(&p, on_stays, eighths(b));
    }
    int from = (end + 7) / 8, to = (int)lround(stays + lost);
    if (lost > 0 && end == 0 && to == 0) put(&p, on_lost, "▏");
    for (int cell = from; cell < to; cell++) put(&p, on_lost, "░");
    if (t->colours && p.on) fputs("\033[0m", stdout);
}
