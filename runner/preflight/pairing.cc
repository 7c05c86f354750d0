// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/pairing.h"

namespace hora::hrun {

int rounds_of(int players) { return players < 2 ? 0 : players - 1 + players % 2; }

std::optional<int> partner_in(int round, int player, int players) {
  const int circle = rounds_of(players);  // an odd number; the one that stays has this number
  if (circle == 0) return std::nullopt;
  // A player that goes round meets the one whose number and its own add up to the round's, modulo the circle.
  // A player that would meet itself meets the one that stays.
  int partner = 0;
  if (player == circle) {
    // 2 * x = round (modulo the circle) has the solution x = round * (circle + 1) / 2.
    partner = round * ((circle + 1) / 2) % circle;
  } else {
    partner = (round - player % circle + circle) % circle;
    if (partner == player) partner = circle;
  }
  if (partner >= players) return std::nullopt;
  return partner;
}

}  // namespace hora::hrun
