// SPDX-License-Identifier: Apache-2.0
#include "core/compose/hierarchical_allreduce.h"

#include "core/backend/local/rendezvous.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

namespace hora {
namespace {

/// Two hosts of two ranks each.
void on_two_hosts(const std::function<void(int rank, ThreeSteps& steps)>& rank_main) {
  const std::vector<std::vector<int>> hosts{{0, 1}, {2, 3}};
  const auto world = std::make_shared<local::Rendezvous>(4);
  const std::vector<std::shared_ptr<local::Rendezvous>> within{std::make_shared<local::Rendezvous>(2),
                                                               std::make_shared<local::Rendezvous>(2)};
  run_ranks(4, [&](int rank) {
    const auto own = within[static_cast<std::size_t>(rank / 2)];
    ThreeSteps steps(local::make_local_collective(world, rank), local::make_local_collective(own, rank % 2),
                     hosts_of(hosts, rank));
    rank_main(rank, steps);
  });
}

const std::vector<std::size_t> kCounts{1, 1000, 700'001};  // the last in chunks

TEST(HierarchicalAllreduce, ReducesSegmentsAsIfTheyWereOneTensor) {
  for (const std::size_t count : kCounts) {
    on_two_hosts([count](int rank, ThreeSteps& steps) {
      std::vector<float> first(count, static_cast<float>(rank));
      std::vector<float> second(count);
      std::iota(second.begin(), second.end(), 0.0F);
      std::vector<float> sums(count);
      const std::vector<Segment> segments{{first.data(), first.data(), count},
                                          {second.data(), sums.data(), count}};
      allreduce_in_steps(steps, segments, phases_of({DType::float32, ReduceOp::sum, 1.0, 0.25, 1}), nullptr);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(first[i], 1.5F);
        ASSERT_EQ(sums[i], second[i]);
      }
    });
  }
}

/// Notes which elements come and go.
class CountingPacking final : public Packing {
 public:
  explicit CountingPacking(std::vector<float>& data) : data_(data) {}
  void pack(std::size_t begin, std::size_t count) override {
    EXPECT_EQ(begin, packed);
    packed += count;
    for (std::size_t i = begin; i < begin + count; ++i) data_[i] = 1.0F;
  }
  void unpack(std::size_t begin, std::size_t count) override {
    EXPECT_EQ(begin, unpacked);
    unpacked += count;
    for (std::size_t i = begin; i < begin + count; ++i) ASSERT_EQ(data_[i], 4.0F);
  }
  std::size_t packed = 0;
  std::size_t unpacked = 0;

 private:
  std::vector<float>& data_;
};

TEST(HierarchicalAllreduce, PacksEachElementOnceBeforeAndUnpacksItOnceAfter) {
  for (const std::size_t count : kCounts) {
    on_two_hosts([count](int, ThreeSteps& steps) {
      std::vector<float> wire(count);
      CountingPacking packing(wire);
      const Segment segment{wire.data(), wire.data(), count};
      allreduce_in_steps(steps, {&segment, 1}, phases_of({}), &packing);
      EXPECT_EQ(packing.packed, count);
      EXPECT_EQ(packing.unpacked, count);
    });
  }
}

TEST(HierarchicalAllreduce, DoesNothingWithoutElements) {
  on_two_hosts([](int, ThreeSteps& steps) { allreduce_in_steps(steps, {}, phases_of({}), nullptr); });
}

}  // namespace
}  // namespace hora
