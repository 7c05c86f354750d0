// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/voter.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {

Ballot Voter::ask(const std::vector<Request>& requests) {
  Ballot ballot;
  ballot.group = group_;
  ballot.heard = heard_;
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
  return ballot;
}

Ballot Voter::leave() const {
  Ballot ballot;
  ballot.group = group_;
  ballot.heard = heard_;
  ballot.leaving = true;
  return ballot;
}

std::vector<Decision> Voter::apply(const Verdict& verdict) {
  ++heard_;
  std::vector<Decision> decisions;
  for (const auto& item : verdict.items) {
    if (item.decision.request.name.empty()) {
      decisions.push_back(repeated(item.repeat));
      continue;
    }
    const auto asked = asked_.extract(item.decision.request.name);
    const bool ok = item.decision.status.ok();
    if (!ok && asked.empty()) continue;  // others' failure; if this rank asks for it later, that fails, too
    decisions.push_back(item.decision);
    if (!Schedule::keeps(item.decision)) continue;
    if (asked.empty()) {
      throw Error(Code::internal,
                  fmt::format("bad verdict: this rank has not asked for '{}'", item.decision.request.name));
    }
    learn(item.decision, asked.mapped());
  }
  return decisions;
}

Decision Voter::repeated(DecisionId id) {
  const Decision* decision = schedule_.use(id);
  if (decision == nullptr)
    throw Error(Code::internal, fmt::format("bad verdict: no decision has the number {}", id));
  asked_.erase(decision->request.name);
  return *decision;
}

void Voter::learn(const Decision& decision, const Request& asked) {
  const auto [id, forgotten] = schedule_.learn(decision);
  asked_before_.erase(forgotten);
  asked_before_.emplace(id, asked);
}

}  // namespace hora
