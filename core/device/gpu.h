// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/graph_request.h"
#include "core/device/stream.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace hora {

/// The memory of a GPU that a rank has taken, in bytes. A value.
struct GpuMemory {
  std::size_t taken = 0;   ///< by Hora itself: fusion buffers, and gradients that live in its memory
  std::size_t pinned = 0;  ///< of the host's memory, for copies to and from the GPU
  std::size_t nccl = 0;    ///< by NCCL for its communicators: by how much the free memory shrank meanwhile
};

/// One GPU, as a rank uses it, always in its primary context, which the framework uses too. A call leaves the
/// caller's current context as it was. Thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;

  [[nodiscard]] virtual int index() const = 0;
  /// "NVIDIA H200"
  [[nodiscard]] virtual std::string name() const = 0;
  /// The same for two processes only if they use the same GPU, or part of a GPU.
  [[nodiscard]] virtual std::array<std::byte, 16> identity() const = 0;
  /// Where it is in its machine: the same for all parts of a GPU, which are told apart by `identity` alone.
  [[nodiscard]] virtual std::uint64_t location() const = 0;

  /// Throws Error(invalid_argument) unless `data` is memory that this GPU reaches; the message says whose
  /// memory it is. `which` names it: "its input".
  virtual void check(const void* data, const std::string& which) const = 0;
  /// The point that a framework's stream is at. Throws Error(invalid_argument) if work that is put on it is
  /// being captured into a graph.
  [[nodiscard]] virtual std::shared_ptr<Event> mark(void* stream) = 0;
  /// Whether work that is put on a framework's stream is being captured into a graph. Throws
  /// Error(invalid_argument) if an error has ended the capture. It throws that also for CUDA's default
  /// stream, if this would have to wait for another stream that is being captured.
  [[nodiscard]] virtual bool is_captured(void* stream) const = 0;
  /// Puts a request into the graph into which a framework's stream is being captured. Throws as
  /// `is_captured`, and Error(invalid_argument) if that is false.
  [[nodiscard]] virtual std::shared_ptr<GraphRequest> request_in_graph(void* stream) = 0;

  /// A stream of its own, of the highest priority.
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  /// The GPU's memory, zero-filled, aligned to 256 bytes; freed when no work uses it any more. `bytes` may be
  /// 0. Throws Error(unavailable) that says how much is wanted, and how much is free.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// Memory of the GPU that is not filled, and whose use is ordered by `stream`, a framework's. Work may use
  /// it that is put on `stream` after this call, or that waits for such work. When the last owner releases
  /// it, it is freed in the order of `stream`, so after the work that is on it at that time. Two cases
  /// differ. If `stream` is being captured at the release, the next call of this for `stream`, or the next
  /// release there, frees it. If `stream` no longer exists, it is freed when this Gpu and all its memory of
  /// this kind are gone. Throws Error(unavailable) as `allocate` does, and Error(invalid_argument) if
  /// `stream` is being captured.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_on(void* stream, std::size_t bytes) = 0;
  /// As `allocate_on`, but work on `own`, a stream from `make_stream`, uses it first. Work may use it that is
  /// put on `own` after this call, or that waits for such work. It is freed in the order of `stream`. So
  /// before the release, `stream` must be made to wait for the work on `own`, or that work must have ended.
  /// Does not look whether `stream` is being captured.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_between(Stream& own, void* stream,
                                                                    std::size_t bytes) = 0;
  /// The host's memory, which the GPU reads and writes at full speed (pinned).
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) = 0;
  /// Pins memory of the host that exists already. The result owns `memory`, and unpins it when it is
  /// released. If the driver refuses, returns `memory` as it is: that works, but is slower.
  [[nodiscard]] virtual std::shared_ptr<std::byte> pin(std::shared_ptr<std::byte> memory,
                                                       std::size_t bytes) = 0;

  /// Returns when the GPU has done all that this process has given it. Throws Error(internal) if it has
  /// failed.
  virtual void finish() = 0;
  [[nodiscard]] virtual GpuMemory memory() const = 0;
};

}  // namespace hora
