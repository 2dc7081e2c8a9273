/* AVX-512 instance of the CPU backend. */
#include "template.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Target attributes rather than compiler flags: whoever compiles these files needs no flags of their own. */
#if defined(__clang__)
#pragma clang attribute push(                                                                                \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi2,avx2,fma,f16c,bmi,bmi2,popcnt"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi2,avx2,fma,f16c,bmi,bmi2,popcnt")
#endif

#define TB_CPU_NAME(what) tb_cpu_##what##_avx512
#include "vec_avx512.h"
#include "template_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
