#include "blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

void *__real_malloc(size_t bytes);
void __real_free(void *pointer);
void *__wrap_malloc(size_t bytes);
void __wrap_free(void *pointer);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks; /* from realloc, which is not wrapped */
static size_t count, capacity;

void *__wrap_malloc(size_t bytes)
{
    unsigned char *made = __real_malloc(bytes);
    if (!made) return NULL;
    pthread_mutex_lock(&lock);
    if (count == capacity) {
        capacity = capacity ? 2 * capacity : 256;
        blocks = realloc(blocks, capacity * sizeof *blocks);
        if (!blocks) abort();
    }
    blocks[count++] = (block){made, bytes};
    pthread_mutex_unlock(&lock);
    return made;
}

void __wrap_free(void *pointer)
{
    pthread_mutex_lock(&lock);
    for (size_t i = count; pointer && i-- > 0;) { /* the youngest are freed first, mostly */
        if (blocks[i].start != pointer) continue;
        blocks[i] = blocks[--count];
        break;
    }
    pthread_mutex_unlock(&lock);
    __real_free(pointer);
}

bool block_of(const void *pointer, block *found)
{
    uintptr_t p = (uintptr_t)pointer;
    bool inside = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count && !inside; i++) {
        uintptr_t start = (uintptr_t)blocks[i].start;
        inside = p >= start && p < start + blocks[i].bytes;
        if (inside) *found = blocks[i];
    }
    pthread_mutex_unlock(&lock);
    return inside;
}
