// SPDX-License-Identifier: Apache-2.0
#include "frameworks/state/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace hora::state {
namespace {

TEST(Digest, ChangesWithEachBitAndWithTheLength) {
  std::vector<std::byte> bytes(100);
  std::vector<std::uint64_t> seen;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const std::span part(bytes.data(), size);
    const std::uint64_t digest = digest_of(part);
    seen.push_back(digest);
    for (std::byte& byte : part) {
      for (int bit = 0; bit < 8; ++bit) {
        const std::byte flipped = std::byte{1} << bit;
        byte ^= flipped;
        EXPECT_NE(digest_of(part), digest);
        byte ^= flipped;
      }
    }
    EXPECT_EQ(digest_of(part), digest);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(Digest, ChangesWithTheOrder) {
  std::vector<std::uint64_t> words(64);
  std::iota(words.begin(), words.end(), 1);
  const auto bytes = std::as_bytes(std::span(words));
  const std::uint64_t digest = digest_of(bytes);
  for (std::size_t first = 0; first < words.size(); ++first) {
    for (std::size_t second = first + 1; second < words.size(); ++second) {
      std::swap(words[first], words[second]);
      EXPECT_NE(digest_of(bytes), digest) << first << ", " << second;
      std::swap(words[first], words[second]);
    }
  }
}

}  // namespace
}  // namespace hora::state
