// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/numbered_requests.h"

#include "core/negotiate/ordinal.h"

#include <algorithm>
#include <memory>

namespace hora {

NumberedRequests::NumberedRequests(RankSet everybody, std::size_t capacity)
    : everybody_(std::move(everybody)),
      schedule_(capacity),
      heard_(static_cast<std::size_t>(everybody_.size())) {}

void NumberedRequests::learn(const Decision& decision, std::vector<Voice> voices) {
  if (!Schedule::keeps(decision)) return;
  const bool alike = std::all_of(voices.begin(), voices.end(), [&](const Voice& voice) {
    return *voice.request == *voices.front().request;
  });
  if (alike) {
    voices.resize(1);
    voices.front().places = everybody_;
  }
  Remembered remembered{std::move(voices)};
  const DecisionId* former = schedule_.find(decision.request.name);
  if (former != nullptr) remembered.times = remembered_.at(*former).times + 1;
  remembered.rename();
  const auto [id, forgotten] = schedule_.learn(decision);
  remembered_.emplace(id, std::move(remembered));
  if (forgotten != 0) forgotten_.emplace_back(verdicts_ + 1, forgotten);
}

std::uint64_t NumberedRequests::repeat(DecisionId id) {
  schedule_.use(id);
  Remembered& remembered = remembered_.at(id);
  remembered.rename();
  return ++remembered.times;
}

/// An operation without a name is asked for again by the next ordinal.
void NumberedRequests::Remembered::rename() {
  for (auto& voice : voices) {
    auto next = next_ordinal(voice.request->name);
    if (!next) return;
    auto renamed = std::make_shared<Request>(*voice.request);
    renamed->name = *std::move(next);
    voice.request = std::move(renamed);
  }
}

const std::string* NumberedRequests::name_of(DecisionId id) const {
  const auto known = remembered_.find(id);
  return known == remembered_.end() ? nullptr : &known->second.voices.front().request->name;
}

const Request& NumberedRequests::any_request(DecisionId id) const {
  return *remembered_.at(id).voices.front().request;
}

const Request& NumberedRequests::any_request(const Asking& asking) const {
  if (asking.repeat == 0) return *asking.request;
  const auto& voices = remembered_.at(asking.repeat).voices;
  return *std::find_if(voices.begin(), voices.end(), [&](const Voice& voice) {
            return voice.places.contains(asking.who.front());
          })->request;
}

std::vector<Voice> NumberedRequests::voices(const std::vector<Asking>& askings) const {
  std::vector<Voice> all;
  for (const auto& asking : askings) spell(asking, all);
  std::sort(all.begin(), all.end(),
            [](const Voice& one, const Voice& other) { return one.places.front() < other.places.front(); });
  return all;
}

/// Adds the full requests that the asking stands for.
void NumberedRequests::spell(const Asking& asking, std::vector<Voice>& voices) const {
  if (asking.repeat == 0) {
    voices.push_back({asking.who, asking.request});
    return;
  }
  for (const auto& former : remembered_.at(asking.repeat).voices) {
    RankSet places = former.places.common(asking.who);
    if (!places.empty()) voices.push_back({std::move(places), former.request});
  }
}

std::uint64_t NumberedRequests::step_of(const std::vector<Asking>& askings) const {
  std::uint64_t times = 0;
  for (const auto& asking : askings) {
    if (asking.repeat != 0) times = std::max(times, remembered_.at(asking.repeat).times);
  }
  return times == 0 ? 0 : times + 1;
}

std::vector<Asking> NumberedRequests::spell_out(std::vector<Asking> askings, DecisionId id) const {
  std::vector<Asking> spelled;
  for (auto& asking : askings) {
    if (asking.repeat != id) {
      spelled.push_back(std::move(asking));
      continue;
    }
    std::vector<Voice> voices;
    spell(asking, voices);
    for (auto& voice : voices) spelled.push_back({std::move(voice.places), 0, std::move(voice.request)});
  }
  return spelled;
}

void NumberedRequests::note_heard(const RankSet& places, std::uint64_t heard) {
  for (const auto& [first, end] : places.runs()) {
    for (auto known = heard_.begin() + first; known != heard_.begin() + end; ++known)
      *known = std::max(*known, heard);
  }
}

std::uint64_t NumberedRequests::heard_by_all() const {
  return *std::min_element(heard_.begin(), heard_.end());
}

}  // namespace hora
