// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"

#include <list>
#include <optional>

namespace hora {

/// Which message goes to which receive. `Arrival` is what the owner keeps of a message that has arrived, or
/// has been announced, before anybody asked for it. Whoever comes first waits: the first receive that takes a
/// message gets it, and a receive takes the first message that it can. Not thread-safe.
template <typename Arrival>
class Matching {
 public:
  /// The receive that has waited for such a message longest, if there is one; it waits no more.
  std::optional<Incoming> claim(const Envelope& envelope) {
    for (auto wanted = waiting_.begin(); wanted != waiting_.end(); ++wanted) {
      if (!takes(wanted->from, wanted->tag, envelope)) continue;
      Incoming first = std::move(*wanted);
      waiting_.erase(wanted);
      return first;
    }
    return std::nullopt;
  }
  /// Keeps a message that nobody has claimed.
  void keep(Envelope envelope, Arrival arrival) {
    kept_.push_back({std::move(envelope), std::move(arrival)});
  }

  struct Kept {
    Envelope envelope;
    Arrival arrival;
  };
  /// The oldest message that such a receive would take, if there is one; it is kept no more.
  std::optional<Kept> take(int from, int tag) {
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      if (!takes(from, tag, kept->envelope)) continue;
      Kept first = std::move(*kept);
      kept_.erase(kept);
      return first;
    }
    return std::nullopt;
  }
  /// Lets a receive wait for which there is no message.
  void wait(Incoming wanted) { waiting_.push_back(std::move(wanted)); }

  [[nodiscard]] const Envelope* probe(int from, int tag) const {
    for (const auto& kept : kept_) {
      if (takes(from, tag, kept.envelope)) return &kept.envelope;
    }
    return nullptr;
  }

  /// All receives that wait for nobody but this rank; for kAnySource, all that wait.
  std::list<Incoming> give_up(int from) {
    std::list<Incoming> given;
    for (auto wanted = waiting_.begin(); wanted != waiting_.end();) {
      const auto next = std::next(wanted);
      if (from == kAnySource || wanted->from == from) given.splice(given.end(), waiting_, wanted);
      wanted = next;
    }
    return given;
  }

 private:
  static bool takes(int from, int tag, const Envelope& envelope) {
    return (from == kAnySource || from == envelope.source) && (tag == kAnyTag || tag == envelope.tag);
  }

  std::list<Incoming> waiting_;
  std::list<Kept> kept_;
};

}  // namespace hora
