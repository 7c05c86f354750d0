// SPDX-License-Identifier: Apache-2.0
// The behaviour that test/conformance does not see: the bytes that cross between hosts, splits, and failures.
// Both levels are rendezvous of threads, so all work on slices and chunks is the work of this class alone.
#include "core/compose/hierarchical.h"

#include "core/backend/local/rendezvous.h"
#include "core/compose/adasum.h"
#include "core/compose/hosts.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <numeric>

namespace hora {
namespace {

using Ranks = std::vector<std::vector<int>>;

/// The traffic through a collective and those split from it, over all ranks: bytes that a rank brings.
struct Traffic {
  std::atomic<std::size_t> bytes = 0;
  std::atomic<int> largest_group = 0;
};

/// A collective over which traffic is counted.
class Counted final : public Collective {
 public:
  Counted(std::unique_ptr<Collective> inner, int ranks, Traffic& traffic)
      : inner_(std::move(inner)), ranks_(ranks), traffic_(traffic) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return inner_->pack_below(); }
  [[nodiscard]] bool owns(const void* data) const override { return inner_->owns(data); }
  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    for (const auto& segment : segments) count(segment.count * size_of(reduction.dtype));
    inner_->allreduce(segments, reduction);
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    count(bytes);
    inner_->broadcast(data, bytes, root);
  }
  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    count(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}) / bytes.size());
    inner_->allgather(input, output, bytes);
  }
  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    inner_->alltoall(input, output, bytes);
  }
  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    count(std::accumulate(counts.begin(), counts.end(), std::size_t{0}) * size_of(reduction.dtype));
    inner_->reducescatter(input, output, counts, reduction);
  }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Collective> split(std::span<const int> members) override {
    auto inner = inner_->split(members);
    if (!inner) return nullptr;
    return std::make_unique<Counted>(std::move(inner), static_cast<int>(members.size()), traffic_);
  }
  void abort(const Status& why) noexcept override { inner_->abort(why); }

 private:
  void count(std::size_t bytes) {
    traffic_.bytes += bytes;
    int largest = traffic_.largest_group;
    while (largest < ranks_ && !traffic_.largest_group.compare_exchange_weak(largest, ranks_)) continue;
  }

  std::unique_ptr<Collective> inner_;
  int ranks_;
  Traffic& traffic_;
};

/// Runs `rank_main` on every rank of these hosts; counts the traffic through the collective of all ranks.
void run(const Ranks& hosts, Traffic& traffic,
         const std::function<void(int rank, Collective& collective)>& rank_main) {
  int ranks = 0;
  for (const auto& host : hosts) ranks += static_cast<int>(host.size());
  const auto world = std::make_shared<local::Rendezvous>(ranks);
  std::vector<std::shared_ptr<local::Rendezvous>> local;
  for (const auto& host : hosts)
    local.push_back(std::make_shared<local::Rendezvous>(static_cast<int>(host.size())));
  run_ranks(ranks, [&](int rank) {
    const auto [host, place] = hosts_of(hosts, rank).find(rank);
    const auto collective = make_hierarchical(
        std::make_unique<Counted>(local::make_local_collective(world, rank), ranks, traffic),
        local::make_local_collective(local[host], static_cast<int>(place)), hosts, rank);
    rank_main(rank, *collective);
  });
}

const Ranks kThreeHosts{{0, 1}, {2, 3, 4}, {5, 6}};
constexpr std::size_t kLarge = 2'000'003;  // elements: several chunks, the last one odd

std::vector<float> counted_up(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = static_cast<float>(i % 1000 + static_cast<std::size_t>(rank));
  return data;
}

TEST(Hierarchical, AnAllreduceGivesAHostsSumToOtherHostsOnce) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, kLarge}) {
    Traffic traffic;
    run(kThreeHosts, traffic, [&](int rank, Collective& collective) {
      auto data = counted_up(rank, count);
      const Segment segment{data.data(), data.data(), count};
      collective.allreduce({&segment, 1}, {});
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], static_cast<float>(i % 1000 * 7 + 21));
    });
    EXPECT_EQ(traffic.bytes, 3 * count * sizeof(float));
    EXPECT_EQ(traffic.largest_group, 3);
  }
}

TEST(Hierarchical, ABroadcastCrossesOnceForEachHost) {
  for (const int root : {0, 4, 6}) {
    Traffic traffic;
    run(kThreeHosts, traffic, [&](int rank, Collective& collective) {
      auto data = counted_up(rank, kLarge);
      collective.broadcast(data.data(), kLarge * sizeof(float), root);
      ASSERT_EQ(data, counted_up(root, kLarge));
    });
    EXPECT_EQ(traffic.bytes, 3 * kLarge * sizeof(float));
    EXPECT_EQ(traffic.largest_group, 3);
  }
}

TEST(Hierarchical, AnAllgatherGivesAHostsDataToOtherHostsOnce) {
  Traffic traffic;
  run({{0, 2}, {1, 3, 4}}, traffic, [&](int rank, Collective& collective) {
    const std::size_t each = 2'000'000;
    const std::vector<unsigned char> mine(each, static_cast<unsigned char>(rank + 1));
    std::vector<unsigned char> all(each * 5);
    collective.allgather(mine.data(), all.data(), std::vector<std::size_t>(5, each));
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i / each + 1);
  });
  EXPECT_NEAR(static_cast<double>(traffic.bytes), 10e6, 100);  // halves of odd chunks are cut off
  EXPECT_EQ(traffic.largest_group, 2);
}

