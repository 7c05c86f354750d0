// SPDX-License-Identifier: Apache-2.0
#include "core/join/differences.h"
#include "core/join/item_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace hora {
namespace {

/// The bytes that every rank of the set brings.
std::vector<Bytes> gather(Runtime& hora, const std::string& name, const Bytes& mine, int process_set) {
  Bytes all;
  Entry entry;
  entry.operation = Operation::allgather;
  entry.name = name;
  entry.process_set = process_set;
  entry.dtype = DType::uint8;
  entry.shape = {static_cast<std::int64_t>(mine.size())};
  entry.input = mine.data();
  entry.allocate = [&](const std::vector<std::int64_t>& shape) {
    all.resize(static_cast<std::size_t>(shape.front()));
    return static_cast<void*>(all.data());
  };
  const Handle handle = hora.submit(std::move(entry));
  const Result& result = handle.wait();
  std::vector<Bytes> each;
  auto at = all.begin();
  for (const auto rows : result.rows) {
    each.emplace_back(at, at + rows);
    at += rows;
  }
  return each;
}

}  // namespace

void require_alike(Runtime& hora, const std::string& name, const std::string& things,
                   const std::vector<Item>& items, int process_set) {
  const Bytes mine = encode(items);
  const auto digests = gather(hora, name, digest_of(mine), process_set);
  if (std::count(digests.begin(), digests.end(), digests.front()) == std::ssize(digests)) return;
  std::vector<std::vector<Item>> lists;
  for (const auto& bytes : gather(hora, name + ".all", mine, process_set))
    lists.push_back(decode_items(bytes));
  const auto lines = describe_differences(std::move(lists), hora.process_sets().at(process_set).ranks);
  throw Error(Code::mismatch,
              fmt::format("{} differ between ranks:\n  {}", things, fmt::join(lines, "\n  ")));
}

void require_like(Runtime& hora, const std::string& name, const std::string& sentence,
                  const std::vector<Item>& items, int root, bool compares) {
  const auto all = gather(hora, name, hora.rank() == root ? encode(items) : Bytes(), 0);
  if (!compares || hora.rank() == root) return;
  const auto of_root = decode_items(all.at(static_cast<std::size_t>(root)));
  const auto lines = describe_differences({of_root, items}, {root, hora.rank()});
  if (lines.empty()) return;
  throw Error(Code::mismatch, fmt::format("{}:\n  {}", sentence, fmt::join(lines, "\n  ")));
}

}  // namespace hora
