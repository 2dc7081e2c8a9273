/*
 * Sampling from logits that lie in device memory, on a stream: first call by call, then with the call
 * captured in a CUDA graph that draws a fresh token for every request at each replay.
 *
 * Each request has its own seed, temperature, top_k and top_p, in device arrays. A request's tokens depend on
 * its seed and on how many tokens it has drawn, not on its place in the batch: both ways print the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>
#include <tombola.h>

#define REQUESTS 4
#define VOCAB 32000
#define STEPS 8

#define CUDA(call) cuda_check((call), #call)
#define TOMBOLA(call) tombola_check((call), &error, #call)

static void cuda_check(cudaError_t result, const char *what)
{
    if (result == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
    exit(1);
}

static void tombola_check(tombola_result result, const tombola_error *error, const char *what)
{
    if (result == TOMBOLA_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, tombola_result_string(result), error->message);
    exit(1);
}

static void *on_device(const void *host, size_t bytes)
{
    void *memory;
    CUDA(cudaMalloc(&memory, bytes));
    if (host)
        CUDA(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice));
    else
        CUDA(cudaMemset(memory, 0, bytes));
    return memory;
}

/* What a model would have left in device memory. */
static void *make_logits(void)
{
    float *logits = malloc((size_t)REQUESTS * VOCAB * sizeof *logits);
    unsigned state = 1;
    if (!logits) exit(1);
    for (int i = 0; i < REQUESTS * VOCAB; i++) {
        state = state * 1664525u + 1013904223u;
        logits[i] = (float)(state >> 8) * (14.0f / (1 << 24));
    }
    void *memory = on_device(logits, (size_t)REQUESTS * VOCAB * sizeof *logits);
    free(logits);
    return memory;
}

/* Waits for the tokens, as a server would not, and prints them. */
static void print_tokens(const tombola_call *call, cudaStream_t stream)
{
    int32_t tokens[REQUESTS];
    CUDA(cudaMemcpyAsync(tokens, call->tokens, sizeof tokens, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < REQUESTS; i++) printf("%8d", tokens[i]);
    printf("\n");
}

int main(void)
{
    static const float temperature[REQUESTS] = {0.0f, 0.7f, 1.0f, 1.3f}; /* the first request is greedy */
    static const int32_t k[REQUESTS] = {0, 50, 0, 200};                  /* 0 = off */
    static const float p[REQUESTS] = {1.0f, 0.9f, 0.95f, 1.0f};          /* 1 = off */
    static const uint64_t seeds[REQUESTS] = {11, 22, 33, 44}, offsets[REQUESTS] = {0};
    tombola_error error;

    /* The context belongs to the CUDA context that is current: the runtime's, once it is in use. */
    CUDA(cudaSetDevice(0));
    tombola_options options = {.struct_size = sizeof options, .cuda = 1};
    tombola_context *context;
    TOMBOLA(tombola_context_create(&options, &context, &error));

    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const tombola_step steps[] = {
        {.kind = TOMBOLA_TEMPERATURE, .value_per_slot = on_device(temperature, sizeof temperature)},
        {.kind = TOMBOLA_TOP_K, .k_per_slot = on_device(k, sizeof k)},
        {.kind = TOMBOLA_TOP_P, .value_per_slot = on_device(p, sizeof p)},
    };
    tombola_call call = TOMBOLA_CALL_INIT;
    call.data = make_logits();
    call.rows = REQUESTS;
    call.vocab_size = VOCAB;
    call.steps = steps;
    call.step_count = 3;
    call.seeds = on_device(seeds, sizeof seeds);
    call.offsets = on_device(offsets, sizeof offsets);
    call.advance_offsets = 1; /* on the device, after each draw */
    call.tokens = on_device(NULL, REQUESTS * sizeof *call.tokens);
    call.cuda_stream = stream;
    TOMBOLA(tombola_workspace_size(context, &call, &call.workspace_size, &error));
    call.workspace = on_device(NULL, call.workspace_size ? call.workspace_size : 1);

    char plan[256];
    TOMBOLA(tombola_plan(context, &call, plan, sizeof plan, &error));
    printf("%s\n\ncall by call:\n", plan);
    for (int i = 0; i < STEPS; i++) {
        TOMBOLA(tombola_run(context, &call, &error)); /* returns at once */
        print_tokens(&call, stream);
    }

    /* The same, from the start. The model's own kernels would be captured in the same graph. */
    CUDA(cudaMemsetAsync(call.offsets, 0, sizeof offsets, stream));
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    TOMBOLA(tombola_run(context, &call, &error));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&replay, graph, 0));
    printf("\nreplays of one graph:\n");
    for (int i = 0; i < STEPS; i++) {
        CUDA(cudaGraphLaunch(replay, stream));
        print_tokens(&call, stream);
    }

    CUDA(cudaGraphExecDestroy(replay));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(stream));
    tombola_context_destroy(context);
    return 0; /* the process's end frees the device memory */
}
