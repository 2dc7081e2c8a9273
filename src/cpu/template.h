/* What every instance of the template includes before it sets its instruction set. */
#ifndef TB_CPU_TEMPLATE_H
#define TB_CPU_TEMPLATE_H

#include <math.h>

#include "../call/sort.h"
#include "../law/logprob.h"
#include "../law/mass.h"
#include "../law/order.h"
#include "../law/philox.h"
#include "../law/weight.h"
#include "cpu.h"

#define AI static inline __attribute__((always_inline, unused))
#define OUTLINE __attribute__((noinline)) /* keeps hot loops out of their callers' register pressure */

#define TB_CPU_DECLARE(isa)                                                                                  \
    size_t tb_cpu_workspace_##isa(const tombola_call *call);                                                 \
    void tb_cpu_row_##isa(const tombola_call *call, int64_t index, void *workspace);

TB_CPU_DECLARE(portable)
#if defined(__x86_64__)
TB_CPU_DECLARE(avx2)
TB_CPU_DECLARE(avx512)
#endif

#endif
