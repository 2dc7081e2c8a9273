/* The kernels that tests force by name. */
#include <string.h>

#include "plan.h"

const char *const tb_cuda_variants[] = {
    "generic",
    "generic_c1",
    "generic_c2",
    "generic_c4",
    "generic_c8",
    "generic_c16",
    "whole_c1",
    "whole_c2",
    "whole_c4",
    "whole_c8",
    "whole_c16",
    "stream_c1_512",
    "stream_c1_256",
    "stream_c2_512",
    "stream_c4_256",
    "stream_c4_512",
    "stream_c8_256",
    "stream_c16_256",
    "greedy_c1",
    "greedy_c2",
    "greedy_c4",
    "greedy_c8",
    "greedy_c16",
    "flat_c1_512",
    "flat_c8_256",
    "flat_once_c3",
    "flat_once_c4",
    "flat_once_c8",
    "flat_once_c16",
    "flat_pipe_c2",
    "flat_pipe_c4",
    "flat_pipe_c8",
    "flat_pipe_c16",
    "whole_pipe_c2",
    "whole_pipe_c4",
    "whole_pipe_c8",
    "whole_pipe_c16",
    "whole_once_c16",
    "few_pipe_c2",
    "few_pipe_c4",
    "few_pipe_c8",
    "pick_256",
    "pick_512",
    "pick_1024",
    "rejection",
    "digits",
    NULL,
};

unsigned tb_forced_blocks(const tb_cuda_device *device, const char *forced, const char *prefix)
{
    static const char *const numbers[] = {"1", "2", "4", "8", "16"};
    size_t length = strlen(prefix);
    if (!forced || strncmp(forced, prefix, length)) return 0;
    for (int i = 0; i < 5; i++)
        if (!strcmp(forced + length, numbers[i]))
            return i == 0 || (device->major >= 9 && (i < 4 || device->major < 12)) ? 1u << i : 0;
    return 0;
}
