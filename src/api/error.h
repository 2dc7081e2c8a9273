/* Filling in a caller's error struct. */
#ifndef TB_API_ERROR_H
#define TB_API_ERROR_H

#include <tombola.h>

/* Sets *error (which may be NULL) and returns result. argument is a field's name, or "". */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
tombola_result
tb_fail(tombola_error *error, tombola_result result, const char *argument, const char *format, ...);

/* Clears *error and returns TOMBOLA_OK. */
tombola_result tb_succeed(tombola_error *error);

#endif
