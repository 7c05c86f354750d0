// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <memory>
#include <vector>

namespace hora {

/// The request that some ranks make alike under one name: by number or in full. A value.
struct Asking {
  RankSet who;
  DecisionId repeat = 0;                   ///< 0: not by number
  std::shared_ptr<const Request> request;  ///< null: by number

  /// Whether the ranks ask for this.
  [[nodiscard]] bool is(DecisionId number) const { return repeat == number; }
  [[nodiscard]] bool is(const Request& full) const { return request != nullptr && *request == full; }
};

// Add the ranks to an asking for the same that is there already, if that is the first or the last. It is so
// as a rule; else they add another asking. So many ranks that all ask for something of their own cost no more
// than few.
void add_asking(std::vector<Asking>& askings, const RankSet& who, DecisionId repeat);
void add_asking(std::vector<Asking>& askings, const RankSet& who, const Request& request);

}  // namespace hora
