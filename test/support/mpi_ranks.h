// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>

namespace hora {

// For test programs that mpirun starts: every process is a rank, and all run the same tests in step. The main
// program, mpi_ranks.cc, starts MPI and ends it.

[[nodiscard]] int mpi_rank();
[[nodiscard]] int mpi_ranks();
[[nodiscard]] MPI_Comm duplicate_world();
/// A number, 0 at first, in memory that all processes share, which are on one host. All call it.
[[nodiscard]] std::shared_ptr<std::atomic<int>> make_shared_counter();

}  // namespace hora
