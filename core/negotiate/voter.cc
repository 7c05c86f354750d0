// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/voter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  if (id) {
    asked_before_.at(*id).asked = asks_++;
  } else {
    asked_.insert_or_assign(request.name, Asked{asks_++, std::make_shared<const Request>(request)});
  }
  return id;
}

std::optional<DecisionId> Voter::known(const Request& request) const {
  const DecisionId* id = schedule_.find(request.name);
  if (id == nullptr || *asked_before_.at(*id).request != request) return std::nullopt;
  return *id;
}

Ballot Voter::ask_again() {
  std::vector<Asked> all;
  for (auto& [name, asked] : std::exchange(asked_, {})) all.push_back(std::move(asked));
  for (const auto& [id, known] : asked_before_) {
    if (known.asked) all.push_back({*known.asked, known.request});
  }
  std::sort(all.begin(), all.end(),
            [](const Asked& one, const Asked& other) { return one.number < other.number; });
  std::vector<Request> requests;
  requests.reserve(all.size());
  for (const auto& asked : all) requests.push_back(*asked.request);
  return ask(requests);
}

std::optional<std::vector<DecisionId>> Voter::under_way() const {
  if (!asked_.empty()) return std::nullopt;
  std::vector<DecisionId> ids;
  for (const auto& [id, known] : asked_before_) {
    if (known.asked) ids.push_back(id);
  }
  return ids;
}

Ballot Voter::leave(bool stays) const {
  Ballot ballot;
  ballot.group = group_;
  ballot.heard = heard_;
  ballot.leaving = true;
  ballot.stays_in_job = stays;
  return ballot;
}

std::vector<Decision> Voter::apply(const Verdict& verdict) {
  ++heard_;
  std::vector<Decision> decisions;
  decisions.reserve(verdict.items.size());
  for (const auto& item : verdict.items) {
    if (item.decision.request.name.empty()) {
      decisions.push_back(repeated(item.repeat));
      continue;
    }
    auto asked = take(item.decision.request.name);
    const bool ok = item.decision.status.ok();
    if (!ok && asked == nullptr)
      continue;  // it failed on other ranks; if this rank asks for it later, that fails, too
    decisions.push_back(item.decision);
    if (!Schedule::keeps(item.decision)) continue;
    if (asked == nullptr) {
      throw Error(Code::internal,
                  fmt::format("bad verdict: this rank has not asked for '{}'", item.decision.request.name));
    }
    learn(item.decision, std::move(asked));
  }
  return decisions;
}

Decision Voter::repeated(DecisionId id) {
  const Decision* decision = schedule_.use(id);
  if (decision == nullptr)
    throw Error(Code::internal, fmt::format("bad verdict: no decision has the number {}", id));
  asked_before_.at(id).asked.reset();
  rename(id);
  if (!asked_.empty()) asked_.erase(decision->request.name);
  return *decision;
}

/// The request that has led to the decision gets the name under which it is made again.
void Voter::rename(DecisionId id) {
  auto& request = asked_before_.at(id).request;
  const std::string& name = schedule_.name_in(id);
  if (request->name == name) return;
  auto renamed = std::make_shared<Request>(*request);
  renamed->name = name;
  request = std::move(renamed);
}

/// Removes and returns the request that is under way under this name; null if there is none.
std::shared_ptr<const Request> Voter::take(const std::string& name) {
  if (auto asked = asked_.extract(name)) return std::move(asked.mapped().request);
  const DecisionId* id = schedule_.find(name);
  if (id == nullptr) return nullptr;
  Known& known = asked_before_.at(*id);
  return std::exchange(known.asked, std::nullopt) ? known.request : nullptr;
}

void Voter::learn(const Decision& decision, std::shared_ptr<const Request> asked) {
  const auto [id, forgotten] = schedule_.learn(decision);
  if (auto former = asked_before_.extract(forgotten); former && former.mapped().asked) {
    auto& [request, number] = former.mapped();
    asked_.emplace(request->name, Asked{*number, request});
  }
  asked_before_.emplace(id, Known{std::move(asked), {}});
  rename(id);
}

}  // namespace hora
