// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/loss_policy.h"

#include "core/comm/control.h"
#include "core/comm/unreachable_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora::tcp {
namespace {

constexpr std::chrono::milliseconds kOthersPairs{500};  // for all ranks to name those that they cannot reach
constexpr std::chrono::seconds kFailing{2};             // of a process that has said that it fails
constexpr std::chrono::milliseconds kDying{500};        // of a process whose socket has closed
constexpr std::chrono::milliseconds kFarAway{250};      // the same of one that cannot be seen from here
constexpr std::chrono::milliseconds kLauncher{300};     // to tell how a process ended that is seen to have
constexpr std::chrono::seconds kFarLauncher{1};         // the same of one that cannot be seen from here

/// When a rank that cannot be seen from here is given up.
TimePoint end_far_away(const LossPolicy::Now& now) {
  return now.time + (now.launcher_tells ? std::chrono::milliseconds(kFarLauncher) : kFarAway);
}

}  // namespace

std::optional<Loss> LossPolicy::hear(const Loss& loss, const Watched& teller, bool collects, const Now& now) {
  const bool pairs = collects && names_unreachable(loss.status);
  if (pending_) {
    if (pairs && names_unreachable(pending_->loss.status))
      pending_->loss.status = merge_unreachable(pending_->loss.status, loss.status);
    return std::nullopt;
  }
  if (pairs) {
    pending_ = Pending{loss, now.time + kOthersPairs};
    pending_->unreachable_pairs = true;
    return std::nullopt;
  }
  const bool own = loss.rank == teller.rank && !now.closing;
  if (!own || (!teller.process_seen && !teller.in_other_space)) return loss;
  pending_ = Pending{loss, now.time + kFailing, teller.process_seen};
  return std::nullopt;
}

std::optional<Loss> LossPolicy::end(const Watched& rank, const std::string& how, const Now& now) {
  if (pending_) {
    if (rank.in_other_space && pending_->loss.rank == rank.rank)
      pending_->until = std::min(pending_->until, end_far_away(now));
    return std::nullopt;
  }
  const auto gone = [&](const std::string& what) { return fmt::format("{} is gone: {}", rank.name, what); };
  Loss loss{rank.rank, {Code::aborted, gone(how)}};
  // A process that dies closes its sockets a moment before it is dead.
  if ((!rank.process_seen && !rank.in_other_space) || now.closing) return loss;
  if (rank.in_other_space) {
    pending_ = Pending{loss, end_far_away(now)};
  } else {
    pending_ = Pending{loss, now.time + kDying, true, gone("its process ended")};
  }
  pending_->lost = rank.name;
  return std::nullopt;
}

std::optional<Loss> LossPolicy::look(bool process_ended, const RankEnd* told, const Now& now) {
  if (!pending_) return std::nullopt;
  const RankEnd* end = pending_->unreachable_pairs ? nullptr : told;
  if (process_ended && !std::exchange(pending_->over, true))
    pending_->until = std::min(pending_->until, now.launcher_tells ? now.time + kLauncher : now.time);
  if (end == nullptr && now.time < pending_->until && !now.closing) return std::nullopt;
  Pending pending = *std::exchange(pending_, std::nullopt);
  std::string& message = pending.loss.status.message;
  if (pending.over && !pending.ended.empty()) message = std::move(pending.ended);
  if (end != nullptr) {
    message = pending.lost.empty() ? message + describe_after(message, *end)
                                   : fmt::format("{} is gone: it {}", pending.lost, describe(*end));
  }
  return std::move(pending.loss);
}

void LossPolicy::end_tree_link(const Status& why, TimePoint now) {
  if (!broken_link_) broken_link_ = BrokenLink{why, now + kUntilControlTells};
}

std::optional<Status> LossPolicy::take_broken_link(TimePoint now) {
  if (!broken_link_ || now < broken_link_->until) return std::nullopt;
  return std::exchange(broken_link_, std::nullopt)->why;
}

TimePoint LossPolicy::until() const {
  const TimePoint loss = pending_ ? pending_->until : TimePoint::max();
  return std::min(loss, broken_link_ ? broken_link_->until : TimePoint::max());
}

}  // namespace hora::tcp
