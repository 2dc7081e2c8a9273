/* AVX2 instance of the CPU backend. */
#include "template.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Target attributes rather than compiler flags: whoever compiles these files needs no flags of their own. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,popcnt")
#endif

#define TB_CPU_NAME(what) tb_cpu_##what##_avx2
#include "vec_avx2.h"
#include "template_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
