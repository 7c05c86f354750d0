// SPDX-License-Identifier: Apache-2.0
// Hello in C: a sum over all ranks, two operations that are submitted as a group, and a sum over some ranks.
//
//   hrun -np 2 build/default/bin/hello_c
//
// Expected output (the ranks' lines in any order):
//   [0] rank 0 of 2 says hello
//   [1] rank 1 of 2 says hello
//   [0] the sum of all ranks + 1 is 3
//   [0] rank 0 brought 1 x 0
//   [0] rank 1 brought 2 x 1
//   [1] rank 0 sent 1
//   [1] rank 1 sent 11
//   [0] the sum over the even ranks is 1
#include <hora/c.h>

#include <stdio.h>
#include <stdlib.h>

// Ends the job on all ranks if a function of Hora has failed.
static void check(int code) {
  if (code == HORA_OK) return;
  fprintf(stderr, "%s\n", hora_last_error());
  hora_shutdown(hora_last_error());
  exit(EXIT_FAILURE);
}

static float sum_over(int process_set, const char* name, float number) {
  const struct hora_entry sum = {.operation = HORA_ALLREDUCE,
                                 .name = name,
                                 .process_set = process_set,
                                 .input = &number,
                                 .output = &number,
                                 .shape = (const int64_t[]){1},
                                 .dimensions = 1,
                                 .dtype = HORA_FLOAT32,
                                 .op = HORA_SUM};  // in place
  hora_handle* handle = NULL;
  check(hora_submit(&sum, 1, &handle));
  check(hora_wait(handle));
  hora_release(handle);
  return number;
}

int main(void) {
  check(hora_init());  // without hrun: rank 0 of 1
  const int rank = hora_rank();
  const int size = hora_size();
  printf("rank %d of %d says hello\n", rank, size);

  const float sum = sum_over(0, "number", (float)(rank + 1));
  if (rank == 0) printf("the sum of all ranks + 1 is %g\n", (double)sum);

  // A group: rank r gathers r + 1 rows, and sends one row to each rank.
  int32_t own[rank + 1], sent[size], received[size];
  for (int i = 0; i <= rank; ++i) own[i] = rank;
  for (int peer = 0; peer < size; ++peer) sent[peer] = 10 * rank + peer;
  const struct hora_entry group[] = {{.operation = HORA_ALLGATHER,  // its output is NULL: Hora allocates it
                                      .name = "rows",
                                      .input = own,
                                      .shape = (const int64_t[]){rank + 1},
                                      .dimensions = 1,
                                      .dtype = HORA_INT32},
                                     {.operation = HORA_ALLTOALL,
                                      .name = "exchange",
                                      .input = sent,
                                      .output = received,
                                      .output_rows = size,
                                      .shape = (const int64_t[]){size},
                                      .dimensions = 1,
                                      .dtype = HORA_INT32}};
  hora_handle* handles[2];
  check(hora_submit(group, 2, handles));
  for (int i = 0; i < 2; ++i) check(hora_wait(handles[i]));

  int64_t rows[size];  // of each rank
  hora_rows(handles[0], rows, size);
  const int32_t* gathered = hora_output(handles[0], NULL);
  for (int peer = 0; rank == 0 && peer < size; gathered += rows[peer++])
    printf("rank %d brought %d x %d\n", peer, (int)rows[peer], *gathered);
  for (int peer = 0; rank == 1 && peer < size; ++peer) printf("rank %d sent %d\n", peer, received[peer]);
  for (int i = 0; i < 2; ++i) hora_release(handles[i]);  // and what Hora has allocated

  // A process set with a name: only its ranks make it.
  if (rank % 2 == 0) {
    const int count = (size + 1) / 2;
    int evens[count], process_set = 0;
    for (int i = 0; i < count; ++i) evens[i] = 2 * i;
    check(hora_add_process_set(evens, count, "evens", &process_set));
    const float partial = sum_over(process_set, "partial", (float)(rank + 1));
    if (rank == 0) printf("the sum over the even ranks is %g\n", (double)partial);
  }
  check(hora_shutdown(NULL));
}
