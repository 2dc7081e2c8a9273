/*
 * What standard output is: its width, and whether it takes colours.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>

typedef enum colour {
    PLAIN,
    BOLD,   /* headings */
    DIM,    /* what can be overlooked */
    STAYS,  /* the part of a bar that was there before the chain */
    GAINED, /* the part that the chain added */
    LOST,   /* the part that the chain took away */
    STRESS, /* a number that decides something */
    COLOURS
} colour;

typedef struct terminal {
    int width;
    bool colours;
} terminal;

/* A terminal's own width, or 80. Colours: on a terminal, unless NO_COLOR is set or TERM is "dumb". */
terminal terminal_of_stdout(void);

/* The sequence that switches a colour on, or off again; "" where there are none. */
const char *terminal_on(const terminal *t, colour c);
const char *terminal_off(const terminal *t);

/* A bar of `stays` and then `gained` cells, or of `stays` and then `lost`. Block elements draw eighths of a
 * cell; where there are no colours, the gained part is darkly shaded and the lost part lightly. */
void terminal_bar(const terminal *t, double stays, double gained, double lost);

#endif
