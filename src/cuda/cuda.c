/* The host side: a device, its kernels, and the launches of a call. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../api/error.h"
#include "check.h"
#include "driver.h"
#include "embed.h"
#include "fast_shapes.h"
#include "params.h"
#include "plan.h"
#include "whole_shapes.h"

#define OLDEST_MAJOR 8      /* compute capability */
#define CLUSTERS_VERSION 90 /* code for it has clusters, and waits in dependent launches */
#define MAX_ATTRIBUTES 2

typedef struct kernel {
    const char *name; /* the driver's, as long as the module lives */
    tb_cu_function function;
    int max_shared; /* greatest dynamic shared memory of a block */
} kernel;

/* Immutable once made. */
struct tb_cuda {
    const tb_driver *driver;
    tb_cu_context context; /* the caller's, or the primary one */
    tb_cu_device device;
    bool primary;              /* the primary context was retained here */
    bool pageable;             /* the device can address all host memory */
    tb_cuda_device properties; /* as the plan may use it: see load_modules */
    char name[96];
    char *forced;  /* TOMBOLA_CUDA_VARIANT, or NULL */
    bool old_code; /* a kernel was compiled for 8.x */
    int module_count;
    tb_cu_module modules[TB_MAX_MODULES];
    unsigned kernel_count;
    kernel *kernels; /* sorted by name */
};

/* ---- creation ---- */

static tombola_result read_properties(tb_cuda *cuda, tombola_error *error)
{
    const tb_driver *driver = cuda->driver;
    int l2 = 0, pageable = 0;
    const struct {
        int attribute;
        int *value;
    } wanted[] = {
        {TB_CU_DEVICE_MAJOR, &cuda->properties.major},
        {TB_CU_DEVICE_MINOR, &cuda->properties.minor},
        {TB_CU_DEVICE_MULTIPROCESSORS, &cuda->properties.multiprocessors},
        {TB_CU_DEVICE_SHARED_OPTIN, &cuda->properties.shared_bytes},
        {TB_CU_DEVICE_DOUBLE_RATIO, &cuda->properties.double_ratio},
        {TB_CU_DEVICE_L2_BYTES, &l2},
        {TB_CU_DEVICE_PAGEABLE_ACCESS, &pageable},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        tb_cu_result result =
            driver->cuDeviceGetAttribute(wanted[i].value, wanted[i].attribute, cuda->device);
        if (result) return tb_driver_fail(driver, result, "cuDeviceGetAttribute", error);
    }
    cuda->properties.l2_bytes = l2;
    cuda->pageable = pageable != 0;
    char name[64] = "";
    driver->cuDeviceGetName(name, sizeof name, cuda->device);
    snprintf(cuda->name, sizeof cuda->name, "%s (sm_%d%d)", name, cuda->properties.major,
             cuda->properties.minor);
    if (cuda->properties.major < OLDEST_MAJOR)
        return tb_fail(
            error, TOMBOLA_ERROR_NO_BACKEND, "cuda",
            "%s is too old: the kernels need compute capability %d.0 or newer; choose another device, or "
            "use the cpu backend",
            cuda->name, OLDEST_MAJOR);
    return TOMBOLA_OK;
}

static int compare_kernels(const void *a, const void *b)
{
    return strcmp(((const kernel *)a)->name, ((const kernel *)b)->name);
}

/* Adds a module's kernels. Each is loaded now, since the driver's lazy loading would do it within a launch,
 * where it may allocate and synchronise, which a stream capture does not allow. */
