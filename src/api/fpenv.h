/*
 * The law's arithmetic rounds to nearest and keeps subnormal numbers, whatever the caller's thread is set
 * to (law, preamble). These two functions set that and put the caller's settings back.
 */
#ifndef TB_API_FPENV_H
#define TB_API_FPENV_H

#if defined(__x86_64__)
#include <xmmintrin.h>

typedef unsigned tb_fpenv;

static inline tb_fpenv tb_fpenv_enter(void)
{
    tb_fpenv saved = _mm_getcsr();
    _mm_setcsr(0x1f80); /* the power-on value: round to nearest, all exceptions masked, no FTZ or DAZ */
    return saved;
}

static inline void tb_fpenv_leave(tb_fpenv saved)
{
    _mm_setcsr(saved);
}

#elif defined(__aarch64__)
#include <stdint.h>

typedef uint64_t tb_fpenv;

static inline tb_fpenv tb_fpenv_enter(void)
{
    tb_fpenv saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return saved;
}

static inline void tb_fpenv_leave(tb_fpenv saved)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(saved) : "memory");
}

#else
#include <fenv.h>

typedef fenv_t tb_fpenv;

static inline tb_fpenv tb_fpenv_enter(void)
{
    tb_fpenv saved;
    feholdexcept(&saved);
    fesetround(FE_TONEAREST);
    return saved;
}

static inline void tb_fpenv_leave(tb_fpenv saved)
{
    fesetenv(&saved);
}
#endif

#endif
