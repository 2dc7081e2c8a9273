/*
 * llama.cpp's sampler chain through dlopen; see peer_llama.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "peer_llama.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From llama.h. */
typedef struct token_data {
    int32_t id;
    float logit;
    float p;
} token_data;

typedef struct token_data_array {
    token_data *data; /* samplers may change it */
    size_t size;
    int64_t selected; /* a place in data, not an id */
    bool sorted;
} token_data_array;

typedef struct chain_params {
    bool no_perf;
} chain_params;

struct peer_llama {
    void *library;
    const char *version;
    void *(*chain_init)(chain_params params);
    void (*chain_add)(void *chain, void *sampler);
    void *(*init_top_k)(int32_t k);
    void *(*init_top_p)(float p, size_t min_keep);
    void *(*init_min_p)(float p, size_t min_keep);
    void *(*init_temp)(float t);
    void *(*init_dist)(uint32_t seed);
    void *(*init_greedy)(void);
    void (*apply)(void *sampler, token_data_array *candidates);
    void (*accept)(void *sampler, int32_t token);
    void (*reset)(void *sampler);
    void (*free)(void *sampler);
};

struct peer_llama_chain {
    const peer_llama *llama;
    void *sampler;
    token_data *data;
    token_data_array left; /* what the last run left */
    int32_t vocab_size;
};

/* Opens the library. Its own search path normally finds the ggml libraries beside it; where it does not, they
 * are opened first. They then stay open until the process ends. */
