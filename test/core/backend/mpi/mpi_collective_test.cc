// SPDX-License-Identifier: Apache-2.0
// The behaviour of MpiCollective that test/conformance does not require of every collective.
#include "core/backend/mpi/mpi_collective.h"

#include "core/base/half.h"
#include "test/support/mpi_ranks.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace hora::mpi {
namespace {

std::unique_ptr<Collective> make() {
  return make_mpi_collective(std::make_shared<Channel>(enter_mpi(), duplicate_world()));
}

// Of all ranks together, as one kernel would reduce them; several steps long.
TEST(MpiCollective, GivesTheBitsOfOneReductionInRankOrder) {
  const auto collective = make();
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
    for (const std::size_t count : {7, 3'000'001}) {
      const std::size_t each = size_of(dtype);
      std::vector<std::vector<std::byte>> all;
      std::vector<const void*> inputs;
      for (int rank = 0; rank < mpi_ranks(); ++rank) {
        std::mt19937 random(static_cast<unsigned>(rank) + 1);
        std::vector<float> values(count);
        for (auto& value : values) value = static_cast<float>(random() % 100'000) / 1000.0F;
        all.emplace_back(count * each);
        kernels::cast(all.back().data(), dtype, values.data(), DType::float32, count);
      }
      for (const auto& input : all) inputs.push_back(input.data());
      const Reduction reduction{dtype, ReduceOp::sum, 0.5, 3.0, mpi_ranks()};
      std::vector<std::byte> expected(count * each);
      void* output = expected.data();
      kernels::reduce(inputs, {&output, 1}, count, reduction);
      auto& mine = all[static_cast<std::size_t>(mpi_rank())];
      const Segment segment{mine.data(), mine.data(), count};
      collective->allreduce({&segment, 1}, reduction);
      EXPECT_TRUE(mine == expected) << name(dtype) << " " << count;
    }
  }
}

TEST(MpiCollective, BroadcastsManyStepsFromEveryRoot) {
  const auto collective = make();
  for (int root = 0; root < mpi_ranks(); ++root) {
    std::vector<std::uint32_t> data(5'000'003, static_cast<std::uint32_t>(mpi_rank()));
    if (mpi_rank() == root) std::iota(data.begin(), data.end(), static_cast<std::uint32_t>(root));
    collective->broadcast(data.data(), data.size() * sizeof data[0], root);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < data.size(); ++i) wrong += data[i] != i + static_cast<std::size_t>(root);
    EXPECT_EQ(wrong, 0u);
  }
}

TEST(MpiCollective, ItsPartsFailWithIt) {
  const auto collective = make();
  std::vector<int> everybody(static_cast<std::size_t>(mpi_ranks()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto part = collective->split(everybody);
  part->barrier();
  const Status why{Code::aborted, "somebody is gone"};
  collective->abort(why);
  EXPECT_THROW(part->barrier(), Error);
  EXPECT_THROW(collective->split(everybody), Error);
}

}  // namespace
}  // namespace hora::mpi
