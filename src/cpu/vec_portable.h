/*
 * Vectors of 4 floats in portable C (GNU vector extensions: SSE2, NEON, or plain scalars underneath), and
 * the description of every function that the template asks of an instruction set.
 *
 * vf is a vector of VL floats, vm a mask of VL lanes. Comparisons are false for NaN.
 */
#define VL 4
#define ROUGH_KEEPS_NAN 0 /* vf_rough_exp2 of NaN is NaN */

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vm __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));

AI vf vf_set(float a)
{
    return (vf){a, a, a, a};
}

AI vf vf_load(const float *p)
{
    vf a;
    __builtin_memcpy(&a, p, sizeof a);
    return a;
}

/* The first n < VL lanes; the others are -inf, which every use treats as absent. Nothing else is read. */
AI vf vf_load_first(const float *p, int n)
{
    vf a = vf_set(-LAW_INF);
    for (int i = 0; i < n; i++) a[i] = p[i];
    return a;
}

/* VL elements of 16 bits, widened. */
AI vf vf_load_f16(const uint16_t *p)
{
    return (vf){law_f16_value(p[0]), law_f16_value(p[1]), law_f16_value(p[2]), law_f16_value(p[3])};
}

AI vf vf_load_bf16(const uint16_t *p)
{
    return (vf){law_bf16_value(p[0]), law_bf16_value(p[1]), law_bf16_value(p[2]), law_bf16_value(p[3])};
}

AI void vf_store(float *p, vf a)
{
    __builtin_memcpy(p, &a, sizeof a);
}

AI vf vf_add(vf a, vf b)
{
    return a + b;
}

AI vf vf_sub(vf a, vf b)
{
    return a - b;
}

AI vf vf_mul(vf a, vf b)
{
    return a * b;
}

