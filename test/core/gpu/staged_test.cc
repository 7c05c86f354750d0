// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/staged.h"

#include "core/backend/local/local_group.h"
#include "core/device/await.h"
#include "test/support/queued_gpu.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

namespace hora {
namespace {

constexpr int kRanks = 3;

/// Ranks that are threads, each with a GPU whose tensors go by way of the host.
void on_each_rank(
    const std::function<void(int rank, Staged& staged, const std::function<void()>& finish)>& run) {
  local::LocalGroup group(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&group, &run, rank] {
      const World world = group.join(rank);
      const auto gpu = make_queued_gpu(rank);
      const auto stream = gpu->make_stream();
      Staged staged(gpu, *stream, *world.lane.collective, rank, kRanks);
      run(rank, staged, [&] { await(stream->mark().get(), [] {}); });
      world.lane.collective->barrier();
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Staged, ReducesTensorsOfManyChunksAndOfNone) {
  on_each_rank([](int rank, Staged& staged, const auto& finish) {
    std::vector<float> large((std::size_t{9} << 20) / sizeof(float) + 3);  // two chunks and a bit
    std::iota(large.begin(), large.end(), static_cast<float>(rank));
    std::vector<float> small{1, 2};
    std::vector<float> result(2);
    const std::vector<Segment> segments{
        {large.data(), large.data(), large.size()}, {nullptr, nullptr, 0}, {small.data(), result.data(), 2}};
    for (int turn = 0; turn < 2; ++turn) {
      staged.allreduce(segments, {DType::float32, ReduceOp::sum, 1.0, 1.0, 3});
      finish();
      EXPECT_EQ(result, small);
      EXPECT_EQ(large[5], 6);
      EXPECT_EQ(large.back(), static_cast<float>(large.size()));
    }
  });
}

TEST(Staged, KeepsTheMemoryOfEveryVisitWhereAGraphMayWait) {
  local::LocalGroup group(1);
  const World world = group.join(0);
  const auto gpu = make_queued_gpu();
  const auto stream = gpu->make_stream();
  GpuWait gpu_wait;
  Staged staged(gpu, *stream, *world.lane.collective, 0, 1, &gpu_wait);
  std::vector<std::byte> data(std::size_t{65} << 20);  // more than is kept else
  const auto place = [&](std::size_t bytes) {
    const std::byte* at = nullptr;
    staged.visit({data.data(), bytes}, [&](Collective&, std::byte* memory) { at = memory; });
    return at;
  };
  gpu_wait.keeps_memory = true;
  const auto* first = place(data.size() - 1);
  EXPECT_EQ(place(data.size() - 1), first);
  const auto* larger = place(data.size());
  EXPECT_NE(larger, first) << "that has not been given up";
  EXPECT_EQ(place(1), larger);
}

TEST(Staged, BroadcastsFromAnyRank) {
  on_each_rank([](int rank, Staged& staged, const auto& finish) {
    for (int root = 0; root < kRanks; ++root) {
      std::vector<std::int32_t> data((std::size_t{13} << 20) / sizeof(std::int32_t),
                                     rank == root ? 40 + root : -1);
      staged.broadcast(data.data(), data.size() * sizeof(std::int32_t), root);
      finish();
      EXPECT_TRUE(std::all_of(data.begin(), data.end(), [&](std::int32_t x) { return x == 40 + root; }));
    }
  });
}

TEST(Staged, GathersExchangesAndScattersAsAWhole) {
  on_each_rank([](int rank, Staged& staged, const auto& finish) {
    const auto own = static_cast<std::size_t>(rank);
    const std::vector<std::uint8_t> mine(own, static_cast<std::uint8_t>(rank));  // rank 0 has none
    std::vector<std::uint8_t> all(3);
    staged.allgather(mine.data(), all.data(), std::vector<std::size_t>{0, 1, 2});
    finish();
    EXPECT_EQ(all, (std::vector<std::uint8_t>{1, 2, 2}));

    std::vector<std::uint8_t> sent(3);
    for (std::size_t to = 0; to < 3; ++to)
      sent[to] = static_cast<std::uint8_t>(10 * rank + static_cast<int>(to));
    std::vector<std::uint8_t> received(3);
    staged.alltoall(sent.data(), received.data(), std::vector<std::size_t>(9, 1));
    finish();
    for (std::size_t from = 0; from < 3; ++from) EXPECT_EQ(received[from], 10 * from + own);

    const std::vector<float> parts{1, 2, 3, 4};
    std::vector<float> part(own == 0 ? 2 : 1);
    staged.reducescatter(parts.data(), part.data(), std::vector<std::size_t>{2, 1, 1},
                         {DType::float32, ReduceOp::sum, 1.0, 1.0, 1});
    finish();
    EXPECT_EQ(part.front(), std::vector<float>({3, 9, 12})[own]);
  });
}

TEST(Staged, StopsWaitingForTheGpuWhenItIsAborted) {
  local::LocalGroup group(1);
  const World world = group.join(0);
  const auto gpu = make_queued_gpu();
  const auto stream = gpu->make_stream();
  Staged staged(gpu, *stream, *world.lane.collective, 0, 1);
  staged.abort({Code::aborted, "rank 1 is gone"});
  float x = 1;
  const Segment segment{&x, &x, 1};
  EXPECT_THROW(staged.allreduce({&segment, 1}, {DType::float32, ReduceOp::sum, 1.0, 1.0, 1}), Error);
  await(stream->mark().get(), [] {});
}

/// The start of a wait for the GPU, which is reached when it has been looked at so many times.
class Looked final : public Event {
 public:
  explicit Looked(int times) : left_(times) {}
  [[nodiscard]] bool reached() const override { return --left_ < 0; }
  void hold_up(void* /*stream*/) const override {}
  [[nodiscard]] int left() const { return left_; }

 private:
  mutable int left_;
};

TEST(Staged, WaitsForItsOwnCopiesOnlyAndForThoseOnlySoLong) {
  local::LocalGroup group(1);
  const World world = group.join(0);
  const auto gpu = make_queued_gpu();
  const auto stream = gpu->make_stream();
  const auto earlier = std::make_shared<Looked>(1000);  // the user's work, which takes longer than the limit
  const GpuWait gpu_wait{std::chrono::milliseconds(2), "allreduce of 'x'", earlier};
  Staged staged(gpu, *stream, *world.lane.collective, 0, 1, &gpu_wait);
  Gate gate;
  put_on_queue(*stream, [&gate] { gate.wait(); });
  float x = 1;
  const Segment segment{&x, &x, 1};
  const Status why =
      thrown([&] { staged.allreduce({&segment, 1}, {DType::float32, ReduceOp::sum, 1.0, 1.0, 1}); });
  EXPECT_EQ(why.code, Code::timeout);
  EXPECT_EQ(
      why.message,
      "allreduce of 'x' has waited for the GPU for 0.002 s, all inputs being there: it, or another GPU of "
      "this host, stands still (HORA_OPERATION_TIMEOUT)");
  EXPECT_LT(earlier->left(), 0);
  gate.open();
  await(stream->mark().get(), [] {});
}

}  // namespace
}  // namespace hora
