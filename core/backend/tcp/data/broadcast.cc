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

/// The neighbours of a rank in a tree; ranks are counted from the root.
struct Neighbours {
  std::optional<int> parent;  // the root has none
  std::vector<int> children;
};

Neighbours in_star(int at, int ranks) {
  Neighbours neighbours;
  if (at > 0) {
    neighbours.parent = 0;
  } else {
    for (int child = 1; child < ranks; ++child) neighbours.children.push_back(child);
  }
  return neighbours;
}

Neighbours in_chain(int at, int ranks) {
  Neighbours neighbours;
  if (at > 0) neighbours.parent = at - 1;
  if (at + 1 < ranks) neighbours.children.push_back(at + 1);
  return neighbours;
}

/// The parent is without the lowest bit that is set, the children have one more below it; the one with most
/// below itself is first.
Neighbours in_binomial_tree(int at, int ranks) {
  Neighbours neighbours;
  if (at > 0) neighbours.parent = at & (at - 1);
  int bit = 1;
  while (bit < ranks && (at & bit) == 0) bit *= 2;
  for (bit /= 2; bit > 0; bit /= 2) {
    if (at + bit < ranks) neighbours.children.push_back(at + bit);
  }
  return neighbours;
}

Neighbours neighbours_of(int at, int ranks, std::size_t bytes) {
  if (bytes >= kChainFrom) return in_chain(at, ranks);
  return ranks <= kStarUpTo ? in_star(at, ranks) : in_binomial_tree(at, ranks);
}

}  // namespace

void broadcast_tree(Mesh& mesh, void* data, std::size_t bytes, int root) {
  const int ranks = mesh.ranks();
  Neighbours neighbours = neighbours_of((mesh.rank() - root + ranks) % ranks, ranks, bytes);
  std::vector<int> peers;
  for (int& child : neighbours.children) peers.push_back(child = (child + root) % ranks);
  if (neighbours.parent) peers.push_back(*neighbours.parent = (*neighbours.parent + root) % ranks);
  Traffic traffic(mesh, peers);

  const std::size_t segment =
      std::clamp(bytes / 16 / kLeastSegment * kLeastSegment, kLeastSegment, kMostSegment);
  for (std::size_t at = 0; at < bytes; at += segment) {
    Pieces pieces;
    add_piece(pieces, static_cast<std::byte*>(data) + at, std::min(segment, bytes - at));
    const auto pass_on = [&traffic, &neighbours, pieces] {
      for (const int child : neighbours.children) traffic.send(child, Purpose::copy, pieces);
    };
    if (neighbours.parent) {
      traffic.receive(*neighbours.parent, Purpose::copy, pieces, pass_on);
    } else {
      pass_on();
    }
  }
  traffic.run();
}

}  // namespace hora::tcp
