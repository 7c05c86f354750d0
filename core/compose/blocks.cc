// SPDX-License-Identifier: Apache-2.0
#include "core/compose/blocks.h"

#include <algorithm>
#include <cstring>

namespace hora {

Blocks::Blocks(const Hosts& hosts, std::span<const std::size_t> lengths) : hosts_(hosts) {
  std::size_t next = 0;
  for (const std::size_t length : lengths) {
    in_rank_order_.push_back(next);
    next += length;
  }
  for (const auto& ranks : hosts_.ranks) {
    std::vector<std::size_t> bounds{0};
    for (const int rank : ranks) bounds.push_back(bounds.back() + lengths[static_cast<std::size_t>(rank)]);
    bounds_.push_back(std::move(bounds));
  }
}

std::size_t Blocks::longest() const {
  std::size_t longest = 0;
  for (const auto& bounds : bounds_) longest = std::max(longest, bounds.back());
  return longest;
}

std::size_t Blocks::begin(std::size_t host) const {
  return in_rank_order_[static_cast<std::size_t>(hosts_.ranks[host].front())];
}

std::size_t Blocks::length(std::size_t host, std::size_t begin, std::size_t end) const {
  const std::size_t all = bounds_[host].back();
  return std::min(end, all) - std::min(begin, all);
}

std::vector<std::size_t> Blocks::shares(std::size_t host, std::size_t begin, std::size_t end) const {
  const auto& bounds = bounds_[host];
  std::vector<std::size_t> shares;
  for (std::size_t place = 0; place + 1 < bounds.size(); ++place) {
    shares.push_back(std::clamp(end, bounds[place], bounds[place + 1]) -
                     std::clamp(begin, bounds[place], bounds[place + 1]));
  }
  return shares;
}

std::size_t Blocks::begin_of_share(std::size_t host, std::size_t place, std::size_t begin) const {
  const auto& bounds = bounds_[host];
  return std::clamp(begin, bounds[place], bounds[place + 1]) - bounds[place];
}

void Blocks::lay_out(std::size_t host, std::size_t begin, std::size_t count, const std::byte* from,
                     std::byte* to) const {
  const auto shares = this->shares(host, begin, begin + count);
  for (std::size_t place = 0; place < shares.size(); ++place) {
    if (shares[place] == 0) continue;
    const auto rank = static_cast<std::size_t>(hosts_.ranks[host][place]);
    std::memcpy(to + in_rank_order_[rank] + begin_of_share(host, place, begin), from, shares[place]);
    from += shares[place];
  }
}

}  // namespace hora
