/*
 * Vectors of 16 floats: AVX-512 (F, BW, DQ, VL, VBMI2: Ice Lake, Zen 4 and later). What the functions do
 * is written at vec_portable.h.
 */
#include <immintrin.h>

#define VL 16
#define ROUGH_KEEPS_NAN 1 /* vf_rough_exp2 of NaN is NaN */

typedef __m512 vf;
typedef __mmask16 vm;

AI vf vf_set(float a)
{
    return _mm512_set1_ps(a);
}

AI vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

AI vf vf_load_first(const float *p, int n)
{
    return _mm512_mask_loadu_ps(_mm512_set1_ps(-LAW_INF), (__mmask16)((1u << n) - 1), p);
}

AI vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

AI vf vf_load_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

AI void vf_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

AI vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

AI vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

AI vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

AI vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

AI vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

AI vf vf_rint(vf t)
{
    return _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* One instruction, exact in this mode: the result is representable. */
AI vf vf_from_rint(vf t)
{
    return _mm512_reduce_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AI vf vf_floor(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

AI vf vf_scale(vf q, vf n)
{
    return _mm512_scalef_ps(q, n);
}

/* With f = t - floor(t) from one instruction, and a scaling that takes the floor itself. */
AI void vf_rough_exp2(const vf *t, vf *e, const int n)
{
    vf f[4];
    for (int j = 0; j < n; j++) f[j] = _mm512_reduce_ps(t[j], _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    for (int j = 0; j < n; j++) e[j] = vf_fma(vf_set(0x1.bb7cd4p-7f), f[j], vf_set(0x1.aa13f0p-5f));
    for (int j = 0; j < n; j++) e[j] = vf_fma(e[j], f[j], vf_set(0x1.ee798ap-3f));
    for (int j = 0; j < n; j++) e[j] = vf_fma(e[j], f[j], vf_set(0x1.62d166p-1f));
    for (int j = 0; j < n; j++) e[j] = vf_fma(e[j], f[j], vf_set(0x1.00002cp+0f));
    for (int j = 0; j < n; j++) e[j] = _mm512_scalef_ps(e[j], t[j]);
}

AI vm vm_ge(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}

AI vm vm_gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

AI vm vm_eq(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

AI vm vm_nan(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}

AI vm vm_first(int n)
{
    return (__mmask16)((1u << n) - 1);
}

AI vm vm_and(vm a, vm b)
{
    return _kand_mask16(a, b);
}

AI vm vm_or(vm a, vm b)
{
    return _kor_mask16(a, b); /* a plain | would move through general registers */
}

AI vm vm_not(vm a)
{
    return _knot_mask16(a);
}

AI vm vm_and_not(vm a, vm b)
{
    return _kandn_mask16(b, a);
}

AI bool vm_any(vm a)
{
    return a != 0;
}

AI int vm_count(vm a)
{
    return __builtin_popcount(a);
}

AI vf vf_keep(vm m, vf a)
{
    return _mm512_maskz_mov_ps(m, a);
}

AI float vf_lane(vf a)
{
    return _mm512_cvtss_f32(a);
}

AI float vf_greatest(vf a)
{
    return _mm512_reduce_max_ps(a);
}

AI double vf_sum(vf a)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

AI int vf_compress(float *out, vm m, vf a)
{
    _mm512_storeu_ps(out, _mm512_maskz_compress_ps(m, a));
    return vm_count(m);
}

AI int vi_compress(int32_t *out, vm m, int32_t base)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i ids = _mm512_add_epi32(lanes, _mm512_set1_epi32(base));
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(m, ids));
    return vm_count(m);
}

AI void vi_pack(int32_t *out, vm m, const int32_t *ids)
{
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(m, _mm512_loadu_si512(ids)));
}

/* Numbers of the set bits of a 64-bit mask, plus base: by one byte compression. No branch depends on the data
 * except the rare one for more than 16 of them. */
AI int unpack64(int32_t *out, uint64_t mask, int32_t base)
{
    const __m512i bytes =
        _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43,
                        42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22,
                        21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i at = _mm512_maskz_compress_epi8(mask, bytes), first = _mm512_set1_epi32(base);
    int count = __builtin_popcountll(mask);
    _mm512_storeu_si512(out, _mm512_add_epi32(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(at)), first));
    if (__builtin_expect(count > 16, 0)) {
        __m128i second = _mm512_extracti32x4_epi32(at, 1), third = _mm512_extracti32x4_epi32(at, 2);
        __m128i fourth = _mm512_extracti32x4_epi32(at, 3);
        _mm512_storeu_si512(out + 16, _mm512_add_epi32(_mm512_cvtepu8_epi32(second), first));
        _mm512_storeu_si512(out + 32, _mm512_add_epi32(_mm512_cvtepu8_epi32(third), first));
        _mm512_storeu_si512(out + 48, _mm512_add_epi32(_mm512_cvtepu8_epi32(fourth), first));
    }
    return count;
}

AI int vi_collect(int32_t *out, const float *p, vf bound, int32_t base)
{
    int n = 0;
    for (int i = 0; i < 256; i += 64) {
        uint64_t mask = 0;
        for (int j = 0; j < 64; j += 16) mask |= (uint64_t)vm_ge(vf_load(p + i + j), bound) << j;
        n += unpack64(out + n, mask, base + i);
    }
    return n;
}

AI void vf_gather(float *out, const float *p, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i >= 16 ? 0xffff : vm_first((int)(n - i));
        __m512 a = _mm512_mask_i32gather_ps(_mm512_set1_ps(-LAW_INF), m, _mm512_loadu_si512(ids + i), p, 4);
        _mm512_storeu_ps(out + i, a);
    }
}

