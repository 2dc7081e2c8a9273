#include "sort.h"

#define RUN 32 /* keys that insertion sorts faster than merging */

static void insertion_sort(uint64_t *keys, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        int64_t j = i;
        for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

static void merge(uint64_t *to, const uint64_t *left, int64_t left_count, const uint64_t *right,
                  int64_t right_count)
{
    const uint64_t *left_end = left + left_count, *right_end = right + right_count;
    while (left < left_end && right < right_end) {
        /* without a branch on the comparison, which nothing predicts */
        uint64_t a = *left, b = *right;
        int take_right = b < a;
        *to++ = take_right ? b : a;
        left += !take_right;
        right += take_right;
    }
    memcpy(to, left, (size_t)(left_end - left) * sizeof *to);
    memcpy(to + (left_end - left), right, (size_t)(right_end - right) * sizeof *to);
}

void sort_keys(uint64_t *keys, uint64_t *scratch, int64_t count)
{
    for (int64_t i = 0; i < count; i += RUN) insertion_sort(keys + i, count - i < RUN ? count - i : RUN);
    uint64_t *from = keys, *to = scratch;
    for (int64_t width = RUN; width < count; width *= 2) {
        for (int64_t i = 0; i < count; i += 2 * width) {
            int64_t left = count - i < width ? count - i : width;
            int64_t right = count - i - left < width ? count - i - left : width;
            merge(to + i, from + i, left, from + i + left, right);
        }
        uint64_t *swap = from;
        from = to, to = swap;
    }
    if (from != keys) memcpy(keys, from, (size_t)count * sizeof *keys);
}
