// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/coordinator.h"

#include "core/negotiate/agreement.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {

Coordinator::Coordinator(int size, std::size_t capacity)
    : size_(size),
      schedule_(capacity),
      heard_(static_cast<std::size_t>(size)),
      left_(static_cast<std::size_t>(size)) {}

void Coordinator::add(int rank, const Ballot& ballot, TimePoint now) {
  const auto who = static_cast<std::size_t>(rank);
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::internal, fmt::format("bad ballot from rank {}: {}", rank, what));
  };
  if (left_[who]) refuse("it has left already");
  if (ballot.heard < heard_[who] || ballot.heard > verdicts_) refuse("it has not heard that many verdicts");
  heard_[who] = ballot.heard;
  for (const auto id : ballot.repeats) {
    const auto known = remembered_.find(id);
    if (known == remembered_.end()) refuse(fmt::format("no decision has the number {}", id));
    const std::string& name = known->second.front().name;
    Pending& asked = pending(name, now);
    if (asked.has_asked(rank)) refuse(fmt::format("it asks twice for '{}'", name));
    asked.repeats[who] = id;
    count(name, asked);
  }
  for (const auto& request : ballot.requests) {
    if (request.name.empty()) refuse("a request without a name");
    Pending& asked = pending(request.name, now);
    if (asked.has_asked(rank)) refuse(fmt::format("it asks twice for '{}'", request.name));
    asked.requests.emplace(rank, request);
    count(request.name, asked);
  }
  if (ballot.leaving) leave(rank);
  forget_what_all_have_heard();
}

Coordinator::Pending& Coordinator::pending(const std::string& name, TimePoint now) {
  auto [known, fresh] = pending_.try_emplace(name);
  if (fresh) {
    known->second.repeats.resize(static_cast<std::size_t>(size_));
    known->second.since = now;
    known->second.age = ages_.insert(ages_.end(), name);
  }
  return known->second;
}

void Coordinator::count(const std::string& name, Pending& pending) {
  if (++pending.asked == size_) {
    ready_.push_back(name);
  } else if (leaving_ > 0 && fail_if_left(name, pending)) {
    ages_.erase(pending.age);
    pending_.erase(name);
  }
}

bool Coordinator::fail_if_left(const std::string& name, const Pending& pending) {
  for (int rank = 0; rank < size_; ++rank) {
    if (!left_[static_cast<std::size_t>(rank)] || pending.has_asked(rank)) continue;
    Decision decision;
    decision.request.name = name;
    decision.status = {Code::aborted,
                       fmt::format("'{}': rank {} has left the job without submitting it", name, rank)};
    failed_.push_back(std::move(decision));
    return true;
  }
  return false;
}

void Coordinator::leave(int rank) {
  left_[static_cast<std::size_t>(rank)] = true;
  ++leaving_;
  for (auto entry = pending_.begin(); entry != pending_.end();) {
    const bool complete = entry->second.asked == size_;
    if (!complete && fail_if_left(entry->first, entry->second)) {
      ages_.erase(entry->second.age);
      entry = pending_.erase(entry);
    } else {
      ++entry;
    }
  }
}

std::optional<Verdict> Coordinator::decide() {
  Verdict verdict;
  for (const auto& name : ready_) verdict.items.push_back(decide(name));
  ready_.clear();
  for (auto& decision : failed_) verdict.items.push_back({0, std::move(decision)});
  failed_.clear();
  verdict.end = leaving_ == size_ && !ended_;
  ended_ = ended_ || verdict.end;
  if (verdict.items.empty() && !verdict.end) return std::nullopt;
  ++verdicts_;
  return verdict;
}

Verdict::Item Coordinator::decide(const std::string& name) {
  const auto entry = pending_.find(name);
  const Pending& pending = entry->second;
  const DecisionId first = pending.repeats.front();
  const bool repeated = first != 0 && schedule_.knows(first) &&
                        std::all_of(pending.repeats.begin(), pending.repeats.end(),
                                    [first](DecisionId id) { return id == first; });
  Verdict::Item item;
  if (repeated) {
    schedule_.use(first);
    item.repeat = first;
  } else {
    item = decide_anew(pending);
  }
  ages_.erase(pending.age);
  pending_.erase(entry);
  return item;
}

Verdict::Item Coordinator::decide_anew(const Pending& pending) {
  std::vector<const Request*> requests;
  requests.reserve(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) requests.push_back(&asked_by(pending, rank));
  Verdict::Item item{0, agree(requests)};
  if (!item.decision.status.ok()) return item;

  const bool alike = std::all_of(requests.begin(), requests.end(),
                                 [&](const Request* request) { return *request == *requests.front(); });
  Remembered remembered;
  for (const auto* request : requests) {
    remembered.push_back(*request);
    if (alike) break;
  }
  const auto [id, forgotten] = schedule_.learn(item.decision);
  remembered_.emplace(id, std::move(remembered));
  if (forgotten != 0) forgotten_.emplace_back(verdicts_ + 1, forgotten);
  return item;
}

const Request& Coordinator::asked_by(const Pending& pending, int rank) const {
  const DecisionId id = pending.repeats[static_cast<std::size_t>(rank)];
  if (id == 0) return pending.requests.at(rank);
  const Remembered& remembered = remembered_.at(id);
  return remembered.size() == 1 ? remembered.front() : remembered[static_cast<std::size_t>(rank)];
}

void Coordinator::forget_what_all_have_heard() {
  if (forgotten_.empty()) return;
  const auto heard = *std::min_element(heard_.begin(), heard_.end());
  while (!forgotten_.empty() && forgotten_.front().first <= heard) {
    spell_out(forgotten_.front().second);
    remembered_.erase(forgotten_.front().second);
    forgotten_.pop_front();
  }
}

void Coordinator::spell_out(DecisionId id) {
  const auto entry = pending_.find(remembered_.at(id).front().name);
  if (entry == pending_.end()) return;
  for (int rank = 0; rank < size_; ++rank) {
    DecisionId& repeat = entry->second.repeats[static_cast<std::size_t>(rank)];
    if (repeat != id) continue;
    entry->second.requests.emplace(rank, asked_by(entry->second, rank));
    repeat = 0;
  }
}

std::vector<Coordinator::Waiting> Coordinator::waiting(TimePoint since) const {
  std::vector<Waiting> all;
  for (const auto& name : ages_) {
    const Pending& pending = pending_.at(name);
    if (pending.since > since) break;
    Waiting waiting{name, pending.since, {}, {}};
    for (int rank = 0; rank < size_; ++rank) {
      (pending.has_asked(rank) ? waiting.asked : waiting.missing).push_back(rank);
    }
    all.push_back(std::move(waiting));
  }
  return all;
}

TimePoint Coordinator::oldest() const {
  return ages_.empty() ? TimePoint::max() : pending_.at(ages_.front()).since;
}

}  // namespace hora
