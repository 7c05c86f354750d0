/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Hora for other languages. One current job a process. Functions that return int give 0 (HORA_OK) or a code
 * below; hora_last_error() then says what was wrong, in this thread. Thread-safe. The numbers are those of
 * hora/dtype.h and hora/hora.h. The layout of structures changes only with the soname of libhora. */

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
  HORA_BOOL,
  HORA_UINT16,
  HORA_UINT32,
  HORA_UINT64,
  HORA_COMPLEX64, /* float complex; complex numbers have sums and averages alone */
  HORA_COMPLEX128,
  HORA_FLOAT8_E4M3FN, /* floats of 8 bits are moved, and not reduced */
  HORA_FLOAT8_E4M3FNUZ,
  HORA_FLOAT8_E5M2,
  HORA_FLOAT8_E5M2FNUZ,
  HORA_FLOAT8_E8M0FNU
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

enum hora_operation {
  HORA_ALLREDUCE = 0,
  HORA_BROADCAST = 1,
  HORA_ALLGATHER = 2,
  HORA_ALLTOALL = 4,
  HORA_REDUCESCATTER = 5,
  HORA_GATHER = 9,
  HORA_SCATTER = 10,
  HORA_REDUCE = 11,
  HORA_SCAN = 12
};

enum hora_device { HORA_HOST, HORA_CUDA };

enum { HORA_SECRET_BYTES = 32 };

/* An operation under way; give it back with hora_wait or hora_release. */
typedef struct hora_handle hora_handle;

const char* hora_version(void);
/* The message of the last failed call of this thread, at most 4,095 bytes; valid until its next call, which
 * may take it as an argument. */
const char* hora_last_error(void);

/* Joins the job that the environment describes, as a launcher sets it. If this process is in a job already,
 * as Python or C++ has joined, this is the same job; then the other functions need no hora_init. */
int hora_init(void);
/* The same for a job that no launcher describes: this process is rank `rank` of `size`. The ranks meet at
 * `coordinator`, "host:port", where rank 0 listens. Both it and the secret are the same on all ranks. */
int hora_init_at(int rank, int size, const char* coordinator, const unsigned char secret[HORA_SECRET_BYTES]);
/* Rank 0 may call this in place of choosing both. It listens at a free port until hora_init_at. It writes the
 * coordinator, a text of less than `size` bytes, and a new secret. The program brings both to the other
 * ranks, in a way that others cannot read. */
int hora_listen(char* coordinator, size_t size, unsigned char secret[HORA_SECRET_BYTES]);
/* Leaves the job, for C++ and Python, too, when all ranks have called this. With a reason, which may be NULL,
 * the job fails for it, and nobody is waited for. */
int hora_shutdown(const char* reason);
int hora_is_initialized(void); /* 1 or 0 */
int hora_rank(void);           /* -1 if not initialised; likewise the following */
int hora_size(void);
int hora_local_rank(void);
int hora_local_size(void);
int hora_cross_rank(void);
int hora_cross_size(void);

/* Makes a process set of these ranks of the job, and gives its number. With a name, which may be NULL, only
 * the ranks of the set call it, with the same name and ranks; without one, all ranks of the job do. */
int hora_add_process_set(const int* ranks, int count, const char* name, int* process_set);
/* All ranks of the job call this, and it returns when all have. If the set has a name, its ranks alone do,
 * and it returns at once. */
int hora_remove_process_set(int process_set);

/* A description of an operation; hora/hora.h says more about each value. A zero means 0, average, uint8, a
 * null pointer or what is written beside it, so an initialiser names only the others:
 *
 *   struct hora_entry sum = {.operation = HORA_ALLREDUCE, .name = "x", .input = x, .output = x,
 *                            .shape = shape, .dimensions = 1, .dtype = HORA_FLOAT32, .op = HORA_SUM};
 */
