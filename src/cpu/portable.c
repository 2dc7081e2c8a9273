/* Portable instance of the CPU backend. */
#include "template.h"

#define TB_CPU_NAME(what) tb_cpu_##what##_portable
#include "vec_portable.h"
#include "template_body.h"
