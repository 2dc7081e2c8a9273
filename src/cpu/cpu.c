/* The choice of instance. */
#include "template.h"

bool tb_cpu_has_isa(tombola_isa isa)
{
    if (isa == TOMBOLA_ISA_PORTABLE) return true;
#if defined(__x86_64__)
    __builtin_cpu_init();
    /* F16C came before AVX2 on every processor, and older compilers cannot ask for it */
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    if (isa == TOMBOLA_ISA_AVX2) return avx2;
    if (isa == TOMBOLA_ISA_AVX512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vbmi2");
#endif
    return false;
}

tombola_isa tb_cpu_best_isa(void)
{
    if (tb_cpu_has_isa(TOMBOLA_ISA_AVX512)) return TOMBOLA_ISA_AVX512;
    if (tb_cpu_has_isa(TOMBOLA_ISA_AVX2)) return TOMBOLA_ISA_AVX2;
    return TOMBOLA_ISA_PORTABLE;
}

size_t tb_cpu_workspace(const tombola_call *call)
{
    size_t size = tb_cpu_workspace_portable(call);
#if defined(__x86_64__)
    size_t wide = tb_cpu_workspace_avx512(call); /* the widest vectors pad the most */
    if (wide > size) size = wide;
#endif
    return size;
}

void tb_cpu_row(tombola_isa isa, const tombola_call *call, int64_t index, void *workspace)
{
#if defined(__x86_64__)
    if (isa == TOMBOLA_ISA_AVX512) {
        tb_cpu_row_avx512(call, index, workspace);
        return;
    }
    if (isa == TOMBOLA_ISA_AVX2) {
        tb_cpu_row_avx2(call, index, workspace);
        return;
    }
#endif
    (void)isa;
    tb_cpu_row_portable(call, index, workspace);
}
