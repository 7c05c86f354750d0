// SPDX-License-Identifier: Apache-2.0
#include "core/join/item_list.h"

#include "core/base/bytes.h"

#include <sodium.h>

#include <algorithm>

namespace hora {
namespace {

constexpr std::size_t kDigestBytes = 16;
constexpr std::size_t kLongestItem = 64 << 10;

}  // namespace

Bytes encode(std::vector<Item> items) {
  std::sort(items.begin(), items.end(),
            [](const Item& one, const Item& other) { return one.name < other.name; });
  Writer out;
  out.u64(items.size());
  for (const auto& item : items) out.string(item.name).string(item.what);
  return out.take();
}

std::vector<Item> decode_items(std::span<const std::byte> bytes) {
  Reader in(bytes);
  std::vector<Item> items(in.count(2, "items"));
  for (auto& item : items) {
    item.name = in.string(kLongestItem);
    item.what = in.string(kLongestItem);
  }
  in.finish();
  return items;
}

Bytes digest_of(std::span<const std::byte> bytes) {
  Bytes digest(kDigestBytes);
  crypto_generichash(reinterpret_cast<unsigned char*>(digest.data()), digest.size(),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), nullptr, 0);
  return digest;
}

}  // namespace hora
