/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up 1, 2, ... over the ranks, in C. */
#include <hora/c.h>
#include <stdio.h>

int main(void) {
  if (hora_init() != HORA_OK) {
    fprintf(stderr, "%s\n", hora_last_error());
    return 1;
  }
  float number = (float)(hora_rank() + 1);
  const int64_t shape[] = {1};
  const struct hora_entry sum = {.operation = HORA_ALLREDUCE,
                                 .name = "number",
                                 .input = &number,
                                 .output = &number,
                                 .shape = shape,
                                 .dimensions = 1,
                                 .dtype = HORA_FLOAT32,
                                 .op = HORA_SUM};
  hora_handle* handle = NULL;
  if (hora_submit(&sum, 1, &handle) != HORA_OK || hora_wait(handle) != HORA_OK) {
    fprintf(stderr, "%s\n", hora_last_error());
    return 1;
  }
  hora_release(handle);
  printf("rank %d: %g\n", hora_rank(), (double)number);
  return hora_shutdown(NULL);
}
