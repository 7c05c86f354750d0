// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/block_floats.h"

#include <hora/dtype.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace hora {

/// A point in a device's work: it is reached when all that had been put on a stream before it has been done.
/// Thread-safe.
class Event {
 public:
  virtual ~Event() = default;

  /// Throws Error(internal) if the device has failed.
  [[nodiscard]] virtual bool reached() const = 0;
  /// Work that is put on this stream of the same device (a framework's, such as a cudaStream_t) from now on
  /// waits for this point; the caller does not. Throws Error(internal) if the device has failed.
  virtual void hold_up(void* stream) const = 0;
};

/// Elements that go from one place to another. A value.
struct Move {
  void* to = nullptr;  ///< null: they are only looked at
  const void* from = nullptr;
  std::size_t count = 0;
};

/// The conversion of elements on their way: to[i] = factor * from[i]. A value.
struct Conversion {
  DType to = DType::float32;
  DType from = DType::float32;  ///< equal to `to`, or both floats
  /// Other than 1 for floats only. They are multiplied in float64 if one of the dtypes is that, else in
  /// float32. They are rounded once (from float64 to 16 bits twice, by way of float32).
  double factor = 1.0;
  /// A word from Stream::make_flag: 1 is written to it if any result is infinite or not a number.
  std::uint32_t* flag = nullptr;
};

/// Elements that become blocks of a source, and then elements of a target. A value.
struct BlockMove {
  BlockFloats blocks;
  const void* source = nullptr;  ///< `dequantize` ignores it
  void* target = nullptr;        ///< `quantize` ignores it
  std::size_t count = 0;
};

/// The dtypes and the factor of such elements. A value.
struct BlockConversion {
  DType format = DType::float8_e4m3fn;  ///< of the elements in blocks
  DType dtype = DType::float32;         ///< of source or target: a float of 16 to 64 bits
  double factor = 1.0;                  ///< of `quantize` alone
  std::uint32_t* flag = nullptr;        ///< of `dequantize` alone; as Conversion has it
};

/// Work on a device's memory, in order. On the CPU everything is done when the call returns; a GPU does it
/// later, and memory stays lent until an Event that was marked after it is reached. Calls throw
/// Error(internal) if the device has failed. *Engine only.*
class Stream {
 public:
  virtual ~Stream() = default;

  /// Between any two places that the device reaches; they may be the same, but must not overlap otherwise.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Each byte becomes `value`.
  virtual void set_bytes(void* to, std::byte value, std::size_t bytes) = 0;
  /// All in one pass. A move's places may be the same, if the dtypes have one size; they must not overlap
  /// otherwise.
  virtual void move(std::span<const Move> moves, const Conversion& conversion) = 0;
  /// to[i] = factor * (sources[0][i] + sources[1][i] + ...): floats of 16 and 32 bits, multiplied and added
  /// in float32 in this order, rounded once. `to` may be one of them.
  virtual void sum(void* to, std::span<const void* const> sources, std::size_t count, DType dtype,
                   double factor) = 0;

  /// Blocks of elements, elements of blocks, and sums of blocks, with the results of `kernels::quantize`,
  /// `dequantize` and `sum_blocks`, bit for bit. Elements of blocks are aligned to 4 bytes.
  virtual void quantize(std::span<const BlockMove> moves, const BlockConversion& conversion) = 0;
  virtual void dequantize(std::span<const BlockMove> moves, const BlockConversion& conversion) = 0;
  virtual void sum_blocks(const BlockFloats& to, std::span<const BlockFloats> sources, DType format,
                          std::size_t blocks, double factor) = 0;

  /// A word, 0 at first, that the host may read when an Event marked after the last `move` with it is
  /// reached.
  [[nodiscard]] virtual std::shared_ptr<std::uint32_t> make_flag() = 0;

  /// The point that this stream is at. Null: all has been done.
  [[nodiscard]] virtual std::shared_ptr<Event> mark() = 0;
  /// Work that is put on this stream from now on waits for that point, which is of the same device.
  virtual void wait(const Event& event) = 0;
};

}  // namespace hora