static tombola_result add_kernels(tb_cuda *cuda, tb_cu_module module, tombola_error *error)
{
    const tb_driver *driver = cuda->driver;
    unsigned count = 0;
    tb_cu_result result = driver->cuModuleGetFunctionCount(&count, module);
    if (result) return tb_driver_fail(driver, result, "cuModuleGetFunctionCount", error);
    tb_cu_function *functions = calloc(count + 1, sizeof *functions);
    kernel *kernels = realloc(cuda->kernels, (cuda->kernel_count + count + 1) * sizeof *kernels);
    if (kernels) cuda->kernels = kernels;
    if (!functions || !kernels) {
        free(functions);
        return tb_fail(error, TOMBOLA_ERROR_OUT_OF_MEMORY, "", "no memory for the list of kernels");
    }
    const char *what = "cuModuleEnumerateFunctions";
    result = driver->cuModuleEnumerateFunctions(functions, count, module);
    for (unsigned i = 0; i < count && !result; i++) {
        kernel made = {.function = functions[i]};
        int fixed = 0, version = 0; /* statically allocated shared memory; of its PTX */
        what = "loading a kernel";
        if ((result = driver->cuFuncLoad(made.function)) ||
            (result = driver->cuFuncGetName(&made.name, made.function)) ||
            (result = driver->cuFuncGetAttribute(&fixed, TB_CU_FUNCTION_STATIC_SHARED, made.function)) ||
            (result = driver->cuFuncGetAttribute(&version, TB_CU_FUNCTION_PTX_VERSION, made.function)))
            break;
        cuda->old_code |= version < CLUSTERS_VERSION;
        made.max_shared = cuda->properties.shared_bytes - fixed;
        result =
            driver->cuFuncSetAttribute(made.function, TB_CU_FUNCTION_MAX_DYNAMIC_SHARED, made.max_shared);
        if (!result && version >= CLUSTERS_VERSION)
            result = driver->cuFuncSetAttribute(made.function, TB_CU_FUNCTION_WIDE_CLUSTERS, 1);
        cuda->kernels[cuda->kernel_count++] = made;
    }
    free(functions);
    return result ? tb_driver_fail(driver, result, what, error) : TOMBOLA_OK;
}

static tombola_result load_modules(tb_cuda *cuda, tombola_error *error)
{
    const bool large = cuda->properties.shared_bytes > TB_LARGE_BYTES, clusters = cuda->properties.major >= 9;
    for (const tb_cuda_image *image = tb_cuda_images; image->name; image++) {
        /* else the driver would compile its PTX, in vain, or find nothing */
        if ((image->large && !large) || (image->clusters && !clusters)) continue;
        tb_cu_module module;
        tb_cu_result result = cuda->driver->cuModuleLoadData(&module, image->data);
        if (result == TB_CU_NO_BINARY_FOR_GPU && image->clusters) { /* older code serves this device */
            cuda->old_code = true;
            continue;
        }
        if (result == TB_CU_NO_BINARY_FOR_GPU || result == TB_CU_UNSUPPORTED_PTX_VERSION)
            return tb_fail(error, TOMBOLA_ERROR_NO_BACKEND, "cuda",
                           "this build has no kernels for %s, only for the targets %s: add the device's to "
                           "-DTOMBOLA_CUDA_ARCHS, or update the NVIDIA driver",
                           cuda->name, tb_cuda_targets);
        if (result) return tb_driver_fail(cuda->driver, result, "cuModuleLoadData", error);
        cuda->modules[cuda->module_count++] = module;
        tombola_result added = add_kernels(cuda, module, error);
        if (added) return added;
    }
    /* A build with PTX for 80 and no code for 90: its kernels know of no clusters and do not wait where a
     * dependent launch asks for it. The plan treats the device as one of 8.x, which has neither. */
    if (cuda->old_code && clusters) cuda->properties.major = 8;
    if (cuda->kernel_count) qsort(cuda->kernels, cuda->kernel_count, sizeof *cuda->kernels, compare_kernels);
    return TOMBOLA_OK;
}

/* Takes the current context, or retains device 0's primary one. */
static tombola_result find_context(tb_cuda *cuda, tombola_error *error)
{
    const tb_driver *driver = cuda->driver;
    const char *what = "cuCtxGetCurrent";
    tb_cu_result result = driver->cuCtxGetCurrent(&cuda->context);
    if (!result && cuda->context) {
        what = "cuCtxGetDevice";
        result = driver->cuCtxGetDevice(&cuda->device);
    } else if (!result) {
        what = "cuDeviceGet";
        result = driver->cuDeviceGet(&cuda->device, 0);
        if (!result) {
            what = "cuDevicePrimaryCtxRetain";
            result = driver->cuDevicePrimaryCtxRetain(&cuda->context, cuda->device);
            cuda->primary = !result;
        }
    }
    return result ? tb_driver_fail(driver, result, what, error) : TOMBOLA_OK;
}

tb_cuda *tb_cuda_create(tombola_error *error)
{
    const tb_driver *driver = tb_driver_open(error);
    if (!driver) return NULL;
    const char *forced = getenv("TOMBOLA_CUDA_VARIANT");
    tb_cuda *cuda = calloc(1, sizeof *cuda);
    if (cuda) cuda->driver = driver;
    if (!cuda || (forced && forced[0] && !(cuda->forced = strdup(forced)))) {
        free(cuda);
        tb_fail(error, TOMBOLA_ERROR_OUT_OF_MEMORY, "", "no memory for a CUDA context");
        return NULL;
    }
    tombola_result result = find_context(cuda, error);
    if (!result) {
        tb_cu_result pushed = driver->cuCtxPushCurrent(cuda->context);
        if (pushed) {
            result = tb_driver_fail(driver, pushed, "cuCtxPushCurrent", error);
        } else {
            result = read_properties(cuda, error);
            if (!result) result = load_modules(cuda, error);
            driver->cuCtxPopCurrent(&(tb_cu_context){0});
        }
    }
    if (result) {
        tb_cuda_destroy(cuda);
        return NULL;
    }
    return cuda;
}