#if defined(__FMA__) || defined(__aarch64__)
/* Correctly rounded a * b + c. */
AI vf vf_fma(vf a, vf b, vf c)
{
    vf r;
    for (int i = 0; i < VL; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
}
#else
typedef double vd __attribute__((vector_size(32)));
typedef int64_t vl __attribute__((vector_size(32)));

/* law_fmaf on four lanes: the sum in binary64, rounded to odd. */
AI vf vf_fma(vf a, vf b, vf c)
{
    vd product = __builtin_convertvector(a, vd) * __builtin_convertvector(b, vd);
    vd addend = __builtin_convertvector(c, vd), sum = product + addend, back = sum - product;
    vd error = (product - (sum - back)) + (addend - back);
    vl bits = (vl)sum, away = (vl)((error > 0) == (sum > 0));
    vl inexact_even = (vl)(error != 0) & ((bits & 1) - 1);
    bits += inexact_even & (1 + 2 * ~away); /* away is -1 or 0: one up or one down */
    return __builtin_convertvector((vd)bits, vf);
}
#endif

AI vf vf_choose(vm m, vf a, vf b)
{
    return (vf)((m & (vm)a) | (~m & (vm)b));
}

/* a > b ? a : b, so b where a is NaN. */
AI vf vf_max(vf a, vf b)
{
    return vf_choose(a > b, a, b);
}

/* Nearest integer, ties to even, for |t| <= 2^22: adding 1.5 * 2^23 leaves no room for fractions. */
AI vf vf_rint(vf t)
{
    return (t + 0x1.8p23f) - 0x1.8p23f;
}

/* t - rint(t) */
AI vf vf_from_rint(vf t)
{
    return t - vf_rint(t);
}

/* Largest integer <= a, for a >= 0. From 2^23 on every float is an integer. */
AI vf vf_floor(vf a)
{
    vf near = (a + 0x1p23f) - 0x1p23f;
    near = vf_choose(near > a, near - 1.0f, near);
    return vf_choose(a < 0x1p23f, near, a);
}

/* q * 2^n, both normal numbers, n an integer. */
AI vf vf_scale(vf q, vf n)
{
    vu bits = (vu)(n + 0x1.8p23f); /* the integer stands in the low bits */
    return (vf)((vu)q + (bits << 23));
}

/* e = 2^t for n <= 4 vectors, within a relative error of ROUGH_POLYNOMIAL for |t| <= 100; at most 2^-99 for
 * smaller t, -inf among them; anything for NaN. A minimax polynomial of degree 4; two roundings where a fused
 * operation would cost more. */
AI void vf_rough_exp2(const vf *t, vf *e, const int n)
{
    vf k[4], f[4];
    for (int j = 0; j < n; j++) f[j] = vf_max(t[j], vf_set(-100.0f)); /* scaling stays among normal numbers */
    for (int j = 0; j < n; j++) k[j] = vf_rint(f[j]);
    for (int j = 0; j < n; j++) f[j] = vf_sub(f[j], k[j]);
    for (int j = 0; j < n; j++) e[j] = 0x1.3997d6p-7f * f[j] + 0x1.ca1440p-5f;
    for (int j = 0; j < n; j++) e[j] = e[j] * f[j] + 0x1.ec06dap-3f;
    for (int j = 0; j < n; j++) e[j] = e[j] * f[j] + 0x1.62e0dcp-1f;
    for (int j = 0; j < n; j++) e[j] = e[j] * f[j] + 0x1.ffffe8p-1f;
    for (int j = 0; j < n; j++) e[j] = vf_scale(e[j], k[j]);
}

AI vm vm_ge(vf a, vf b)
{
    return a >= b;
}

AI vm vm_gt(vf a, vf b)
{
    return a > b;
}

AI vm vm_eq(vf a, vf b)
{
    return a == b;
}

/* Lanes in which a or b is NaN. */
AI vm vm_nan(vf a, vf b)
{
    return (a != a) | (b != b);
}

/* The first n <= VL lanes. */
AI vm vm_first(int n)
{
    const vm lanes = {0, 1, 2, 3};
    return lanes < (vm){n, n, n, n};
}

AI vm vm_and(vm a, vm b)
{
    return a & b;
}

AI vm vm_or(vm a, vm b)
{
    return a | b;
}

AI vm vm_not(vm a)
{
    return ~a;
}

/* a & ~b */
AI vm vm_and_not(vm a, vm b)
{
    return a & ~b;
}

AI bool vm_any(vm a)
{
    return (a[0] | a[1] | a[2] | a[3]) != 0;
}

AI int vm_count(vm a)
{
    return -(a[0] + a[1] + a[2] + a[3]);
}

/* a where the mask is set, else 0. */
AI vf vf_keep(vm m, vf a)
{
    return (vf)(m & (vm)a);
}

/* The first lane. */
AI float vf_lane(vf a)
{
    return a[0];
}

AI float vf_greatest(vf a)
{
    float x = a[0] > a[1] ? a[0] : a[1], y = a[2] > a[3] ? a[2] : a[3];
    return x > y ? x : y;
}

/* Sum of the lanes in binary64. */
AI double vf_sum(vf a)
{
    return ((double)a[0] + a[1]) + ((double)a[2] + a[3]);
}

/* Packs the chosen lanes at out (VL floats are written) and returns how many. */
AI int vf_compress(float *out, vm m, vf a)
{
    int n = 0;
    for (int i = 0; i < VL; i++) {
        out[n] = a[i];
        n -= m[i];
    }
    return n;
}

/* The same for base + lane number. */
AI int vi_compress(int32_t *out, vm m, int32_t base)
{
    int n = 0;
    for (int i = 0; i < VL; i++) {
        out[n] = base + i;
        n -= m[i];
    }
    return n;
}

/* The same for ids[lane]; the count is vf_compress's. */
AI void vi_pack(int32_t *out, vm m, const int32_t *ids)
{
    int n = 0;
    for (int i = 0; i < VL; i++) {
        out[n] = ids[i];
        n -= m[i];
    }
}

/* Ids (from base) of the elements >= bound in 16 vectors at p, ascending. Up to VL ids past the last may be
 * overwritten. */
AI int vi_collect(int32_t *out, const float *p, vf bound, int32_t base)
{
    int n = 0;
    for (int i = 0; i < 16 * VL; i += VL) {
        vm m = vm_ge(vf_load(p + i), bound);
        if (vm_any(m)) n += vi_compress(out + n, m, base + i);
    }
    return n;
}

/* out[i] = p[ids[i]]; up to VL more are set to -inf. */
AI void vf_gather(float *out, const float *p, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = p[ids[i]];
    for (int64_t i = n; i < n + VL; i++) out[i] = -LAW_INF;
}

/* An exact sum of floor(a) for floats 0 <= a < 2^42, up to 1024 vectors of them. */
typedef struct vmass {
    uint64_t total;
} vmass;

AI vmass vmass_zero(void)
{
    return (vmass){0};
}

AI void vmass_add(vmass *sum, vf a)
{
    for (int i = 0; i < VL; i++) sum->total += (uint64_t)(int64_t)a[i];
}

AI void vmass_add_many(vmass *sum, const vf *a, const int n)
{
    for (int j = 0; j < n; j++) vmass_add(sum, a[j]);
}

AI uint64_t vmass_total(const vmass *sum)
{
    return sum->total;
}

/* Adds four vectors to *all, and their chosen lanes to *some. */
AI void vmass_add_both(vmass *all, vmass *some, const vm m[4], const vf a[4])
{
    for (int j = 0; j < 4; j++) {
        vmass_add(all, a[j]);
        vmass_add(some, vf_keep(m[j], a[j]));
    }
}

/* The same as four calls in a row, one vector after the other. */
AI int vm_count4(const vm m[4])
{
    return vm_count(m[0]) + vm_count(m[1]) + vm_count(m[2]) + vm_count(m[3]);
}

AI int vi_compress4(int32_t *out, const vm m[4], int32_t base)
{
    int n = 0;
    for (int j = 0; j < 4; j++)
        if (vm_any(m[j])) n += vi_compress(out + n, m[j], base + j * VL);
    return n;
}
