// SPDX-License-Identifier: Apache-2.0
#include "core/base/memory.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace hora {
namespace {

constexpr std::size_t kCacheLine = 64;

}  // namespace

std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes) {
  const std::size_t rounded = (bytes / kCacheLine + 1) * kCacheLine;  // 0: more than there are numbers for
  std::unique_ptr<std::byte, decltype(&std::free)> memory(
      rounded == 0 ? nullptr : static_cast<std::byte*>(std::aligned_alloc(kCacheLine, rounded)), &std::free);
  if (!memory) throw Error(Code::unavailable, fmt::format("there is no memory for {} bytes", bytes));
  return memory;
}

std::shared_ptr<std::byte> allocate_zeroed(std::size_t bytes) {
  auto memory = allocate_aligned(bytes);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

void keep_for_ever(std::shared_ptr<void> owned) {
  static std::mutex mutex;
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): never destroyed
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(owned));
}

}  // namespace hora
