// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/absences.h"

namespace hora {

void Absences::join(const RankSet& places, const Request& request) {
  joined_.add(places);
  last_joined_ = places.front();
  divide_by_initial_size_ = request.divide_by_initial_size;
}

bool Absences::complete(const RankSet& missing, bool joins) const {
  return missing.empty() || (!joins && missing.without(joined_).empty());
}

}  // namespace hora
