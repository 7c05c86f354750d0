// SPDX-License-Identifier: Apache-2.0
#include "core/join/item_list.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(ItemList, TravelsAndIsTheSameInAnyOrder) {
  const std::vector<Item> items{{"a", "float32[3]"}, {"b", ""}};
  const Bytes bytes = encode(items);
  EXPECT_EQ(decode_items(bytes), items);
  EXPECT_EQ(encode({items[1], items[0]}), bytes);
  EXPECT_EQ(decode_items(encode(std::vector<Item>{})), std::vector<Item>{});
}

TEST(ItemList, RefusesWhatIsCutOrTooLong) {
  const Bytes bytes = encode(std::vector<Item>{{"a", "float32[3]"}});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(static_cast<void>(decode_items(std::span(bytes).first(length))), Error) << length;
  EXPECT_THROW(static_cast<void>(decode_items(Bytes(9, std::byte{0xff}))), Error);
}

TEST(ItemList, HasAnotherDigestAsSoonAsAByteIsAnother) {
  Bytes bytes = encode(std::vector<Item>{{"a", "float32[3]"}});
  const Bytes digest = digest_of(bytes);
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_EQ(digest_of(bytes), digest);
  bytes.back() ^= std::byte{1};
  EXPECT_NE(digest_of(bytes), digest);
}

}  // namespace
}  // namespace hora
