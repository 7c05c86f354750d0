// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hora {

enum class Direction : std::uint8_t { load, store };

/// Counts what kernels do in a GPU's global memory, as the hardware does it: the 32 threads of a warp execute
/// an instruction together, and that touches whole sectors of 32 bytes. The nth load of n bytes of each
/// thread counts as one instruction of its warp, and so does the nth store. That is right for kernels whose
/// threads go the same way, and counts too many sectors for others. Caches are not considered. One thread's.
class MemoryTraffic {
 public:
  static constexpr unsigned kSectorBytes = 32;

  /// `bytes`: 1, 2, 4, 8 or 16.
  void note(Direction direction, unsigned thread, std::uint64_t address, unsigned bytes) {
    const auto way = static_cast<std::size_t>(direction);
    auto& kind = kinds_[way][log2(bytes)];
    kind.used = true;
    const unsigned nth = kind.counts.at(thread)++;
    auto& instructions = kind.warps.at(thread / kWarp);
    if (instructions.size() <= nth) instructions.resize(nth + 1);
    auto& touched = instructions[nth];
    const std::uint64_t sector = address / kSectorBytes;  // one, since it is aligned
    const auto at = touched.empty() || touched.back() < sector
                        ? touched.end()
                        : std::lower_bound(touched.begin(), touched.end(), sector);
    if (at != touched.end() && *at == sector) return;
    touched.insert(at, sector);
    ++sectors_[way];
  }
  void end_block() {
    for (auto& way : kinds_) {
      for (auto& kind : way) {
        if (kind.used) kind = {};
      }
    }
  }

  /// All that instructions of this direction have touched so far; one sector for each that touches it.
  [[nodiscard]] std::uint64_t sectors(Direction direction) const {
    return sectors_[static_cast<std::size_t>(direction)];
  }

 private:
  static constexpr unsigned kWarp = 32;
  static constexpr unsigned kMostThreads = 1024;
  using Sectors = std::vector<std::uint64_t>;  // in rising order

  /// The accesses of one direction and size in the block at hand.
  struct Kind {
    bool used = false;
    std::array<unsigned, kMostThreads> counts{};  ///< of each thread
    std::array<std::vector<Sectors>, kMostThreads / kWarp> warps;
  };

  static constexpr std::size_t log2(unsigned bytes) {
    std::size_t exponent = 0;
    while (bytes >>= 1U) ++exponent;
    return exponent;
  }

  std::array<std::uint64_t, 2> sectors_{};
  std::array<std::array<Kind, 5>, 2> kinds_;
};

}  // namespace hora
