/*
 * Clusters: a row is the work of C blocks, which exchange words by mail: stores to another block's shared
 * memory that a barrier there counts. C = 1 needs no cluster.
 */
#ifndef TB_CUDA_FAST_CLUSTER_CUH
#define TB_CUDA_FAST_CLUSTER_CUH

#include "../params.h"
#include "primitives.cuh"

template <int C> TB_DEV void tb_cluster_arrive(void)
{
#if __CUDA_ARCH__ >= 900
    if (C > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

template <int C> TB_DEV void tb_cluster_wait(void)
{
#if __CUDA_ARCH__ >= 900
    if (C > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* A barrier over all the row's threads. */
template <int C> TB_DEV void tb_row_barrier(void)
{
    if (C == 1) {
        __syncthreads();
    } else {
        tb_cluster_arrive<C>();
        tb_cluster_wait<C>();
    }
}

/* The same object in the shared memory of another block of the cluster. */
template <int C, class T> TB_DEV T *tb_remote(T *local, int rank)
{
    if (C == 1) return local;
#if __CUDA_ARCH__ >= 900
    uint64_t address;
    asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(local), "r"(rank));
    return (T *)address;
#else
    return local;
#endif
}

/* Arrival that orders nothing, for the first barrier, which only says that all blocks run. */
template <int C> TB_DEV void tb_cluster_arrive_relaxed(void)
{
#if __CUDA_ARCH__ >= 900
    if (C > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

/* Messages between blocks: stores that a barrier in the receiver's shared memory counts. */
TB_DEV uint32_t tb_shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
TB_DEV uint32_t tb_map(uint32_t address, int rank)
{
    uint32_t mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

TB_DEV void tb_mail_init(uint64_t *box, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(tb_shared_address(box)), "r"(arrivals)
                 : "memory");
}

TB_DEV void tb_mail_init_done(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

TB_DEV void tb_mail_arrive(uint64_t *box)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(tb_shared_address(box)) : "memory");
}

TB_DEV void tb_mail_expect(uint64_t *box, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(tb_shared_address(box)),
                 "r"(bytes)
                 : "memory");
}

/* Relaxed: mail orders itself, and a release would wait for all of the thread's stores to reach memory. */
TB_DEV void tb_mail_expect_at(uint64_t *box, int rank, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(
                     tb_map(tb_shared_address(box), rank)),
                 "r"(bytes)
                 : "memory");
}

/* Waits for the box's first filling (parity 0), its second (1), ... */
TB_DEV void tb_mail_wait(uint64_t *box, uint32_t parity = 0)
{
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, "
                 "[%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(tb_shared_address(box)),
                 "r"(parity)
                 : "memory");
}

/* The same for words that came by mail alone, which the box orders: nothing else that other blocks wrote can
 * be seen by it, and the multiprocessor's cache of memory stays. */
TB_DEV void tb_mail_await(uint64_t *box, uint32_t parity = 0)
{
    asm volatile("{\n.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(tb_shared_address(box)),
                 "r"(parity)
                 : "memory");
}

TB_DEV void tb_mail_4(void *to, int rank, uint32_t x, uint64_t *box)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
                     tb_map(tb_shared_address(to), rank)),
                 "r"(x), "r"(tb_map(tb_shared_address(box), rank))
                 : "memory");
}

TB_DEV void tb_mail_8(void *to, int rank, uint32_t x, uint32_t y, uint64_t *box)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
                     tb_map(tb_shared_address(to), rank)),
                 "r"(x), "r"(y), "r"(tb_map(tb_shared_address(box), rank))
                 : "memory");
}

TB_DEV void tb_mail_16(void *to, int rank, uint4 x, uint64_t *box)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
            tb_map(tb_shared_address(to), rank)),
        "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(tb_map(tb_shared_address(box), rank))
        : "memory");
}
#else /* kernels with clusters are not built for these devices */
TB_DEV void tb_mail_init(uint64_t *, uint32_t)
{
}
TB_DEV void tb_mail_init_done(void)
{
}
TB_DEV void tb_mail_arrive(uint64_t *)
{
}
TB_DEV void tb_mail_expect(uint64_t *, uint32_t)
{
}
TB_DEV void tb_mail_expect_at(uint64_t *, int, uint32_t)
{
}
TB_DEV void tb_mail_wait(uint64_t *, uint32_t = 0)
{
}
TB_DEV void tb_mail_await(uint64_t *, uint32_t = 0)
{
}
TB_DEV void tb_mail_4(void *, int, uint32_t, uint64_t *)
{
}
TB_DEV void tb_mail_8(void *, int, uint32_t, uint32_t, uint64_t *)
{
}
TB_DEV void tb_mail_16(void *, int, uint4, uint64_t *)
{
}
#endif

/* With a dependent launch: waits until the kernels before are done and their writes can be seen. Launches for
 * some parts of a call begin beside those for the parts before, and wait for them at their end, by
 * tb_wait_for_dependencies: for what these wrote, and so that whoever waits for the last has waited for all.
 */
TB_DEV void tb_wait_for_inputs(int32_t part = TB_CUDA_WHOLE_CALL)
{
#if __CUDA_ARCH__ >= 900
    if (part != TB_CUDA_TOP_SET && part != TB_CUDA_RAW_LOGPROBS) tb_wait_for_dependencies();
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
