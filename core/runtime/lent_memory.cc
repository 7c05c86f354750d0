// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/lent_memory.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace hora {

ByteRange byte_range(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return data == nullptr ? ByteRange{} : ByteRange{begin, begin + bytes};
}

MemoryUse memory_use(const void* input, std::size_t read, const void* output, std::size_t written) {
  const MemoryUse use{byte_range(input, read), byte_range(output, written)};
  if (use.read.empty() || use.read.begin != use.written.begin || use.written.empty()) return use;
  return {{}, {use.written.begin, std::max(use.read.end, use.written.end)}};
}

void LentMemory::lend(const MemoryUse& use, const std::string& name) {
  if (use.read.overlaps(use.written)) {
    throw Error(Code::invalid_argument,
                fmt::format("'{}': its input and its output overlap; use the same memory for both, or "
                            "memory apart",
                            name));
  }
  const std::lock_guard lock(mutex_);
  check(use.read, false, name);
  check(use.written, true, name);
  take(use.read, false, name);
  take(use.written, true, name);
}

void LentMemory::give_back(const MemoryUse& use, const std::string& name) {
  const std::lock_guard lock(mutex_);
  release(use.read, name);
  release(use.written, name);
}

void LentMemory::check(const ByteRange& range, bool writes, const std::string& name) const {
  if (range.empty()) return;
  auto next = segments_.upper_bound(range.begin);
  if (next != segments_.begin()) --next;
  for (; next != segments_.end() && next->first < range.end; ++next) {
    const Segment& segment = next->second;
    if (segment.is_free() || (!writes && !segment.written)) continue;
    throw Error(
        Code::invalid_argument,
        fmt::format("'{}': its {} lies in memory that {} {}; wait for that first, or use memory apart", name,
                    writes ? "output" : "input",
                    segment.name ? fmt::format("'{}'", *segment.name) : "another operation",
                    segment.written ? "is under way to write" : "is under way to read"));
  }
}

void LentMemory::take(const ByteRange& range, bool writes, const std::string& name) {
  if (range.empty()) return;
  const auto first = cut(range.begin);
  const auto last = cut(range.end);
  for (auto next = first; next != last; ++next) {
    if (writes) {
      next->second.written = true;
    } else {
      ++next->second.readers;
    }
    next->second.name = &name;
  }
}

void LentMemory::release(const ByteRange& range, const std::string& name) {
  if (range.empty()) return;
  auto next = segments_.find(range.begin);
  for (auto each = next; each->first != range.end; ++each) {
    Segment& segment = each->second;
    if (segment.readers > 0) --segment.readers;
    segment.written = false;  // what is read and written has one owner
    if (segment.is_free() || segment.name == &name) segment.name = nullptr;
  }
  // A bound between two free segments belongs to no range any more.
  for (bool last = false; !last;) {
    last = next->first == range.end;
    const bool is_free = next == segments_.begin() || std::prev(next)->second.is_free();
    next = is_free && next->second.is_free() ? segments_.erase(next) : std::next(next);
  }
}

LentMemory::Segments::iterator LentMemory::cut(std::uintptr_t address) {
  const auto next = segments_.lower_bound(address);
  if (next != segments_.end() && next->first == address) return next;
  const Segment before = next == segments_.begin() ? Segment{} : std::prev(next)->second;
  return segments_.emplace_hint(next, address, before);
}

}  // namespace hora
