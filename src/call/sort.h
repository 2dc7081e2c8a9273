/*
 * Sorting without memory of its own: glibc's qsort allocates, and a call must not.
 */
#ifndef TB_CALL_SORT_H
#define TB_CALL_SORT_H

#include <stdint.h>

/* Moves the value at `root` down to its place in the heap a[0 .. n - 1]. */
static inline void tb_sift(uint64_t *a, int64_t root, int64_t n)
{
    uint64_t value = a[root];
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && a[child + 1] > a[child]) child++;
        if (a[child] <= value) break;
        a[root] = a[child];
    }
    a[root] = value;
}

/* Ascending: heapsort. */
static inline void tb_sort(uint64_t *a, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;) tb_sift(a, i, n);
    for (int64_t left = n; left-- > 1;) {
        uint64_t greatest = a[0];
        a[0] = a[left];
        a[left] = greatest;
        tb_sift(a, 0, left);
    }
}

#endif
