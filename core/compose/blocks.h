// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/compose/hosts.h"

#include <cstddef>
#include <span>
#include <vector>

namespace hora {

/// The shares that the ranks of a group bring or get, by host. A host's *block* is the shares of its ranks,
/// one after the other in their places' order. Lengths are in any unit. A value; `hosts` stays where it is.
class Blocks {
 public:
  /// `lengths`: by rank.
  Blocks(const Hosts& hosts, std::span<const std::size_t> lengths);

  /// The length of the longest block.
  [[nodiscard]] std::size_t longest() const;
  /// The offset of the first share of a host's block when all ranks' shares stand in rank order.
  [[nodiscard]] std::size_t begin(std::size_t host) const;
  /// How much of a block lies within [begin, end).
  [[nodiscard]] std::size_t length(std::size_t host, std::size_t begin, std::size_t end) const;
  /// How much of that each of the host's ranks has, by place.
  [[nodiscard]] std::vector<std::size_t> shares(std::size_t host, std::size_t begin, std::size_t end) const;
  /// The offset, in all that a rank has, of its share of the part of the block behind `begin`.
  [[nodiscard]] std::size_t begin_of_share(std::size_t host, std::size_t place, std::size_t begin) const;
  /// Puts `count` bytes of a block, which begin at `begin` there, where they are in rank order.
  void lay_out(std::size_t host, std::size_t begin, std::size_t count, const std::byte* from,
               std::byte* to) const;

 private:
  const Hosts& hosts_;
  std::vector<std::size_t> in_rank_order_;        // by rank: where its share begins
  std::vector<std::vector<std::size_t>> bounds_;  // by host: where shares begin in the block; then its length
};

}  // namespace hora
