/*
 * The CPU backend: one template (row.h and the files it includes), instantiated for AVX-512, AVX2 and
 * portable C, chosen at run time.
 */
#ifndef TB_CPU_H
#define TB_CPU_H

#include "../call/row.h"

/* The best instruction set of this machine and build. */
tombola_isa tb_cpu_best_isa(void);

/* True when the machine and the build have it. */
bool tb_cpu_has_isa(tombola_isa isa);

/* Bytes of workspace for one thread. */
size_t tb_cpu_workspace(const tombola_call *call);

/* Computes every output of one row of a validated call. The workspace is aligned to 64 bytes. */
void tb_cpu_row(tombola_isa isa, const tombola_call *call, int64_t index, void *workspace);

#endif
