// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/gpu_hierarchical.h"

#include "core/compose/phases.h"

#include <algorithm>
#include <vector>

namespace hora {
namespace {

// Bytes of a tensor that go at once; slices take memory.
constexpr std::size_t kPart = std::size_t{64} << 20;

class GpuHierarchical final : public Collective {
 public:
  GpuHierarchical(std::unique_ptr<Collective> within, std::shared_ptr<Gpu> gpu, Stream& stream,
                  Collective& host, const Hosts& hosts, Staged& staged, const GpuWait* gpu_wait)
      : within_(std::move(within)), ranks_(hosts.here().size()), staged_(staged) {
    for (std::size_t place = 0; place < ranks_; ++place) {
      std::vector<int> column;
      for (const auto& ranks : hosts.ranks) column.push_back(ranks[place]);
      if (auto mine = host.split(column)) columns_ = std::move(mine);
    }
    across_ = std::make_unique<Staged>(std::move(gpu), stream, *columns_, static_cast<int>(hosts.own),
                                       static_cast<int>(hosts.ranks.size()), gpu_wait);
  }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return within_->allocate(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return within_->pack_below(); }
  [[nodiscard]] bool owns(const void* data) const override { return within_->owns(data); }

  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    const Phases phases = phases_of(reduction);
    const std::size_t each = size_of(reduction.dtype);
    for (const auto& segment : segments) {
      for (std::size_t begin = 0; begin < segment.count; begin += kPart / each) {
        const std::size_t count = std::min(kPart / each, segment.count - begin);
        const auto* input = static_cast<const std::byte*>(segment.input) + begin * each;
        reduce(input, static_cast<std::byte*>(segment.output) + begin * each, count, phases);
      }
    }
  }

  void broadcast(void* data, std::size_t bytes, int root) override { staged_.broadcast(data, bytes, root); }
  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    staged_.allgather(input, output, bytes);
  }
  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    staged_.alltoall(input, output, bytes);
  }
  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    staged_.reducescatter(input, output, counts, reduction);
  }
  void barrier() override { staged_.barrier(); }
  std::unique_ptr<Collective> split(std::span<const int> members) override { return staged_.split(members); }

  void abort(const Status& why) noexcept override {
    within_->abort(why);
    columns_->abort(why);
    across_->abort(why);
  }

 private:
  void reduce(const std::byte* input, std::byte* output, std::size_t count, const Phases& phases) {
    const std::size_t each = size_of(phases.within.dtype);
    const std::size_t share = count / ranks_;
    if (!slice_) slice_ = within_->allocate((kPart + ranks_ - 1) / ranks_);
    if (share > 0) {
      const std::vector<std::size_t> counts(ranks_, share);
      const std::vector<std::size_t> bytes(ranks_, share * each);
      within_->reducescatter(input, slice_.get(), counts, phases.within);
      const Segment slice{slice_.get(), slice_.get(), share};
      across_->allreduce({&slice, 1}, phases.across);
      within_->allgather(slice_.get(), output, bytes);
    }
    const std::size_t done = share * ranks_;
    if (done == count) return;
    const Segment rest{input + done * each, output + done * each, count - done};
    within_->allreduce({&rest, 1}, phases.within);
    const Segment reduced{rest.output, rest.output, rest.count};
    across_->allreduce({&reduced, 1}, phases.across);
  }

  std::unique_ptr<Collective> within_;   // NCCL's, of this host's ranks
  std::size_t ranks_;                    // on each host
  Staged& staged_;                       // of all ranks
  std::unique_ptr<Collective> columns_;  // the host's, of the ranks with this one's place on every host
  std::unique_ptr<Staged> across_;       // the same, for the GPU's memory
  std::shared_ptr<std::byte> slice_;
};

}  // namespace

std::unique_ptr<Collective> make_gpu_hierarchical(std::unique_ptr<Collective> within,
                                                  std::shared_ptr<Gpu> gpu, Stream& stream, Collective& host,
                                                  const Hosts& hosts, Staged& staged,
                                                  const GpuWait* gpu_wait) {
  return std::make_unique<GpuHierarchical>(std::move(within), std::move(gpu), stream, host, hosts, staged,
                                           gpu_wait);
}

}  // namespace hora