void tb_cuda_destroy(tb_cuda *cuda)
{
    if (!cuda) return;
    const tb_driver *driver = cuda->driver;
    /* Where the caller has already destroyed the CUDA context, its modules are gone and the push fails. */
    if (cuda->module_count && !driver->cuCtxPushCurrent(cuda->context)) {
        for (int i = 0; i < cuda->module_count; i++) driver->cuModuleUnload(cuda->modules[i]);
        driver->cuCtxPopCurrent(&(tb_cu_context){0});
    }
    if (cuda->primary) driver->cuDevicePrimaryCtxRelease(cuda->device);
    free(cuda->kernels);
    free(cuda->forced);
    free(cuda);
}

bool tb_cuda_is_device_memory(const tb_cuda *cuda, const void *pointer)
{
    return tb_cuda_pointer_is_device(cuda->driver, pointer);
}

const char *tb_cuda_device_name(const tb_cuda *cuda)
{
    return cuda->name;
}

/* ---- calls ---- */

/* The plan of a call, or a refusal where no kernel does it. */
static tombola_result choose(const tb_cuda *cuda, const tombola_call *call, tb_cuda_plan *plan,
                             tombola_error *error)
{
    *plan = tb_cuda_choose(&cuda->properties, call, cuda->forced);
    if (plan->launch_count < 1)
        return tb_fail(
            error, TOMBOLA_ERROR_UNSUPPORTED, call->method == TOMBOLA_EXACT ? "" : "method",
            "the cuda backend%s%s does not do this call (method %d, %d steps); use the cpu backend",
            cuda->forced ? " with TOMBOLA_CUDA_VARIANT=" : "", cuda->forced ? cuda->forced : "", call->method,
            call->step_count);
    return TOMBOLA_OK;
}

tombola_result tb_cuda_workspace(const tb_cuda *cuda, const tombola_call *call, size_t *size,
                                 tombola_error *error)
{
    tb_cuda_plan plan;
    tombola_result result = choose(cuda, call, &plan, error);
    if (result) return result;
    *size = plan.workspace_bytes;
    return tb_succeed(error);
}

static const kernel *find_kernel(const tb_cuda *cuda, const char *name)
{
    const kernel wanted = {.name = name};
    if (!cuda->kernel_count) return NULL;
    return bsearch(&wanted, cuda->kernels, cuda->kernel_count, sizeof wanted, compare_kernels);
}

/* Everything about a plan that a launch would refuse, so that a call starts whole or not at all. */
static tombola_result check_plan(const tb_cuda *cuda, const tb_cuda_plan *plan, const kernel **kernels,
                                 tombola_error *error)
{
    for (int i = 0; i < plan->launch_count; i++) {
        const tb_cuda_launch *launch = &plan->launch[i];
        kernels[i] = find_kernel(cuda, launch->kernel);
        if (!kernels[i])
            return tb_fail(error, TOMBOLA_ERROR_UNSUPPORTED, "",
                           "kernel %s is not in this build (targets %s): rebuild tombola", launch->kernel,
                           tb_cuda_targets);
        if ((int64_t)launch->shared_bytes > kernels[i]->max_shared)
            return tb_fail(error, TOMBOLA_ERROR_UNSUPPORTED, "",
                           "kernel %s needs %u bytes of shared memory and %s has %d: set "
                           "TOMBOLA_CUDA_VARIANT=generic",
                           launch->kernel, launch->shared_bytes, cuda->name, kernels[i]->max_shared);
    }
    return TOMBOLA_OK;
}

/* Has a draw list what it keeps, and the rows of output made of that. */
static void list_kept(const tombola_call *call, const tb_cuda_plan *plan, tombola_call *part)
{
    const size_t rows = (size_t)call->rows;
    char *at = (char *)call->workspace + plan->lists_at;
    part->kept_mass = call->kept_mass ? call->kept_mass : (uint64_t *)at;
    part->kept_count = call->kept_count ? call->kept_count : (int32_t *)(at + rows * 8);
    part->kept_ids = (int32_t *)(at + rows * 12);
    part->kept_capacity = TB_LISTED_MOST;
}

