// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"

#include <list>
#include <memory>
#include <vector>

namespace hora {

// The code that messengers have in common: it gets a message to the receive that waits for it.

/// The functions that are to be called when no lock is held, in this order.
using Calls = std::vector<std::function<void()>>;
inline void run(const Calls& calls) {
  for (const auto& call : calls) call();
}

/// The bytes of a message's elements. Throws Error(invalid_argument) if no tensor has that many.
[[nodiscard]] std::size_t content_bytes(const Envelope& envelope);

/// A copy of a message's elements.
[[nodiscard]] std::shared_ptr<std::byte> copy_of(const void* elements, std::size_t bytes);

/// Gives a message whose elements are here to the receive that waits for it.
void deliver(const Incoming& waiting, const Envelope& envelope, const void* elements);

/// Tells all of these that nothing will come.
void fail(std::list<Incoming> waiting, const Status& why, Calls& calls);
/// For `Matching::give_up`: those from this source, and all.
inline auto wants_from(int source) {
  return [source](const Incoming& waiting) { return waiting.wanted.source == source; };
}
inline bool any_receive(const Incoming&) { return true; }

}  // namespace hora
