/* CUDA graphs: a captured call draws what the same call would draw, and with device-side advance a fresh
 * token at each replay. */
#include "suites.h"

#include <stdlib.h>
#include <string.h>

#include "direct.h"

#define ROWS 12
#define MAX_CALLS 8
#define CAPTURE_GLOBAL 0 /* the strictest mode: refuses whatever might synchronise, on any thread */

static tb_cu_graph_exec end_capture(tb_cu_stream stream)
{
    tb_cu_graph graph;
    tb_cu_graph_exec exec;
    CU(cu.cuStreamEndCapture(stream, &graph));
    CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU(cu.cuGraphDestroy(graph));
    return exec;
}

/* `calls` calls in one graph, all advancing the same offsets, replayed. */
static void check_replays(suite *s, const variant *v, const pool *p, int calls, int replays, bool dependent)
{
    direct d;
    direct_make(&d, p);
    size_t tokens = (size_t)(p->call.rows * p->call.draws);
    int32_t *got = malloc(tokens * 4), *expected = malloc(tokens * 4), *out[MAX_CALLS];
    uint64_t offsets[ROWS];
    tombola_call call = d.call;
    call.cuda_stream = lane_stream();
    call.advance_offsets = 1;
    call.dependent_launch = dependent;
    if (!got || !expected) abort();
    for (int c = 0; c < calls; c++) out[c] = direct_memory(&d, tokens * 4);
    call.tokens = out[0];
    bool supported = direct_workspace(s, &d, v->context, &call);
    tombola_error error = {0};
    tombola_result result = TOMBOLA_OK;
    if (supported) {
        CU(cu.cuStreamBeginCapture(lane_stream(), CAPTURE_GLOBAL));
        for (int c = 0; c < calls && !result; c++) {
            call.tokens = out[c];
            result = tombola_run(v->context, &call, &error);
        }
        tb_cu_graph_exec exec = end_capture(lane_stream());
        suite_check(s, !result, "%s, variant %s: in a capture: %s", p->text, v->name, error.message);
        for (int i = 0; i < replays && !result; i++) {
            CU(cu.cuGraphLaunch(exec, lane_stream()));
            for (int c = 0; c < calls; c++) {
                device_read(got, out[c], tokens * 4, lane_stream());
                pool_tokens(p, (uint64_t)(i * calls + c), expected);
                suite_check(s, !memcmp(got, expected, tokens * 4),
                            "%s, variant %s, replay %d, call %d of %d%s: tokens differ", p->text, v->name, i,
                            c, calls, dependent ? ", dependent launch" : "");
            }
        }
        device_read(offsets, d.call.offsets, (size_t)p->call.rows * 8, lane_stream());
        bool advanced = true;
        for (int64_t i = 0; i < p->call.rows; i++)
            advanced &= offsets[i] == p->offsets[i] + (uint64_t)(calls * replays);
        suite_check(s, advanced, "%s, variant %s: offsets are not %d higher", p->text, v->name,
                    calls * replays);
        CU(cu.cuGraphExecDestroy(exec));
    }
    direct_free(&d);
    free(got);
    free(expected);
}

/* A slot that several rows name is advanced once. */
static void check_shared_slots(suite *s, const variant *v, const pool *p)
{
    direct d;
    direct_make(&d, p);
    int32_t slots[ROWS];
    uint64_t offsets[ROWS];
    bool named[ROWS] = {false};
    for (int i = 0; i < ROWS; i++) named[slots[i] = i * i % 5] = true;
    tombola_call call = d.call;
    call.cuda_stream = lane_stream();
    call.slot_index = device_copy(slots, sizeof slots);
    call.tokens = direct_memory(&d, ROWS * 4 * (size_t)p->call.draws);
    call.advance_offsets = 1;
    tombola_error error = {0};
    if (direct_workspace(s, &d, v->context, &call)) {
        tombola_result result = TOMBOLA_OK;
        for (int i = 0; i < 3 && !result; i++) result = tombola_run(v->context, &call, &error);
        suite_check(s, !result, "%s, variant %s, shared slots: %s", p->text, v->name, error.message);
        device_read(offsets, d.call.offsets, sizeof offsets, lane_stream());
        for (int i = 0; i < ROWS; i++)
            suite_check(s, offsets[i] == p->offsets[i] + (named[i] ? 3 : 0),
                        "%s, variant %s: slot %d was advanced by %lld", p->text, v->name, i,
                        (long long)(offsets[i] - p->offsets[i]));
    }
    device_free(device_address(call.slot_index));
    direct_free(&d);
}

/* A workspace and outputs that the graph itself allocates. */
static void check_graph_memory(suite *s, const variant *v, const pool *p)
{
    direct d;
    direct_make(&d, p);
    size_t bytes = (size_t)(p->call.rows * p->call.draws) * 4;
    tombola_call call = d.call;
    int32_t *got = malloc(bytes), *expected = malloc(bytes);
    void *copy = direct_memory(&d, bytes);
    tb_cu_pointer tokens, workspace;
    tombola_error error = {0};
    if (!got || !expected) abort();
    call.cuda_stream = lane_stream();
    call.tokens = copy;
    if (direct_workspace(s, &d, v->context, &call)) {
        CU(cu.cuStreamBeginCapture(lane_stream(), CAPTURE_GLOBAL));
        CU(cu.cuMemAllocAsync(&tokens, bytes, lane_stream()));
        CU(cu.cuMemAllocAsync(&workspace, call.workspace_size + 1, lane_stream()));
        call.tokens = device_pointer(tokens);
        call.workspace = device_pointer(workspace);
        tombola_result result = tombola_run(v->context, &call, &error);
        CU(cu.cuMemcpyDtoDAsync(device_address(copy), tokens, bytes, lane_stream()));
        CU(cu.cuMemFreeAsync(workspace, lane_stream()));
        CU(cu.cuMemFreeAsync(tokens, lane_stream()));
        tb_cu_graph_exec exec = end_capture(lane_stream());
        suite_check(s, !result, "%s, variant %s, memory of the graph: %s", p->text, v->name, error.message);
        if (!result) {
            CU(cu.cuGraphLaunch(exec, lane_stream()));
            device_read(got, copy, bytes, lane_stream());
            pool_tokens(p, 0, expected);
            suite_check(s, !memcmp(got, expected, bytes),
                        "%s, variant %s, memory of the graph: tokens differ", p->text, v->name);
        }
        CU(cu.cuGraphExecDestroy(exec));
    }
    direct_free(&d);
    free(got);
    free(expected);
}

void suite_graphs(suite *s)
{
    for (int chain = 0; chain < pool_chains; chain++) {
        for (int large = 0; large < 2; large++) {
            pool p;
            pool_make(&p, options.seed + (uint64_t)chain, chain, chain % 3, large ? 128256 : 3000, ROWS,
                      1u << OUT_TOKENS);
            for (int v = 0; v < variant_count; v++) {
                if (!variant_turn(v, chain * 2 + large, 4)) continue;
                check_replays(s, &variants[v], &p, 1, large ? 3 : 12, false);
                check_replays(s, &variants[v], &p, MAX_CALLS, large ? 1 : 3, false);
                check_replays(s, &variants[v], &p, MAX_CALLS, large ? 1 : 3, true);
                if (large) continue;
                check_shared_slots(s, &variants[v], &p);
                check_graph_memory(s, &variants[v], &p);
            }
            pool_free(&p);
        }
    }
}
