// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <memory>
#include <vector>

namespace hora {

/// What some ask for alike under one name: by number or in full. A value.
struct Asking {
  RankSet who;
  DecisionId repeat = 0;                   ///< 0: not by number
  std::shared_ptr<const Request> request;  ///< null: by number

  /// Whether this is what is asked for.
  [[nodiscard]] bool is(DecisionId number) const { return repeat == number; }
  [[nodiscard]] bool is(const Request& full) const { return request != nullptr && *request == full; }
};

// Add who asks for the same to one that is there already, if that is the first or the last, as it is as a
// rule; else another one. So many who all ask for something of their own cost no more than few.
void add_asking(std::vector<Asking>& askings, const RankSet& who, DecisionId repeat);
void add_asking(std::vector<Asking>& askings, const RankSet& who, const Request& request);

}  // namespace hora
