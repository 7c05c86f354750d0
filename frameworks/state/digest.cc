// SPDX-License-Identifier: Apache-2.0
#include "frameworks/state/digest.h"

#include <array>
#include <bit>
#include <cstring>

namespace hora::state {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // the golden ratio: bits without a pattern
constexpr std::size_t kLanes = 4;                   // a multiplication takes as long as four can begin in
constexpr std::size_t kBlock = kLanes * sizeof(std::uint64_t);

/// For a given `word` it maps different sums to different ones, and the other way round.
std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) { return std::rotl((sum ^ word) * kOdd, 29); }

}  // namespace

std::uint64_t digest_of(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, kLanes> lanes{1, 2, 3, 4};
  std::array<std::uint64_t, kLanes> words{};
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) {
    std::memcpy(words.data(), bytes.data(), kBlock);
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = mixed(lanes[lane], words[lane]);
  }
  words = {};
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  std::uint64_t digest = bytes.size();
  for (const std::uint64_t word : words) digest = mixed(digest, word);
  for (const std::uint64_t lane : lanes) digest = mixed(digest, lane);
  return digest;
}

}  // namespace hora::state
