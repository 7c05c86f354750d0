// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/tcp_collective.h"

#include "test/support/paired_links.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

TEST(TcpCollective, APeerWhoseSocketClosesIsNamed) {
  const auto links = paired_links(2);
  const auto collective = make_tcp_collective(links[0], {});
  links[1]->abort({Code::aborted, ""});
  try {
    collective->barrier();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 1 is gone: its data connection closed");
  }
}

/// How many connections the ranks of a job have after one of each call.
std::vector<int> connections(int ranks, const TcpKnobs& knobs) {
  const auto links = paired_links(ranks);
  run_ranks(ranks, [&](int rank) {
    const auto collective = make_tcp_collective(links[static_cast<std::size_t>(rank)], knobs);
    for (const std::size_t count : {10, 5'000'000}) {
      std::vector<float> data(count, 1.0F);
      const Segment segment{data.data(), data.data(), count};
      collective->allreduce({&segment, 1}, {DType::float32, ReduceOp::sum, 1.0, 1.0, ranks});
      collective->broadcast(data.data(), count * 4, 0);
    }
    collective->barrier();
    const std::vector<std::size_t> one(static_cast<std::size_t>(ranks), 1);
    const std::vector<char> input(static_cast<std::size_t>(ranks));
    std::vector<char> output(static_cast<std::size_t>(ranks));
    collective->allgather(input.data(), output.data(), one);
  });
  std::vector<int> counts;
  counts.reserve(links.size());
  for (const auto& one : links) counts.push_back(count_required(*one));
  return counts;
}

TEST(TcpCollective, ManyRanksNeedNotBeConnectedToAllOthers) {
  for (const int count : connections(24, {})) EXPECT_LE(count, 11);
  for (const int count : connections(6, {})) EXPECT_EQ(count, 5);
}

TEST(TcpCollective, DeterministicSumsDoNotDependOnWhatTravelsTogether) {
  TcpKnobs knobs;
  knobs.deterministic = true;
  constexpr int kRanks = 18;
  constexpr std::size_t kLong = 5'000'000;
  const auto links = paired_links(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const auto collective = make_tcp_collective(links[static_cast<std::size_t>(rank)], knobs);
    std::vector<float> data(kLong);
    for (std::size_t i = 0; i < kLong; ++i)
      data[i] = 1.0F / static_cast<float>(rank * 31 + static_cast<int>(i % 1000) + 1);
    std::vector<float> few(data.end() - 1000, data.end());
    for (auto* one : {&data, &few}) {
      const Segment segment{one->data(), one->data(), one->size()};
      collective->allreduce({&segment, 1}, {DType::float32, ReduceOp::sum, 1.0, 1.0, 1});
    }
    for (std::size_t i = 0; i < kLong; ++i) ASSERT_EQ(data[i], few[i % 1000]) << i;
  });
}

}  // namespace
}  // namespace hora::tcp
