/* The command line: which command it is. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "fail.h"
#include "text.h"

static const char help[] =
    "tombola draws tokens from a language model's logits, and shows what sampler settings do.\n"
    "\n"
    "Usage:\n"
    "  tombola sample FILE.npy [OPTION]...   draw tokens from rows of logits\n"
    "  tombola show FILE.npy [OPTION]...     chart what a chain keeps of a row, and why\n"
    "  tombola bench [OPTION]...             time chains beside a sort-based baseline\n"
    "  tombola info [OPTION]...              version, backends, instruction sets, plan\n"
    "  tombola COMMAND --help                a command's options\n"
    "  tombola --version\n"
    "\n"
    "A chain is made of --temperature, --top-k, --top-p and --min-p, in the order in which they are given:\n"
    "  tombola sample logits.npy --temperature 0.8 --top-k 50 --top-p 0.9 --seed 7\n"
    "  tombola show logits.npy --row 3 --min-p 0.05 --temperature 1.5\n"
    "\n"
    "Exit status: 0, or 2 after one line on stderr that says what is wrong.\n";

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        command cmd;
        int (*run)(const options *o);
    } commands[] = {{"sample", SAMPLE, run_sample},
                    {"show", SHOW, run_show},
                    {"bench", BENCH, run_bench},
                    {"info", INFO, run_info}};
    if (argc < 2) fail("which command? See 'tombola --help'");
    text_begin();
    int status = -1;
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        status = fputs(help, stdout) < 0;
    } else if (!strcmp(argv[1], "--version")) {
        int version = tombola_version();
        status = printf("tombola %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100) < 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[1], commands[i].name)) continue;
        options o;
        options_read(&o, commands[i].cmd, argc - 1, argv + 1);
        status = commands[i].run(&o);
    }
    if (status < 0)
        fail("unknown %s '%s'; see 'tombola --help'", argv[1][0] == '-' ? "option" : "command", argv[1]);
    if (status != 0) return status;
    end_with_output();
}
