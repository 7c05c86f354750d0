// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// One GPU, as a rank uses it: in the context that its framework uses, too (the primary one), never in a
/// second. The caller's current context, whatever it is, is the same when a call returns. Thread-safe.
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

  /// A stream of its own, of the highest priority.
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  /// The GPU's memory, zero-filled, aligned to 256 bytes; freed when no work uses it any more. `bytes` may be
  /// 0. Throws Error(unavailable) that says how much is wanted, and how much is free.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// The same, not filled, ordered: usable by what is put on `stream` (a framework's) after this, and by all
  /// that waits for that; the last owner's release frees it behind what is on `stream` then; during a
  /// capture of that, when this is next called for it, and if it is gone, with the Gpu.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_on(void* stream, std::size_t bytes) = 0;
  /// The same, but usable by work that is put on `own`, which is from `make_stream`, after this, and by all
  /// that waits for that work. An owner that releases it has made the work on `stream` then wait for the work
  /// on `own`, unless this has been done.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_between(Stream& own, void* stream,
                                                                    std::size_t bytes) = 0;
  /// The host's memory, which the GPU reads and writes at full speed (pinned).
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) = 0;
  /// Pins memory of the host's that exists already, for as long as what is returned lives, which keeps the
  /// memory, too. Where the driver refuses it is as slow as it was.
  [[nodiscard]] virtual std::shared_ptr<std::byte> pin(std::shared_ptr<std::byte> memory,
                                                       std::size_t bytes) = 0;

  [[nodiscard]] virtual GpuMemory memory() const = 0;
};

}  // namespace hora
