// SPDX-License-Identifier: Apache-2.0
// Run by mpirun: every process is a rank, and all run the same tests in step.
#include "core/backend/mpi/mpi_collective.h"
#include "test/conformance/collective_suite.h"
#include "test/support/mpi_ranks.h"

namespace hora {
namespace {

/// A collective over a communicator of its own, with messages of at most so many bytes.
std::function<std::vector<std::unique_ptr<Collective>>(int)> connect_with(std::size_t most_bytes) {
  return [most_bytes](int ranks) {
    std::vector<std::unique_ptr<Collective>> all(static_cast<std::size_t>(ranks));
    all[static_cast<std::size_t>(mpi_rank())] = mpi::make_mpi_collective(
        std::make_shared<mpi::Channel>(mpi::enter_mpi(), duplicate_world(), most_bytes));
    return all;
  };
}

std::vector<int> these_ranks() { return {mpi_ranks()}; }

const RegisterCollective kMpi{
    {"mpi", connect_with(mpi::Channel::kMostBytes), these_ranks, make_shared_counter}};
// The limit is that of an int of 12 bits: longer data is sent as several messages.
const RegisterCollective kChunked{{"mpi_chunked", connect_with(4093), these_ranks, make_shared_counter}};

}  // namespace
}  // namespace hora
