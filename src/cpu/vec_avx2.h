/*
 * Vectors of 8 floats: AVX2 with FMA, F16C and POPCNT (Haswell, Zen 1 and later). What the functions do is
 * written at vec_portable.h.
 */
#include <immintrin.h>

#include "vec_avx2_lanes.h"

#define VL 8
#define ROUGH_KEEPS_NAN 1 /* vf_rough_exp2 of NaN is NaN */

typedef __m256 vf;
typedef __m256 vm;

AI vf vf_set(float a)
{
    return _mm256_set1_ps(a);
}

AI vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

AI vm vm_first(int n)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes));
}

AI vf vf_load_first(const float *p, int n)
{
    vm m = vm_first(n);
    vf a = _mm256_maskload_ps(p, _mm256_castps_si256(m));
    return _mm256_blendv_ps(_mm256_set1_ps(-LAW_INF), a, m);
}

AI vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

AI vf vf_load_bf16(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

AI void vf_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}

AI vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

AI vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

AI vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

AI vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

AI vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

AI vf vf_rint(vf t)
{
    return _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AI vf vf_from_rint(vf t)
{
    return _mm256_sub_ps(t, vf_rint(t));
}

AI vf vf_floor(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

AI vf vf_scale(vf q, vf n)
{
    __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(q), power));
}

AI void vf_rough_exp2(const vf *t, vf *e, const int n)
{
    vf k[4], f[4];
    for (int j = 0; j < n; j++)
        f[j] = vf_max(vf_set(-100.0f), t[j]); /* scaling stays among normal numbers; NaN stays */
    for (int j = 0; j < n; j++) k[j] = vf_rint(f[j]);
    for (int j = 0; j < n; j++) f[j] = vf_sub(f[j], k[j]);
    for (int j = 0; j < n; j++) e[j] = vf_fma(vf_set(0x1.3997d6p-7f), f[j], vf_set(0x1.ca1440p-5f));
    for (int j = 0; j < n; j++) e[j] = vf_fma(e[j], f[j], vf_set(0x1.ec06dap-3f));
    for (int j = 0; j < n; j++) e[j] = vf_fma(e[j], f[j], vf_set(0x1.62e0dcp-1f));
    for (int j = 0; j < n; j++) e[j] = vf_fma(e[j], f[j], vf_set(0x1.ffffe8p-1f));
    for (int j = 0; j < n; j++) e[j] = vf_scale(e[j], k[j]);
}

AI vm vm_ge(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_GE_OQ);
}

AI vm vm_gt(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

AI vm vm_eq(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}

AI vm vm_nan(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}

AI vm vm_and(vm a, vm b)
{
    return _mm256_and_ps(a, b);
}

AI vm vm_or(vm a, vm b)
{
    return _mm256_or_ps(a, b);
}

AI vm vm_not(vm a)
{
    return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));
}

AI vm vm_and_not(vm a, vm b)
{
    return _mm256_andnot_ps(b, a);
}

AI bool vm_any(vm a)
{
    return _mm256_movemask_ps(a) != 0;
}

AI int vm_count(vm a)
{
    return __builtin_popcount((unsigned)_mm256_movemask_ps(a));
}

AI vf vf_keep(vm m, vf a)
{
    return _mm256_and_ps(m, a);
}

AI float vf_lane(vf a)
{
    return _mm256_cvtss_f32(a);
}

AI float vf_greatest(vf a)
{
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    b = _mm_max_ss(b, _mm_shuffle_ps(b, b, 1));
    return _mm_cvtss_f32(b);
}

AI double vf_sum(vf a)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(a)),
            high = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    __m256d both = _mm256_add_pd(low, high);
    __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(both), _mm256_extractf128_pd(both, 1));
    return _mm_cvtsd_f64(pair) + _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair));
}

/* Lane numbers of the set bits of an 8-bit mask, packed. */
AI __m256i packed_lanes(unsigned mask)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)&packed_lanes_of[mask]));
}

AI int vf_compress(float *out, vm m, vf a)
{
    unsigned mask = (unsigned)_mm256_movemask_ps(m);
    _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(a, packed_lanes(mask)));
    return __builtin_popcount(mask);
}

