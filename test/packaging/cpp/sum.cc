// SPDX-License-Identifier: Apache-2.0
// Adds up 1, 2, ... over the ranks, in C++.
#include <hora/hora.h>

#include <cstdio>

int main() {
  auto hora = hora::init();
  float number = static_cast<float>(hora.rank() + 1);
  hora::Entry entry;
  entry.name = "number";
  entry.shape = {1};
  entry.input = entry.output = &number;
  entry.op = hora::ReduceOp::sum;
  hora.submit(entry).wait();
  std::printf("rank %d: %g\n", hora.rank(), static_cast<double>(number));
}