struct hora_entry {
  enum hora_operation operation;
  const char* name; /* the same on all ranks */
  int process_set;  /* which ranks take part; 0: all */
  const void* input;
  /* As large as the input, and may be the input; reducescatter: this rank's rows. allgather, alltoall, gather
   * and scatter: an output of `output_rows` rows, or NULL: then Hora allocates it, and hora_output gives it.
   * Both belong to Hora until the handle has been waited for. */
  void* output;
  int64_t output_rows;
  const int64_t* shape; /* of the input: `dimensions` extents; elements are contiguous */
  int dimensions;
  enum hora_dtype dtype;
  enum hora_reduce_op op; /* output = postscale * op(prescale * input of every rank) */
  double prescale;        /* 0 counts as 1, and -0.0 as 0 */
  double postscale;       /* likewise */
  /* HORA_FLOAT16 or HORA_BFLOAT16 for float32 and float64 on the way; HORA_FLOAT8_E4M3FN or HORA_FLOAT8_E5M2
   * for a sum or an average of floats: block-scaled; 0: as is */
  enum hora_dtype wire;
  int root;              /* broadcast, gather, scatter, reduce: a rank of the job */
  const int64_t* splits; /* alltoall, the root of a scatter: rows for each rank; NULL: equal parts */
  /* Where input and output lie. On a GPU: its number, as CUDA_VISIBLE_DEVICES leaves them, and the stream (a
   * cudaStream_t) on which the input is made. Users of the output call hora_wait_on. */
  enum hora_device device;
  int device_index;
  void* stream;
};

/* Starts operations, one handle each. Several belong together: all of them are taken or none. */
int hora_submit(const struct hora_entry* entries, int count, hora_handle** handles);
/* Returns when all ranks of the process set have called it. */
int hora_barrier(const char* name, int process_set);
/* This rank has no more tensors: it counts as zeros in the operations of the others. Returns when all ranks
 * have called it. Writes which of them was the last, unless `last_rank` is NULL. */
int hora_join(int* last_rank);

enum { HORA_ANY_SOURCE = -1, HORA_ANY_TAG = -1 };
/* Start to send a message to a rank of the job, and to receive one of exactly this dtype and shape. Both are
 * in the process set. The memory belongs to Hora until the handle has been waited for. */
int hora_send(int peer, int tag, int process_set, const void* input, const int64_t* shape, int dimensions,
              enum hora_dtype dtype, hora_handle** handle);
int hora_receive(int peer, int tag, int process_set, void* output, const int64_t* shape, int dimensions,
                 enum hora_dtype dtype, hora_handle** handle);

/* 1 if hora_wait would return at once; else whoever has work to do on this core does it first. */
int hora_poll(const hora_handle* handle);
int hora_wait(hora_handle* handle); /* the operation's code; the handle stays valid */
/* The same, for this many milliseconds at most: then HORA_TIMEOUT, and the operation goes on. It is also the
 * code of an operation that has ended for that reason; hora_poll tells them apart. */
int hora_wait_for(hora_handle* handle, int milliseconds);
/* On a GPU: returns when the operation's work has been given to the GPU. Work that is put on `stream` from
 * then on waits for it. */
int hora_wait_on(hora_handle* handle, void* stream);
/* Of an operation that has been waited for: where the result lies that Hora has allocated, on the GPU of the
 * input if that lies on one, and how many rows it has; NULL if there is none. Valid until hora_release. */
const void* hora_output(const hora_handle* handle, int64_t* rows);
/* The same of allgather, gather, alltoall, scatter: the rows of each rank (hora/hora.h, Result::rows). Writes
 * `count` of them at most, and returns how many there are; -1 if it failed. */
int hora_rows(const hora_handle* handle, int64_t* rows, int count);
/* The same of a received message: who sent it. -1 if it failed. */
int hora_source(const hora_handle* handle);
void hora_release(hora_handle* handle); /* waits if need be */

/* Tells which operations have ended, to a thread that waits for many things; hora/completion_queue.h says
 * more. */
typedef struct hora_completion_queue hora_completion_queue;
int hora_completion_queue_make(hora_completion_queue** queue);
/* Puts `token` into the queue once, when the operation has ended. */
int hora_completion_queue_watch(hora_completion_queue* queue, const hora_handle* handle, uint64_t token);
/* A descriptor for poll(2): it can be read while there are tokens. */
int hora_completion_queue_fd(const hora_completion_queue* queue);
/* Takes up to `count` tokens of operations that have ended, without blocking; returns how many, -1 on
 * failure. */
int hora_completion_queue_take(hora_completion_queue* queue, uint64_t* tokens, int count);
void hora_completion_queue_free(hora_completion_queue* queue);

/* Memory that the ranks of a host exchange fastest, zeroed; NULL on failure. Valid until hora_free. */
void* hora_allocate(size_t bytes);
void hora_free(void* memory);

#ifdef __cplusplus
}
#endif
