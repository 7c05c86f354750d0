// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/device/gpu.h"

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hora {

/// The work for which the engine waits for the GPU. A value.
struct GpuWait {
  std::chrono::milliseconds limit{0};  ///< of each wait; 0: none
  std::string what = {};               ///< "allreduce of 'layer1.weight'"
  /// Before this is reached the GPU does what it was given earlier, such as the user's work, and no time
  /// counts. Null: it is.
  std::shared_ptr<Event> start = {};
  /// Memory that was taken is kept. Giving it up would wait for the GPU, which may wait for the engine.
  bool keeps_memory = false;
};

/// A collective for a GPU's memory made of one for the host's, by way of pinned memory: where NCCL is
/// missing, or ranks share a GPU. Refers to the stream and the collective, which must outlive it.
///
/// Elements that are reduced or broadcast go in chunks through two buffers in turn, all on the one stream.
/// While the host reduces a chunk, the next is on its way to the host, and the last one back. A buffer is
/// filled again only after it was emptied, because both stand in the stream in this order. The other
/// operations go as a whole.
///
/// Calls block until the host has done its part; outputs are complete in the order of the stream. Waiting for
/// the GPU throws Error(timeout) when it takes longer than `gpu_wait` allows. *Engine only*, except
/// `allocate`, `owns` and `abort`; `abort` ends waiting for the GPU, and the host's collective has one of its
/// own.
class Staged final : public Collective {
 public:
  /// `gpu_wait`: the work that calls are part of, the engine's, which outlives this; null: they wait as long
  /// as it takes.
  Staged(std::shared_ptr<Gpu> gpu, Stream& stream, Collective& host, int place, int places,
         const GpuWait* gpu_wait = nullptr);

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  [[nodiscard]] std::size_t pack_below() const override;
  [[nodiscard]] bool owns(const void* data) const override;
  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override;
  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override;
  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override;
  void barrier() override;
  /// Needs the host's collective to be split, too: throws Error(internal).
  std::unique_ptr<Collective> split(std::span<const int> members) override;
  void abort(const Status& why) noexcept override;

  /// Has the host work on memory of the GPU, which it could not read. It works on pinned memory that gets
  /// `in` bytes from `input`. Of the bytes there then, `out` from `offset` on go to `output`.
  struct Visit {
    const void* input = nullptr;
    std::size_t in = 0;
    void* output = nullptr;
    std::size_t out = 0;
    std::size_t offset = 0;
  };
  void visit(const Visit& visit, const std::function<void(Collective& host, std::byte* memory)>& work);

 private:
  struct Chunk {
    const std::byte* input = nullptr;  ///< null: the host makes it
    std::byte* output = nullptr;       ///< null: the host alone wants it
    std::size_t bytes = 0;
  };
  /// Carries the chunks through the buffers; `work` is what the host does with each.
  void carry(std::span<const Chunk> chunks, const std::function<void(std::byte*, std::size_t)>& work);
  void await(const Event* event);
  [[nodiscard]] bool keeps_memory() const { return gpu_wait_ != nullptr && gpu_wait_->keeps_memory; }

  std::shared_ptr<Gpu> gpu_;
  Stream& stream_;
  Collective& host_;
  int place_;
  int places_;
  const GpuWait* gpu_wait_;
  struct Buffer {
    std::shared_ptr<std::byte> memory;
    std::shared_ptr<Event> emptied = nullptr;  // reached: its elements are where they should be
  };
  std::array<Buffer, 2> buffers_;  // of a chunk each; made when they are first needed
  Buffer scratch_;
  std::size_t scratch_bytes_ = 0;
  std::vector<std::shared_ptr<std::byte>> kept_;  // what was scratch_ before a larger one; see GpuWait
  std::mutex mutex_;
  std::optional<Status> aborted_;  // under the mutex
};

}  // namespace hora