AI int vi_compress(int32_t *out, vm m, int32_t base)
{
    unsigned mask = (unsigned)_mm256_movemask_ps(m);
    _mm256_storeu_si256((__m256i *)out, _mm256_add_epi32(packed_lanes(mask), _mm256_set1_epi32(base)));
    return __builtin_popcount(mask);
}

AI void vi_pack(int32_t *out, vm m, const int32_t *ids)
{
    __m256i lanes = packed_lanes((unsigned)_mm256_movemask_ps(m));
    __m256i all = _mm256_loadu_si256((const __m256i *)ids);
    _mm256_storeu_si256((__m256i *)out, _mm256_permutevar8x32_epi32(all, lanes));
}

AI int vi_collect(int32_t *out, const float *p, vf bound, int32_t base)
{
    int n = 0;
    for (int i = 0; i < 16 * VL; i += 4 * VL) {
        vm m[4];
        for (int j = 0; j < 4; j++) m[j] = vm_ge(vf_load(p + i + j * VL), bound);
        if (!vm_any(vm_or(vm_or(m[0], m[1]), vm_or(m[2], m[3])))) continue;
        for (int j = 0; j < 4; j++) n += vi_compress(out + n, m[j], base + i + j * VL);
    }
    return n;
}

AI void vf_gather(float *out, const float *p, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = p[ids[i]];
    _mm256_storeu_ps(out + n, _mm256_set1_ps(-LAW_INF));
}

/* floor(a) in two digits of 20 bits: the upper one is trunc(a * 2^-20), the rest is exact. */
typedef struct vmass {
    __m256i high, low;
} vmass;

AI vmass vmass_zero(void)
{
    return (vmass){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

AI void vmass_add(vmass *sum, vf a)
{
    __m256i high = _mm256_cvttps_epi32(_mm256_mul_ps(a, _mm256_set1_ps(0x1p-20f)));
    __m256 rest = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(high), _mm256_set1_ps(0x1p20f), a);
    sum->high = _mm256_add_epi32(sum->high, high);
    sum->low = _mm256_add_epi32(sum->low, _mm256_cvttps_epi32(rest));
}

AI void vmass_add_many(vmass *sum, const vf *a, const int n)
{
    for (int j = 0; j < n; j++) vmass_add(sum, a[j]);
}

AI uint64_t vmass_lanes(__m256i a)
{
    __m256i low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(a));
    __m256i high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(a, 1));
    __m256i both = _mm256_add_epi64(low, high);
    __m128i pair = _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    return (uint64_t)_mm_cvtsi128_si64(pair) + (uint64_t)_mm_extract_epi64(pair, 1);
}

AI uint64_t vmass_total(const vmass *sum)
{
    return (vmass_lanes(sum->high) << 20) + vmass_lanes(sum->low);
}

AI void vmass_add_both(vmass *all, vmass *some, const vm m[4], const vf a[4])
{
    for (int j = 0; j < 4; j++) {
        __m256i high = _mm256_cvttps_epi32(_mm256_mul_ps(a[j], _mm256_set1_ps(0x1p-20f)));
        __m256 rest = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(high), _mm256_set1_ps(0x1p20f), a[j]);
        __m256i low = _mm256_cvttps_epi32(rest), mask = _mm256_castps_si256(m[j]);
        all->high = _mm256_add_epi32(all->high, high);
        all->low = _mm256_add_epi32(all->low, low);
        some->high = _mm256_add_epi32(some->high, _mm256_and_si256(mask, high));
        some->low = _mm256_add_epi32(some->low, _mm256_and_si256(mask, low));
    }
}

AI int vm_count4(const vm m[4])
{
    unsigned low = (unsigned)_mm256_movemask_ps(m[0]) | (unsigned)_mm256_movemask_ps(m[1]) << 8;
    unsigned high = (unsigned)_mm256_movemask_ps(m[2]) | (unsigned)_mm256_movemask_ps(m[3]) << 8;
    return __builtin_popcount(low | high << 16);
}

/* Without branches: whether a vector has a chosen lane is hard to predict. */
AI int vi_compress4(int32_t *out, const vm m[4], int32_t base)
{
    int n = 0;
    for (int j = 0; j < 4; j++) n += vi_compress(out + n, m[j], base + j * VL);
    return n;
}
