// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/broadcast.h"

#include "core/backend/tcp/data/traffic.h"

#include <algorithm>
#include <optional>

namespace hora::tcp {
namespace {

constexpr int kStarUpTo = 8;                      // ranks
constexpr std::size_t kChainFrom = 64 * 1024;     // bytes
constexpr std::size_t kMostSegment = 256 * 1024;  // bytes
constexpr std::size_t kLeastSegment = 32 * 1024;  // bytes

/// A rank's place, in ranks counted from the root.
struct Place {
  std::optional<int> parent;  // the root has none
  std::vector<int> children;
};

Place in_star(int at, int ranks) {
  Place place;
  if (at > 0) {
    place.parent = 0;
  } else {
    for (int child = 1; child < ranks; ++child) place.children.push_back(child);
  }
  return place;
}

Place in_chain(int at, int ranks) {
  Place place;
  if (at > 0) place.parent = at - 1;
  if (at + 1 < ranks) place.children.push_back(at + 1);
  return place;
}

/// The parent is without the lowest bit that is set, the children have one more below it; the one with most
/// below itself is first.
Place in_binomial_tree(int at, int ranks) {
  Place place;
  if (at > 0) place.parent = at & (at - 1);
  int bit = 1;
  while (bit < ranks && (at & bit) == 0) bit *= 2;
  for (bit /= 2; bit > 0; bit /= 2) {
    if (at + bit < ranks) place.children.push_back(at + bit);
  }
  return place;
}

Place place_of(int at, int ranks, std::size_t bytes) {
  if (bytes >= kChainFrom) return in_chain(at, ranks);
  return ranks <= kStarUpTo ? in_star(at, ranks) : in_binomial_tree(at, ranks);
}

}  // namespace

void broadcast_tree(Mesh& mesh, void* data, std::size_t bytes, int root) {
  const int ranks = mesh.ranks();
  Place place = place_of((mesh.rank() - root + ranks) % ranks, ranks, bytes);
  std::vector<int> peers;
  for (int& child : place.children) peers.push_back(child = (child + root) % ranks);
  if (place.parent) peers.push_back(*place.parent = (*place.parent + root) % ranks);
  Traffic traffic(mesh, peers);

  const std::size_t segment =
      std::clamp(bytes / 16 / kLeastSegment * kLeastSegment, kLeastSegment, kMostSegment);
  for (std::size_t at = 0; at < bytes; at += segment) {
    Pieces pieces;
    add_piece(pieces, static_cast<std::byte*>(data) + at, std::min(segment, bytes - at));
    const auto pass_on = [&traffic, &place, pieces] {
      for (const int child : place.children) traffic.send(child, Purpose::copy, pieces);
    };
    if (place.parent) {
      traffic.receive(*place.parent, Purpose::copy, pieces, pass_on);
    } else {
      pass_on();
    }
  }
  traffic.run();
}

}  // namespace hora::tcp
