// SPDX-License-Identifier: Apache-2.0
// Also the main program of tests that mpirun starts: only rank 0 writes a report, and the others what fails.
#include "test/support/mpi_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

namespace hora {
namespace {

/// The output of a rank other than 0 about a test: only its failures.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", mpi_rank(), result.file_name(), result.line_number(),
                 result.message());
  }
};

}  // namespace

int mpi_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int mpi_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

MPI_Comm duplicate_world() {
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  return communicator;
}

std::shared_ptr<std::atomic<int>> make_shared_counter() {
  void* memory = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  const MPI_Aint bytes = mpi_rank() == 0 ? sizeof(std::atomic<int>) : 0;
  MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  MPI_Aint size = 0;
  int unit = 0;
  MPI_Win_shared_query(window, 0, &size, &unit, &memory);
  if (mpi_rank() == 0) new (memory) std::atomic<int>(0);
  MPI_Barrier(MPI_COMM_WORLD);
  return {static_cast<std::atomic<int>*>(memory),
          [window](std::atomic<int>*) mutable { MPI_Win_free(&window); }};
}

}  // namespace hora

int main(int argc, char** argv) {
  // Not Hora: then it would not end MPI in order, because tests abort collectives.
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  testing::InitGoogleMock(&argc, argv);
  if (hora::mpi_rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_xml_generator());  // one report for all
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new hora::FailurePrinter);
  }
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
