// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/gpu_hierarchical.h"

#include "core/backend/local/local_group.h"
#include "core/device/await.h"
#include "test/support/queued_gpu.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

/// A collective for a GPU's memory, which is the host's here, that does at once what is put on the stream
/// before it.
class InOrder final : public Collective {
 public:
  InOrder(std::unique_ptr<Collective> host, Stream& stream) : host_(std::move(host)), stream_(stream) {}
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return 0; }
  [[nodiscard]] bool owns(const void* /*data*/) const override { return false; }
  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    finish();
    host_->allreduce(segments, reduction);
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    finish();
    host_->broadcast(data, bytes, root);
  }
  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    finish();
    host_->allgather(input, output, bytes);
  }
  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    finish();
    host_->alltoall(input, output, bytes);
  }
  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    finish();
    host_->reducescatter(input, output, counts, reduction);
  }
  void barrier() override { host_->barrier(); }
  std::unique_ptr<Collective> split(std::span<const int> members) override {
    auto part = host_->split(members);
    return part ? std::make_unique<InOrder>(std::move(part), stream_) : nullptr;
  }
  void abort(const Status& why) noexcept override { host_->abort(why); }

 private:
  void finish() {
    await(stream_.mark().get(), [] {});
  }
  std::unique_ptr<Collective> host_;
  Stream& stream_;
};

TEST(GpuHierarchical, ReducesOverTwoHostsWhateverIsLeftOver) {
  local::LocalGroup gpus[] = {local::LocalGroup(2), local::LocalGroup(2)};  // of each host
  local::LocalGroup hosts(4);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      World fast = gpus[rank / 2].join(rank % 2);
      const World host = hosts.join(rank);
      const auto gpu = make_queued_gpu(rank);
      const auto stream = gpu->make_stream();
      Staged staged(gpu, *stream, *host.lane.collective, rank, 4);
      const auto both =
          make_gpu_hierarchical(std::make_unique<InOrder>(std::move(fast.lane.collective), *stream), gpu,
                                *stream, *host.lane.collective, hosts_of({{0, 1}, {2, 3}}, rank), staged);
      for (const std::size_t count :
           {std::size_t{1}, std::size_t{1000001}, (std::size_t{64} << 20) / 4 + 5}) {
        std::vector<float> x(count);
        for (std::size_t i = 0; i < count; ++i)
          x[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
        const Segment segment{x.data(), x.data(), count};
        both->allreduce({&segment, 1}, {DType::float32, ReduceOp::sum, 1.0, 0.5, 2});
        await(stream->mark().get(), [] {});
        EXPECT_EQ(x.front(), 1.5F);
        EXPECT_EQ(x[count / 2], static_cast<float>(count / 2 % 1000) + 1.5F);
        both->allreduce({&segment, 1}, {DType::float32, ReduceOp::max, -1.0, 2.0, 1});
        await(stream->mark().get(), [] {});
        EXPECT_EQ(x.front(), -3.0F);
      }
      host.lane.collective->barrier();
    });
  }
  for (auto& rank : ranks) rank.join();
}

}  // namespace
}  // namespace hora
