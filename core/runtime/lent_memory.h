// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace hora {

/// Bytes of memory: [begin, end). A value.
struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool empty() const { return begin == end; }
  [[nodiscard]] bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

/// `bytes` from `data` on; empty for a null pointer.
[[nodiscard]] ByteRange byte_range(const void* data, std::size_t bytes);

/// The memory that one operation uses. A value.
struct MemoryUse {
  ByteRange read;  ///< empty where it is written, too
  ByteRange written;
};

/// The memory of an operation that reads so many bytes at `input` and writes so many at `output`, either of
/// which may be null. In place, where both begin at the same byte, all of it is written.
[[nodiscard]] MemoryUse memory_use(const void* input, std::size_t read, const void* output,
                                   std::size_t written);

/// The memory that is lent to operations and messages under way. Any number of them may read the same bytes;
/// bytes that one of them writes are its own. Addresses of the host and of GPUs are all different.
///
/// The bounds of all ranges cut the addresses into segments; each knows how many use it. So one operation
/// costs a few look-ups, however many are under way. Thread-safe: one mutex guards everything.
class LentMemory {
 public:
  /// Throws Error(invalid_argument) that names both, and takes nothing, if memory that `use` writes is lent,
  /// or memory that it reads is being written. `name` must stay where it is until `give_back`.
  void lend(const MemoryUse& use, const std::string& name);
  /// The same use and name again.
  void give_back(const MemoryUse& use, const std::string& name);

 private:
  /// From its key in the map to the next key.
  struct Segment {
    int readers = 0;
    bool written = false;
    const std::string* name = nullptr;  // of the last that came; null: it has left, and others read

    [[nodiscard]] bool is_free() const { return readers == 0 && !written; }
  };
  using Segments = std::map<std::uintptr_t, Segment>;

  void check(const ByteRange& range, bool writes, const std::string& name) const;
  void take(const ByteRange& range, bool writes, const std::string& name);
  void release(const ByteRange& range, const std::string& name);
  Segments::iterator cut(std::uintptr_t address);

  std::mutex mutex_;
  Segments segments_;
};

}  // namespace hora
