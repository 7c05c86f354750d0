// SPDX-License-Identifier: Apache-2.0
// Hello: every rank says who it is, and all ranks add up a number.
//
//   hrun -np 2 build/default/bin/hello
//
// Expected output (the ranks' lines in any order):
//   [0] rank 0 of 2 says hello
//   [1] rank 1 of 2 says hello
//   [0] the sum of all ranks + 1 is 3
#include <hora/hora.h>

#include <cstdio>

int main() {
  auto hora = hora::init();  // without hrun: rank 0 of 1
  std::printf("rank %d of %d says hello\n", hora.rank(), hora.size());

  float number = static_cast<float>(hora.rank() + 1);
  hora::Entry entry;
  entry.name = "number";
  entry.shape = {1};
  entry.input = entry.output = &number;  // in place
  entry.op = hora::ReduceOp::sum;
  hora.submit(entry).wait();

  if (hora.rank() == 0) std::printf("the sum of all ranks + 1 is %g\n", static_cast<double>(number));
}
