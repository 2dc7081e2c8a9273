#include "cpu.h"
#include "../reference/reference.h"
tombola_isa tb_cpu_best_isa(void){return TOMBOLA_ISA_PORTABLE;}
bool tb_cpu_has_isa(tombola_isa i){return i==TOMBOLA_ISA_PORTABLE;}
size_t tb_cpu_workspace(const tombola_call*c){return tb_reference_workspace(c->vocab_size);}
void tb_cpu_row(tombola_isa i,const tombola_call*c,int64_t r,void*w){(void)i;tb_reference_row(c,r,w);}
