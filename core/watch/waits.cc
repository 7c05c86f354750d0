// SPDX-License-Identifier: Apache-2.0
#include "core/watch/waits.h"

#include "core/comm/world.h"
#include "core/negotiate/hint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

/// All ranks but these.
std::vector<int> others(const RankSet& ranks, int size) { return RankSet(0, size).without(ranks).list(); }

/// Whether each side waits for what the other one has not submitted: that is one mistake.
bool wait_for_each_other(const WaitingTensor& one, const WaitingTensor& other) {
  const auto has = [](const std::vector<int>& ranks, const std::vector<int>& part) {
    return std::includes(ranks.begin(), ranks.end(), part.begin(), part.end());
  };
  return has(other.asked, one.missing) && has(one.asked, other.missing);
}

/// Where both sides wait for each other: how probably the mistake is with this tensor, and not with `other`;
/// 0 is the most probable. A call by rank 0 alone that no other rank ever made is likely under an `if`; else
/// a backward() is likely to be left out.
int improbability(const WaitingTensor& tensor, const WaitingTensor& other) {
  const bool first_time = tensor.step == 0 && !is_gradient(tensor.name);
  if (first_time && (other.step != 0 || tensor.asked == std::vector<int>{0})) return 0;
  return is_gradient(tensor.name) ? 1 : 2;
}

std::string describe_tensor(const WaitingTensor& tensor, const std::string& more) {
  std::string text = fmt::format("'{}' ({}", tensor.name, tensor.what);
  if (tensor.step != 0) text += fmt::format(", step {}", tensor.step);
  text += ")" + more;
  if (!tensor.ranks.empty()) text += fmt::format(" in the process set of {}", tensor.ranks);
  return text;
}

}  // namespace

void Waits::tell_messages(int rank, const std::vector<MessageWait>& waits, TimePoint now) {
  messages_.erase(rank);
  for (const auto& wait : waits) messages_[rank].push_back({wait, now - wait.since});
}

std::vector<Wait> Waits::all(const Negotiator& negotiator) const {
  std::vector<Wait> all;
  for (auto& waiting : negotiator.waiting(TimePoint::max()))
    all.push_back({WaitKind::tensor, std::move(waiting)});
  const auto& leaving = negotiator.leaving();
  for (const auto& [rank, messages] : messages_) {
    RankSet gone = leaving.left;
    gone.add(RankSet(rank));
    for (const auto& [wait, since] : messages) {
      const auto missing = wait.peer == kAnySource
                               ? negotiator.ranks_in(wait.process_set).without(gone).list()
                               : std::vector{wait.peer};
      if (missing.empty()) continue;  // it is about to hear that all have left
      all.push_back({wait.sends ? WaitKind::send : WaitKind::receive,
                     {title(wait), wait.what, 0, since, {rank}, missing, {}}});
    }
  }
  if (with_shutdown_ && !leaving.left.empty()) {
    const auto missing = others(leaving.left, size_);
    all.push_back({WaitKind::shutdown, {"shutdown", {}, 0, leaving.since, leaving.left.list(), missing, {}}});
  }
  return all;
}

TimePoint Waits::oldest(const Negotiator& negotiator) const {
  TimePoint oldest = negotiator.oldest();  // once: another rank may answer at any time
  if (with_shutdown_) oldest = std::min(oldest, negotiator.leaving().since);
  for (const auto& [rank, messages] : messages_) oldest = std::min(oldest, messages.front().since);
  return oldest;
}

std::string describe(const Wait& wait, int more, Clock::duration time) {
  const WaitingTensor& on = wait.on;
  const double seconds = std::chrono::duration<double>(time).count();
  const std::string ranks = describe_ranks(on.asked);
  const std::string others = more != 0 ? fmt::format(" and {} more", more) : "";
  switch (wait.kind) {
    case WaitKind::receive:
      return fmt::format("{} has waited for {:.0f} s for {} ({}){}", ranks, seconds, on.name, on.what,
                         others);
    case WaitKind::send:
      return fmt::format("{} has waited for {:.0f} s until {} ({}){} is received", ranks, seconds, on.name,
                         on.what, others);
    case WaitKind::shutdown: return fmt::format("shutdown() has waited for {:.0f} s", seconds);
    case WaitKind::tensor: break;
  }
  return fmt::format("{} has been waited for {:.0f} s", describe_tensor(on, others), seconds);
}

std::string describe_asked(const Wait& wait) {
  const std::string ranks = describe_ranks(wait.on.asked);
  switch (wait.kind) {
    case WaitKind::receive: return ", which has not been sent";
    case WaitKind::send: return "";
    case WaitKind::shutdown: return fmt::format(": {} called it", ranks);
    case WaitKind::tensor: break;
  }
  return fmt::format(": {} asked for it", ranks);
}

std::string waits_for(const std::vector<Wait>& all, int rank) {
  for (const auto& [kind, on] : all) {
    if (std::find(on.asked.begin(), on.asked.end(), rank) == on.asked.end()) continue;
    switch (kind) {
      case WaitKind::tensor: return fmt::format("for '{}', which others have not submitted", on.name);
      case WaitKind::receive: return fmt::format("for {}, which has not been sent", on.name);
      case WaitKind::send: return fmt::format("until {} is received", on.name);
      case WaitKind::shutdown: return "in shutdown(), for ranks that have not called it";
    }
  }
  return {};
}

const Wait& cause_of(const Wait& wait, const std::vector<Wait>& all) {
  const Wait* cause = &wait;
  for (const auto& other : all) {
    if (wait.kind != WaitKind::tensor || other.kind != WaitKind::tensor) continue;
    if (!wait_for_each_other(other.on, cause->on)) continue;
    const auto own = std::pair(improbability(cause->on, other.on), cause->on.asked.front());
    if (std::pair(improbability(other.on, cause->on), other.on.asked.front()) < own) cause = &other;
  }
  return *cause;
}

}  // namespace hora
