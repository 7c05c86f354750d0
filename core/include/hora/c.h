/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Hora for other languages. One current job a process. Functions that return int give 0 (HORA_OK) or a code
 * below; hora_last_error() then says what was wrong, in this thread. Thread-safe. The numbers are those of
 * hora/dtype.h and hora/hora.h. */

#ifdef __cplusplus
extern "C" {
#endif

enum hora_code {
  HORA_OK = 0,
  HORA_INVALID_ARGUMENT = 1, /* the caller's mistake; nothing was sent */
  HORA_MISMATCH = 2,         /* the ranks disagree about one tensor; the job goes on */
  HORA_ABORTED = 3,          /* a rank failed; the job is over */
  HORA_TIMEOUT = 4,
  HORA_UNAVAILABLE = 5,
  HORA_INTERNAL = 6,
  HORA_RANK_FAILED = 7,     /* a rank could not bring its tensor, and said why; the job goes on */
  HORA_GENERATION_ENDED = 8 /* a rank was lost, or the ranks change; the job goes on with other ranks */
};

enum hora_dtype {
  HORA_UINT8,
  HORA_INT8,
  HORA_INT16,
  HORA_INT32,
  HORA_INT64,
  HORA_FLOAT16,
  HORA_BFLOAT16,
  HORA_FLOAT32,
  HORA_FLOAT64,
  HORA_BOOL
};

enum hora_reduce_op {
  HORA_AVERAGE,
  HORA_SUM,
  HORA_MIN,
  HORA_MAX,
  HORA_PRODUCT,
  HORA_ADASUM,
  HORA_BIT_AND,
  HORA_BIT_OR,
  HORA_BIT_XOR,
  HORA_LOGICAL_AND,
  HORA_LOGICAL_OR
};

/* An operation under way; give it back with hora_wait or hora_release. */
typedef struct hora_handle hora_handle;

const char* hora_version(void);
/* The message of the last failed call of this thread, at most 4,095 bytes; valid until its next call. */
const char* hora_last_error(void);

int hora_init(void); /* joins the job that the environment describes */
/* Leaves it, when all ranks have called this. With a reason, which may be NULL, the job fails for it, and
 * nobody is waited for. */
int hora_shutdown(const char* reason);
int hora_is_initialized(void); /* 1 or 0 */
int hora_rank(void);           /* -1 if not initialised; likewise the following */
int hora_size(void);
int hora_local_rank(void);
int hora_local_size(void);
int hora_cross_rank(void);
int hora_cross_size(void);

/* Starts output = op over the ranks of input: `dimensions` extents in `shape`, elements contiguous. Input and
 * output may be the same, and belong to Hora until the handle has been waited for. `wire`: HORA_FLOAT16 or
 * HORA_BFLOAT16 to compress float32 and float64 on the way, else HORA_FLOAT32. */
int hora_allreduce(const char* name, const void* input, void* output, const int64_t* shape, int dimensions,
                   enum hora_dtype dtype, enum hora_reduce_op op, double prescale, double postscale,
                   enum hora_dtype wire, hora_handle** handle);
int hora_broadcast(const char* name, const void* input, void* output, const int64_t* shape, int dimensions,
                   enum hora_dtype dtype, int root, hora_handle** handle);
/* The output is Hora's: hora_output gives it, until the handle is given back. */
int hora_allgather(const char* name, const void* input, const int64_t* shape, int dimensions,
                   enum hora_dtype dtype, hora_handle** handle);
int hora_barrier(const char* name);

/* 1 if hora_wait would return at once; else whoever has work to do on this core does it first. */
int hora_poll(const hora_handle* handle);
int hora_wait(hora_handle* handle); /* the operation's code; the handle stays valid */
/* Of an allgather that has been waited for: where its result lies and how many rows it has; NULL if it
 * failed. */
const void* hora_output(const hora_handle* handle, int64_t* rows);
void hora_release(hora_handle* handle); /* waits if need be */

/* Memory that the ranks of a host exchange fastest, zeroed; NULL on failure. Valid until hora_free. */
void* hora_allocate(size_t bytes);
void hora_free(void* memory);

#ifdef __cplusplus
}
#endif
