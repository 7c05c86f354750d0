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
    if (const auto id = note(request)) {
      ballot.repeats.push_back(*id);
    } else {
      ballot.requests.push_back(request);
    }
  }
  std::sort(ballot.repeats.begin(), ballot.repeats.end());
  return ballot;
}

std::optional<DecisionId> Voter::note(const Request& request) {
  const auto id = known(request);
  asked_.insert_or_assign(
      request.name, Asked{asks_++, id ? asked_before_.at(*id) : std::make_shared<const Request>(request)});
  return id;
}

std::optional<DecisionId> Voter::known(const Request& request) const {
  const DecisionId* id = schedule_.find(request.name);
  if (id == nullptr || *asked_before_.at(*id) != request) return std::nullopt;
  return *id;
}

Ballot Voter::ask_again() {
  std::vector<Asked> all;
  all.reserve(asked_.size());
  for (auto& [name, asked] : asked_) all.push_back(std::move(asked));
  std::sort(all.begin(), all.end(),
            [](const Asked& one, const Asked& other) { return one.number < other.number; });
  std::vector<Request> requests;
  requests.reserve(all.size());
  for (const auto& asked : all) requests.push_back(*asked.request);
  return ask(requests);
}

std::optional<std::vector<DecisionId>> Voter::under_way() const {
  std::vector<DecisionId> ids;
  for (const auto& [name, asked] : asked_) {
    const auto id = known(*asked.request);
    if (!id) return std::nullopt;
    ids.push_back(*id);
  }
  return ids;
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
    auto asked = asked_.extract(item.decision.request.name);
    const bool ok = item.decision.status.ok();
    if (!ok && asked.empty()) continue;  // others' failure; if this rank asks for it later, that fails, too
    decisions.push_back(item.decision);
    if (!Schedule::keeps(item.decision)) continue;
    if (asked.empty()) {
      throw Error(Code::internal,
                  fmt::format("bad verdict: this rank has not asked for '{}'", item.decision.request.name));
    }
    learn(item.decision, std::move(asked.mapped().request));
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

void Voter::learn(const Decision& decision, std::shared_ptr<const Request> asked) {
  const auto [id, forgotten] = schedule_.learn(decision);
  asked_before_.erase(forgotten);
  asked_before_.emplace(id, std::move(asked));
}

}  // namespace hora
