// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

namespace hora {

/// Matches messages with receives. `Arrival` is the data that the owner keeps of a message that has arrived,
/// or has been announced, before a receive asked for it. The side that comes first waits: the first receive
/// that takes a message gets it, and a receive takes the first message that it can. Not thread-safe.
template <typename Arrival>
class Matching {
 public:
  struct Kept {
    Envelope envelope;
    Arrival arrival;
  };

  /// The receive that has waited for such a message longest, if there is one; it waits no more.
  std::optional<Incoming> claim(const Envelope& envelope) {
    return take_first(waiting_, [&](const Incoming& waiting) { return takes(waiting.wanted, envelope); });
  }
  /// Keeps a message that nobody has claimed.
  void keep(Envelope envelope, Arrival arrival) {
    kept_.push_back({std::move(envelope), std::move(arrival)});
  }

  /// The oldest message that such a receive would take, if there is one; it is kept no more.
  std::optional<Kept> take(const Wanted& wanted) {
    return take_first(kept_, [&](const Kept& kept) { return takes(wanted, kept.envelope); });
  }
  /// Lets a receive wait for which there is no message.
  void wait(Incoming waiting) { waiting_.push_back(std::move(waiting)); }

  [[nodiscard]] const Envelope* probe(const Wanted& wanted) const {
    const auto found = std::find_if(kept_.begin(), kept_.end(),
                                    [&](const Kept& kept) { return takes(wanted, kept.envelope); });
    return found != kept_.end() ? &found->envelope : nullptr;
  }

  /// All receives that wait and for which `is_lost(wanted)`; they wait no more.
  template <typename Predicate>
  std::list<Incoming> give_up(const Predicate& is_lost) {
    return take_all(waiting_, is_lost);
  }
  /// All messages that are kept for which `is_lost(kept)`; they are kept no more.
  template <typename Predicate>
  std::list<Kept> give_back(const Predicate& is_lost) {
    return take_all(kept_, is_lost);
  }

 private:
  static bool takes(const Wanted& wanted, const Envelope& envelope) {
    return wanted.process_set == envelope.process_set &&
           (wanted.tag == kAnyTag || wanted.tag == envelope.tag) &&
           (wanted.source == kAnySource || wanted.source == envelope.source);
  }

  template <typename T, typename Predicate>
  static std::optional<T> take_first(std::list<T>& from, const Predicate& fits) {
    const auto found = std::find_if(from.begin(), from.end(), fits);
    if (found == from.end()) return std::nullopt;
    std::optional<T> first = std::move(*found);
    from.erase(found);
    return first;
  }

  template <typename T, typename Predicate>
  static std::list<T> take_all(std::list<T>& from, const Predicate& fits) {
    std::list<T> taken;
    for (auto one = from.begin(); one != from.end();) {
      const auto next = std::next(one);
      if (fits(*one)) taken.splice(taken.end(), from, one);
      one = next;
    }
    return taken;
  }

  std::list<Incoming> waiting_;  // by when they came
  std::list<Kept> kept_;         // by when they came
};

}  // namespace hora
