// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <memory>
#include <vector>

namespace hora {

/// One request that several ranks make alike under one name, either by number or in full. A value.
struct Asking {
  RankSet who;
  DecisionId repeat = 0;                   ///< the number; 0: the request is in full
  std::shared_ptr<const Request> request;  ///< the full request; null: it is by number

  /// Whether this is the request by this number, or this full request.
  [[nodiscard]] bool is(DecisionId number) const { return repeat == number; }
  [[nodiscard]] bool is(const Request& full) const { return request != nullptr && *request == full; }
};

// Add the ranks `who` to the first or the last of `askings`, if that is the same request. This is the usual
// case. Otherwise they append an asking, without a search. So many ranks with different requests cost no more
// than few.
void add_asking(std::vector<Asking>& askings, const RankSet& who, DecisionId repeat);
void add_asking(std::vector<Asking>& askings, const RankSet& who, const Request& request);

}  // namespace hora