/* Floats below 2^43 split by additions that round to zero: 2^43 + a has units of 2^20, and 2^23 + rest has
 * units of 1, so the low bits of the two sums are the upper and lower 20-bit digits of floor(a). Their raw
 * bits are added up and the constant part is taken off at the end. */
typedef struct vmass {
    __m512i high, low;
    uint32_t count;
} vmass;

AI vmass vmass_zero(void)
{
    return (vmass){_mm512_setzero_si512(), _mm512_setzero_si512(), 0};
}

AI void vmass_add(vmass *sum, vf a)
{
    const __m512 big = _mm512_set1_ps(0x1p43f), unit = _mm512_set1_ps(0x1p23f);
    __m512 high = _mm512_add_round_ps(a, big, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    __m512 rest = _mm512_sub_ps(a, _mm512_sub_ps(high, big));
    __m512 low = _mm512_add_round_ps(rest, unit, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    sum->high = _mm512_add_epi32(sum->high, _mm512_castps_si512(high));
    sum->low = _mm512_add_epi32(sum->low, _mm512_castps_si512(low));
    sum->count++;
}

AI void vmass_add_many(vmass *sum, const vf *a, const int n)
{
    const __m512 big = _mm512_set1_ps(0x1p43f), unit = _mm512_set1_ps(0x1p23f);
    __m512 high[4], rest[4];
    for (int j = 0; j < n; j++)
        high[j] = _mm512_add_round_ps(a[j], big, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    for (int j = 0; j < n; j++) rest[j] = _mm512_sub_ps(high[j], big);
    for (int j = 0; j < n; j++) rest[j] = _mm512_sub_ps(a[j], rest[j]);
    for (int j = 0; j < n; j++)
        rest[j] = _mm512_add_round_ps(rest[j], unit, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    for (int j = 0; j < n; j++) sum->high = _mm512_add_epi32(sum->high, _mm512_castps_si512(high[j]));
    for (int j = 0; j < n; j++) sum->low = _mm512_add_epi32(sum->low, _mm512_castps_si512(rest[j]));
    sum->count += (uint32_t)n;
}

AI uint64_t vmass_lanes(__m512i a)
{
    __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(a));
    __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(a, 1));
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}

AI uint64_t vmass_total(const vmass *sum)
{
    __m512i high = _mm512_sub_epi32(sum->high, _mm512_set1_epi32((int32_t)(sum->count * 0x55000000u)));
    __m512i low = _mm512_sub_epi32(sum->low, _mm512_set1_epi32((int32_t)(sum->count * 0x4b000000u)));
    return (vmass_lanes(high) << 20) + vmass_lanes(low);
}

AI void vmass_add_both(vmass *all, vmass *some, const vm m[4], const vf a[4])
{
    __m512i high[4], low[4];
    __m512 rest[4];
    for (int j = 0; j < 4; j++) high[j] = _mm512_cvttps_epi32(_mm512_mul_ps(a[j], _mm512_set1_ps(0x1p-20f)));
    for (int j = 0; j < 4; j++)
        rest[j] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(high[j]), _mm512_set1_ps(0x1p20f), a[j]);
    for (int j = 0; j < 4; j++) low[j] = _mm512_cvttps_epi32(rest[j]);
    for (int j = 0; j < 4; j++) all->high = _mm512_add_epi32(all->high, high[j]);
    for (int j = 0; j < 4; j++) all->low = _mm512_add_epi32(all->low, low[j]);
    for (int j = 0; j < 4; j++) some->high = _mm512_mask_add_epi32(some->high, m[j], some->high, high[j]);
    for (int j = 0; j < 4; j++) some->low = _mm512_mask_add_epi32(some->low, m[j], some->low, low[j]);
}

AI uint64_t mask64(const vm m[4])
{
    return _mm512_kunpackd(_mm512_kunpackw(m[3], m[2]), _mm512_kunpackw(m[1], m[0]));
}

AI int vm_count4(const vm m[4])
{
    return __builtin_popcountll(mask64(m));
}

AI int vi_compress4(int32_t *out, const vm m[4], int32_t base)
{
    return unpack64(out, mask64(m), base);
}
