// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/lockstep.h"

#include <utility>

namespace hora {
namespace {

// A word: two bits, whether to end; 31 bits of the hash; 31 bits, how many are ready.
constexpr int kReadyBits = 31;
constexpr std::uint64_t kReadyMask = (std::uint64_t{1} << kReadyBits) - 1;
constexpr int kEndAt = 62;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t x = (hash ^ value) + 0x9e3779b97f4a7c15;  // splitmix64's steps
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

Lockstep::Lockstep(std::vector<DecisionId> order, std::size_t made)
    : order_(std::move(order)), at_(made % order_.size()) {
  for (const auto id : order_) {
    states_.emplace(id, State::none);
    hash_ = mixed(hash_, id);
  }
}

bool Lockstep::ask(DecisionId id) {
  const auto known = states_.find(id);
  if (known == states_.end() || known->second != State::none) return false;
  known->second = State::asked;
  ++waiting_;
  extend();
  return true;
}

void Lockstep::extend() {
  while (ready_ < order_.size()) {
    State& next = states_.at(order_[(at_ + ready_) % order_.size()]);
    if (next != State::asked) return;
    next = State::ready;
    ++ready_;
  }
}

std::vector<DecisionId> Lockstep::decide(std::size_t count) {
  std::vector<DecisionId> ids;
  ids.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const DecisionId id = order_[at_];
    ids.push_back(id);
    hash_ = mixed(hash_, id);
    states_.at(id) = State::none;
    at_ = (at_ + 1) % order_.size();
  }
  ready_ -= count;
  waiting_ -= count;
  decided_ += count;
  return ids;
}

std::uint64_t Lockstep::word(End end) const {
  return static_cast<std::uint64_t>(end) << kEndAt | (hash_ >> 33) << kReadyBits | (ready_ & kReadyMask);
}

Lockstep::End Lockstep::end_in(std::uint64_t word) { return static_cast<End>(word >> kEndAt); }
std::size_t Lockstep::ready_in(std::uint64_t word) { return word & kReadyMask; }
std::uint64_t Lockstep::place_in(std::uint64_t word) { return (word << 2) >> (kReadyBits + 2); }

}  // namespace hora
