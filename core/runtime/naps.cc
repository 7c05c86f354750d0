// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/naps.h"

#include <algorithm>
#include <utility>

namespace hora {

/// The own thread has a core of its own, so its work costs the program nothing.
constexpr Naps::Limits Naps::kBeside{std::size_t{64} << 10, std::chrono::microseconds(50),
                                     std::chrono::microseconds(200)};
/// The own thread takes the core of the program and finds cold caches, so each time costs about 50 us.
/// Tensors submitted during a nap are negotiated together. A nap is no longer than this, because another rank
/// may wait for a tensor for which no thread of this rank waits.
constexpr Naps::Limits Naps::kInBetween{std::size_t{256} << 10, std::chrono::milliseconds(1),
                                        std::chrono::milliseconds(1)};

const Naps::Limits& Naps::limits() const {
  return shares_core_.load(std::memory_order_relaxed) ? kInBetween : kBeside;
}

Naps::Seen Naps::look() const {
  const std::uint32_t rings = wake_up_.rings();
  return {rings, submissions_.load(std::memory_order_seq_cst)};
}

std::size_t Naps::gather(std::size_t bytes) {
  const std::size_t least = std::max<std::size_t>(bytes, 1);
  return gathered_.fetch_add(least, std::memory_order_relaxed) + least;
}

void Naps::submitted(std::size_t gathered) {
  submissions_.fetch_add(1, std::memory_order_seq_cst);
  wake_up_.count_submission();
  const bool is_little = gathered < limits().much;
  const Clock::rep soon = looks_at_.load(std::memory_order_seq_cst);
  if (!is_little || Clock::now().time_since_epoch().count() >= soon) wake_up_.wake_for_submission();
}

bool Naps::has_gathered_little() const {
  const auto bytes = gathered_.load(std::memory_order_relaxed);
  return bytes > 0 && bytes < limits().much;
}

void Naps::rest(Seen seen, TimePoint until, bool may_nap) {
  if (std::exchange(rested_at_, seen.rings) != seen.rings && may_nap) {
    nap(seen, until);
  } else {
    next_nap_ = {};
    wake_up_.wait(seen.rings, until);
  }
}

void Naps::nap(Seen seen, TimePoint until) {
  const Limits& shown = limits();
  const auto length = std::max(next_nap_, shown.nap);
  next_nap_ = std::min(2 * length, shown.longest_nap);
  const TimePoint end = std::min(until, Clock::now() + length);
  has_napped_ = true;
  looks_at_.store(end.time_since_epoch().count(), std::memory_order_seq_cst);
  while (true) {
    const Seen news = look();
    const bool other_news = news.rings - seen.rings > news.submissions - seen.submissions;
    const bool much = gathered_.load(std::memory_order_relaxed) >= shown.much;
    if (other_news || much || Clock::now() >= end) break;
    wake_up_.wait(news.rings, end);
  }
  looks_at_.store(0, std::memory_order_seq_cst);
}

bool Naps::take_napped() { return std::exchange(has_napped_, false); }

}  // namespace hora