TEST(Hierarchical, AReducescatterGivesAHostsSumsToOtherHostsOnce) {
  Traffic traffic;
  run({{0, 1}, {2, 3}}, traffic, [&](int rank, Collective& collective) {
    const std::size_t each = 1'000'001;
    std::vector<float> input(each * 4);
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i / each * 10 + i % 10);
    std::vector<float> output(each);
    collective.reducescatter(input.data(), output.data(), std::vector<std::size_t>(4, each), {});
    for (std::size_t i = 0; i < each; ++i) {
      const std::size_t at = static_cast<std::size_t>(rank) * each + i;
      ASSERT_EQ(output[i], static_cast<float>(4 * (at / each * 10 + at % 10)));
    }
  });
  EXPECT_EQ(traffic.bytes, 2 * 4'000'004 * sizeof(float));
  EXPECT_EQ(traffic.largest_group, 2);
}

TEST(Hierarchical, ASetOnOneHostStaysThereAndOneOfHostsGoesAcross) {
  Traffic traffic;
  run(kThreeHosts, traffic, [&](int rank, Collective& collective) {
    const std::vector<std::vector<int>> sets{{2, 4}, {1, 3, 5}, {6, 5, 4, 3}};
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const auto smaller = collective.split(sets[s]);
      const bool member = std::find(sets[s].begin(), sets[s].end(), rank) != sets[s].end();
      ASSERT_EQ(smaller != nullptr, member);
      collective.barrier();
      if (rank == 0) traffic.bytes = 0;
      collective.barrier();
      float x = static_cast<float>(rank);
      const Segment segment{&x, &x, 1};
      if (member) smaller->allreduce({&segment, 1}, {});
      collective.barrier();
      ASSERT_EQ(traffic.bytes, std::vector<std::size_t>({0, 12, 8})[s]);
      if (member) {
        ASSERT_EQ(x, std::vector<float>({6, 9, 18})[s]);
      }
    }
  });
}

TEST(Hierarchical, AdasumOfEqualVectorsIsTheirMeanAndOfOrthogonalOnesTheirSum) {
  Traffic traffic;
  run({{0, 1}, {2, 3}}, traffic, [&](int rank, Collective& collective) {
    std::vector<float> equal(100'000, 3.0F);
    std::vector<float> orthogonal(100'000);
    for (std::size_t i = static_cast<std::size_t>(rank); i < orthogonal.size(); i += 4) orthogonal[i] = 2.0F;
    const std::vector<Segment> segments{{equal.data(), equal.data(), equal.size()},
                                        {orthogonal.data(), orthogonal.data(), orthogonal.size()}};
    adasum(collective, rank, 4, segments, DType::float32, DType::float32, 1.0, 1.0);
    ASSERT_EQ(equal, std::vector<float>(100'000, 3.0F));
    ASSERT_EQ(orthogonal, std::vector<float>(100'000, 2.0F));
  });
}

/// Rank 0 makes some calls and then none; the others are told so while they wait, in whatever step that is.
TEST(Hierarchical, AnAbortEndsEveryStepOnEveryRank) {
  const Status why{Code::aborted, "rank 0 is gone"};
  for (int round = 0; round < 20; ++round) {
    Traffic traffic;
    std::vector<std::atomic<Collective*>> all(7);
    std::barrier together(7);  // as the others use what rank 0 has, it stays until all have done
    run(kThreeHosts, traffic, [&](int rank, Collective& collective) {
      all[static_cast<std::size_t>(rank)] = &collective;
      together.arrive_and_wait();
      if (rank == 0) {
        for (auto& other : all) other.load()->abort(why);
        together.arrive_and_wait();
        return;
      }
      std::vector<float> data(round % 2 == 0 ? 100 : 3'000'000);
      const Segment segment{data.data(), data.data(), data.size()};
      for (int attempt = 0; attempt < 2; ++attempt) {
        try {
          if (round % 3 == 0) collective.broadcast(data.data(), data.size() * sizeof(float), round % 7);
          collective.allreduce({&segment, 1}, {});
          ADD_FAILURE() << "it ended without rank 0";
        } catch (const Error& error) {
          EXPECT_EQ(error.status(), why);
        }
      }
      together.arrive_and_wait();
    });
  }
}

TEST(Hierarchical, AnAbortInTheMiddleGivesMemoryBackOnAllRanks) {
  Traffic traffic;
  run({{0, 1}, {2, 3}}, traffic, [&](int rank, Collective& collective) {
    std::vector<float> data(4'000'000, 1.0F);
    const Segment segment{data.data(), data.data(), data.size()};
    std::thread impatient;
    if (rank == 2) impatient = std::thread([&] { collective.abort({Code::timeout, "enough"}); });
    try {
      for (int call = 0; call < 1000; ++call) collective.allreduce({&segment, 1}, {});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), (Status{Code::timeout, "enough"}));
    }
    data = {};  // nobody reads or writes it any more
    if (impatient.joinable()) impatient.join();
  });
}

}  // namespace
}  // namespace hora
