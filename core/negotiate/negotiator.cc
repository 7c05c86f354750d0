// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/negotiator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

Bytes bytes_of(std::optional<Letter> letter) {
  if (letter->bytes.empty()) throw Error(std::move(letter->loss));
  return std::move(letter->bytes);
}

}  // namespace

Negotiator::Negotiator(Control& control, std::size_t capacity) : control_(control), schedule_(capacity) {
  if (control.rank() == 0) coordinator_.emplace(control.size(), capacity);
}

void Negotiator::ask(const std::vector<Request>& requests, TimePoint now) {
  if (requests.empty()) return;
  Ballot ballot;
  for (const auto& request : requests) {
    const DecisionId* known = schedule_.find(request.name);
    if (known != nullptr && asked_before_.at(*known) == request) {
      ballot.repeats.push_back(*known);
    } else {
      ballot.requests.push_back(request);
    }
    asked_.insert_or_assign(request.name, request);
  }
  std::sort(ballot.repeats.begin(), ballot.repeats.end());
  cast(std::move(ballot), now);
}

void Negotiator::leave(TimePoint now) {
  Ballot ballot;
  ballot.leaving = true;
  cast(std::move(ballot), now);
}

void Negotiator::cast(Ballot ballot, TimePoint now) {
  ballot.heard = heard_;
  if (coordinator_) {
    coordinator_->add(0, ballot, now);
    undecided_ = true;
  } else {
    control_.send(0, encode(ballot));
  }
}

Negotiator::Heard Negotiator::hear(TimePoint deadline) {
  if (coordinator_) return hear_as_coordinator(deadline);
  auto letter = control_.receive(deadline);
  if (!letter) return {};
  return apply(decode_verdict(bytes_of(std::move(letter)), control_.size()));
}

Negotiator::Heard Negotiator::hear_as_coordinator(TimePoint deadline) {
  // Whatever has arrived goes into one verdict; waits only if there is nothing to say already.
  constexpr TimePoint kAtOnce = TimePoint::min();
  auto letter = control_.receive(undecided_ ? kAtOnce : deadline);
  while (letter) {
    const int from = letter->from;
    coordinator_->add(from, decode_ballot(bytes_of(std::move(letter)), control_.size()), Clock::now());
    undecided_ = true;
    letter = control_.receive(kAtOnce);
  }
  if (!std::exchange(undecided_, false)) return {};
  const auto verdict = coordinator_->decide();
  if (!verdict) return {};
  const Bytes bytes = encode(*verdict);
  for (int rank = 1; rank < control_.size(); ++rank) control_.send(rank, bytes);
  return apply(*verdict);
}

Negotiator::Heard Negotiator::apply(const Verdict& verdict) {
  ++heard_;
  Heard heard{{}, verdict.end};
  for (const auto& item : verdict.items) {
    if (item.decision.request.name.empty()) {
      const Decision* decision = schedule_.use(item.repeat);
      if (decision == nullptr) {
        throw Error(Code::internal, fmt::format("bad verdict: no decision has the number {}", item.repeat));
      }
      heard.decisions.push_back(*decision);
      asked_.erase(decision->request.name);
      continue;
    }
    const auto asked = asked_.extract(item.decision.request.name);
    const bool ok = item.decision.status.ok();
    if (!ok && asked.empty()) continue;  // others' failure; if this rank asks for it later, that fails, too
    heard.decisions.push_back(item.decision);
    if (!ok) continue;
    if (asked.empty()) {
      throw Error(Code::internal,
                  fmt::format("bad verdict: this rank has not asked for '{}'", item.decision.request.name));
    }
    const auto [id, forgotten] = schedule_.learn(item.decision);
    asked_before_.erase(forgotten);
    asked_before_.emplace(id, asked.mapped());
  }
  return heard;
}

}  // namespace hora