static tombola_result launch_plan(const tb_cuda *cuda, const tombola_call *call, const tb_cuda_plan *plan,
                                  const kernel *const *kernels, tombola_error *error)
{
    tb_cuda_params params = {.workspace = call->workspace, .slow_doubles = plan->slow_doubles};
    for (int i = 0; i < plan->launch_count; i++) {
        const tb_cuda_launch *launch = &plan->launch[i];
        params.part = launch->part;
        params.call = tb_cuda_part_of(call, launch->part);
        params.call.steps = NULL;
        const int own = launch->part == TB_CUDA_TOP_SET; /* its step, before the call's */
        if (own) params.steps[0] = tb_cuda_top_step(call);
        params.checked_steps = call->step_count + own;
        if (call->step_count)
            memcpy(params.steps + own, call->steps, (size_t)call->step_count * sizeof params.steps[0]);
        params.sorted = tb_whole_sorted(&params.call, params.steps);
        if (plan->lists && (launch->part == TB_CUDA_DRAW || launch->part == TB_CUDA_ROWS))
            list_kept(call, plan, &params.call);
        tb_cu_attribute attributes[MAX_ATTRIBUTES];
        tb_cu_launch config = {
            .grid = {launch->grid, 1, 1},
            .block = {launch->threads, 1, 1},
            .shared_bytes = launch->shared_bytes,
            .stream = call->cuda_stream,
            .attributes = attributes,
        };
        if (launch->cluster > 1)
            attributes[config.attribute_count++] =
                (tb_cu_attribute){.id = TB_CU_LAUNCH_CLUSTER, .value.cluster = {launch->cluster, 1, 1}};
        /* Either the first launch, behind kernels of the caller's, or the parts that follow it: they may
         * begin beside it, if its inputs were there before it began. The kernels behind those must wait. */
        const bool beside = launch->part > TB_CUDA_DRAW && !call->dependent_launch;
        if ((i == 0 ? call->dependent_launch : beside) && cuda->properties.major >= 9)
            attributes[config.attribute_count++] =
                (tb_cu_attribute){.id = TB_CU_LAUNCH_DEPENDENT, .value.flag = 1};
        tb_cu_result result =
            cuda->driver->cuLaunchKernelEx(&config, kernels[i]->function, (void *[]){&params}, NULL);
        if (result) {
            char what[80];
            snprintf(what, sizeof what, "launching %.60s", launch->kernel);
            return tb_driver_fail(cuda->driver, result, what, error);
        }
    }
    return tb_succeed(error);
}

tombola_result tb_cuda_run(const tb_cuda *cuda, const tombola_call *call, tombola_error *error)
{
    const tb_driver *driver = cuda->driver;
    const kernel *kernels[TB_CUDA_MAX_LAUNCHES];
    tb_cuda_plan plan;
    tombola_result result = choose(cuda, call, &plan, error);
    if (!result) result = check_plan(cuda, &plan, kernels, error);
    if (result) return result;
    tb_cu_result pushed = driver->cuCtxPushCurrent(cuda->context);
    if (pushed) return tb_driver_fail(driver, pushed, "cuCtxPushCurrent", error);
    result = tb_cuda_check_workspace(driver, call, plan.workspace_bytes, error);
    if (!result) result = tb_cuda_check_pointers(driver, cuda->pageable, call, error);
    if (!result) result = launch_plan(cuda, call, &plan, kernels, error);
    driver->cuCtxPopCurrent(&(tb_cu_context){0});
    return result;
}

void tb_cuda_plan_text(const tb_cuda *cuda, const tombola_call *call, char *text, size_t capacity)
{
    tombola_error error;
    tb_cuda_plan plan;
    size_t used = 0;
#define ADD(...)                                                                                             \
    if (used < capacity) used += (size_t)snprintf(text + used, capacity - used, __VA_ARGS__)
    ADD("cuda %s", cuda->name);
    if (choose(cuda, call, &plan, &error)) {
        ADD(": %s", error.message);
        return;
    }
    for (int i = 0; i < plan.launch_count; i++) {
        const tb_cuda_launch *launch = &plan.launch[i];
        ADD(", %s %u x %u threads", launch->kernel, launch->grid, launch->threads);
        if (launch->cluster > 1) ADD(" in clusters of %u", launch->cluster);
        if (launch->shared_bytes) ADD(" with %u bytes shared", launch->shared_bytes);
    }
    ADD(", workspace %zu bytes", plan.workspace_bytes);
#undef ADD
}
