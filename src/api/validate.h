#ifndef TB_API_VALIDATE_H
#define TB_API_VALIDATE_H

#include <tombola.h>

/* Checks every host-side field of a call and writes it to *out with its defaults filled in. The
 * workspace is not looked at. Values behind pointers are not read: they are row problems, not the call's. */
tombola_result tb_validate(const tombola_call *call, tombola_call *out, tombola_error *error);

#endif
