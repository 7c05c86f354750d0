// SPDX-License-Identifier: Apache-2.0
#include "core/join/exchange.h"

#include "core/base/bytes.h"
#include "core/base/rank_assignment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

namespace hora {
namespace {

/// The next message, whatever wakes this rank in between.
ControlMessage await(Control& control, TimePoint deadline, const std::string& whom) {
  for (;;) {
    if (auto event = control.receive(deadline)) return expect_message(*std::move(event));
    if (Clock::now() >= deadline) {
      throw Error(Code::timeout,
                  fmt::format("rank {} waited in vain for {} while the job started", control.rank(), whom));
    }
  }
}

Bytes join(const std::vector<Bytes>& all) {
  Writer out;
  out.u64(all.size());
  for (const auto& bytes : all) out.u64(bytes.size()).raw(bytes);
  return out.take();
}

std::vector<Bytes> split(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  if (in.below(kMostRanks, "a number of ranks") != static_cast<std::uint64_t>(size)) {
    throw Error(Code::internal, "bad message: what ranks told each other is not of all ranks");
  }
  std::vector<Bytes> all;
  for (int rank = 0; rank < size; ++rank) {
    const auto mine = in.raw(in.u64());
    all.emplace_back(mine.begin(), mine.end());
  }
  in.finish();
  return all;
}

std::vector<Bytes> gather(Control& control, std::span<const std::byte> mine, TimePoint deadline) {
  std::vector<std::optional<Bytes>> all(static_cast<std::size_t>(control.size()));
  all.front().emplace(mine.begin(), mine.end());
  for (int missing = control.size() - 1; missing > 0; --missing) {
    std::vector<int> absent;
    for (int rank = 0; rank < control.size(); ++rank) {
      if (!all[static_cast<std::size_t>(rank)]) absent.push_back(rank);
    }
    ControlMessage message = await(control, deadline, fmt::format("rank(s) {}", fmt::join(absent, ", ")));
    auto& told = all[static_cast<std::size_t>(message.from)];
    if (told) throw Error(Code::internal, fmt::format("rank {} told twice who it is", message.from));
    message.bytes.erase(message.bytes.begin());  // the mark that keeps a message from being empty
    told = std::move(message.bytes);
  }
  std::vector<Bytes> told;
  told.reserve(all.size());
  for (auto& bytes : all) told.push_back(*std::move(bytes));
  return told;
}

}  // namespace

std::vector<Bytes> exchange(Control& control, std::span<const std::byte> mine, TimePoint deadline) {
  if (control.rank() != 0) {
    control.send(0, Writer().u8(1).raw(mine).take());
    return split(await(control, deadline, "rank 0").bytes, control.size());
  }
  auto all = gather(control, mine, deadline);
  const Bytes joined = join(all);
  control.announce(RankSet(1, control.size()), joined);
  return all;
}

}  // namespace hora
