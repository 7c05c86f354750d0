// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/asking.h"

namespace hora {
namespace {

template <typename Wanted>
bool joins_others(std::vector<Asking>& askings, const RankSet& who, const Wanted& wanted) {
  if (askings.empty()) return false;
  for (Asking* asking : {&askings.back(), &askings.front()}) {
    if (!asking->is(wanted)) continue;
    asking->who.add(who);
    return true;
  }
  return false;
}

}  // namespace

void add_asking(std::vector<Asking>& askings, const RankSet& who, DecisionId repeat) {
  if (!joins_others(askings, who, repeat)) askings.push_back({who, repeat, nullptr});
}

void add_asking(std::vector<Asking>& askings, const RankSet& who, const Request& request) {
  if (!joins_others(askings, who, request))
    askings.push_back({who, 0, std::make_shared<const Request>(request)});
}

}  // namespace hora