static void *open_library(const char *path)
{
    static const char *const needed[] = {"libggml-base", "libggml-cpu", "libggml"};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;

    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(path, '.');
    int folder = slash == NULL ? 0 : (int)(slash + 1 - path);
    const char *suffix = dot != NULL && strcmp(dot, ".dylib") == 0 ? ".dylib" : ".so";
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        char file[4096];
        int length = snprintf(file, sizeof file, "%.*s%s%s", folder, path, needed[i], suffix);
        if (length > 0 && (size_t)length < sizeof file) dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Finds every function; returns the name of the first that is missing, or NULL. */
static const char *find_functions(peer_llama *llama)
{
    const struct {
        const char *name;
        void *place; /* of a function pointer: POSIX lets dlsym's result be stored like this */
    } functions[] = {
        /* clang-format off */
        {"llama_sampler_chain_init", &llama->chain_init},
        {"llama_sampler_chain_add", &llama->chain_add},
        {"llama_sampler_init_top_k", &llama->init_top_k},
        {"llama_sampler_init_top_p", &llama->init_top_p},
        {"llama_sampler_init_min_p", &llama->init_min_p},
        {"llama_sampler_init_temp", &llama->init_temp},
        {"llama_sampler_init_dist", &llama->init_dist},
        {"llama_sampler_init_greedy", &llama->init_greedy},
        {"llama_sampler_apply", &llama->apply},
        {"llama_sampler_accept", &llama->accept},
        {"llama_sampler_reset", &llama->reset},
        {"llama_sampler_free", &llama->free},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(llama->library, functions[i].name);
        if (address == NULL) return functions[i].name;
        memcpy(functions[i].place, &address, sizeof address);
    }
    const char *(*version)(void) = NULL; /* not in every version */
    void *address = dlsym(llama->library, "llama_version");
    memcpy(&version, &address, sizeof address);
    llama->version = version != NULL ? version() : "";
    return NULL;
}

/* Whether a small row gives what it must, which it would not if the structures were others. */
static bool works(const peer_llama *llama)
{
    const float row[3] = {0.0f, 2.0f, 1.0f};
    const peer_llama_step steps[] = {{.kind = PEER_LLAMA_TOP_K, .k = 2}, {.kind = PEER_LLAMA_GREEDY}};
    peer_llama_chain *chain = peer_llama_chain_create(llama, steps, 2, 3);
    if (chain == NULL) return false;
    bool right = peer_llama_run(chain, row) == 1 && peer_llama_kept(chain) == 2 &&
                 peer_llama_kept_id(chain, 1) == 2 && chain->left.sorted;
    peer_llama_chain_destroy(chain);
    return right;
}

peer_llama *peer_llama_open(const char *path, char *message, size_t capacity)
{
    peer_llama *llama = calloc(1, sizeof *llama);
    if (llama == NULL) {
        snprintf(message, capacity, "out of memory");
        return NULL;
    }
    llama->library = open_library(path);
    if (llama->library == NULL) {
        const char *reason = dlerror();
        snprintf(message, capacity, "%s", reason != NULL ? reason : path);
        free(llama);
        return NULL;
    }
    const char *missing = find_functions(llama);
    if (missing != NULL || !works(llama)) {
        if (missing != NULL)
            snprintf(message, capacity, "%s: no function %s", path, missing);
        else
            snprintf(message, capacity, "%s: a row of three logits gives a wrong answer", path);
        peer_llama_close(llama);
        return NULL;
    }
    return llama;
}

void peer_llama_close(peer_llama *llama)
{
    if (llama == NULL) return;
    dlclose(llama->library);
    free(llama);
}

const char *peer_llama_version(const peer_llama *llama)
{
    return llama->version;
}

static void *create_sampler(const peer_llama *llama, const peer_llama_step *step)
{
    switch (step->kind) {
    case PEER_LLAMA_TOP_K: return llama->init_top_k(step->k);
    case PEER_LLAMA_TOP_P: return llama->init_top_p(step->value, 1);
    case PEER_LLAMA_MIN_P: return llama->init_min_p(step->value, 1);
    case PEER_LLAMA_TEMP: return llama->init_temp(step->value);
    case PEER_LLAMA_DIST: return llama->init_dist(step->seed);
    case PEER_LLAMA_GREEDY: return llama->init_greedy();
    }
    return NULL;
}

peer_llama_chain *peer_llama_chain_create(const peer_llama *llama, const peer_llama_step *steps, int count,
                                          int32_t vocab_size)
{
    if (vocab_size < 1) return NULL;
    peer_llama_chain *chain = calloc(1, sizeof *chain);
    if (chain == NULL) return NULL;
    chain->llama = llama;
    chain->vocab_size = vocab_size;
    chain->data = calloc((size_t)vocab_size, sizeof *chain->data);
    chain->sampler = llama->chain_init((chain_params){.no_perf = true}); /* llama.cpp's default too */
    if (chain->data == NULL || chain->sampler == NULL) {
        peer_llama_chain_destroy(chain);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        void *sampler = create_sampler(llama, &steps[i]);
        if (sampler == NULL) {
            peer_llama_chain_destroy(chain);
            return NULL;
        }
        llama->chain_add(chain->sampler, sampler); /* which now owns it */
    }
    return chain;
}

void peer_llama_chain_destroy(peer_llama_chain *chain)
{
    if (chain == NULL) return;
    if (chain->sampler != NULL) chain->llama->free(chain->sampler);
    free(chain->data);
    free(chain);
}

void peer_llama_chain_reset(peer_llama_chain *chain)
{
    chain->llama->reset(chain->sampler);
}

int32_t peer_llama_run(peer_llama_chain *chain, const float *row)
{
    token_data *data = chain->data;
    for (int32_t i = 0; i < chain->vocab_size; i++) data[i] = (token_data){i, row[i], 0.0f};
    chain->left = (token_data_array){data, (size_t)chain->vocab_size, -1, false};
    chain->llama->apply(chain->sampler, &chain->left);
    if (chain->left.selected < 0 || (size_t)chain->left.selected >= chain->left.size) return -1;
    int32_t token = chain->left.data[chain->left.selected].id;
    chain->llama->accept(chain->sampler, token);
    return token;
}

size_t peer_llama_kept(const peer_llama_chain *chain)
{
    return chain->left.size;
}

int32_t peer_llama_kept_id(const peer_llama_chain *chain, size_t place)
{
    return chain->left.data[place].id;
}
