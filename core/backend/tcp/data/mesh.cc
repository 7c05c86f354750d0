// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/mesh.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::tcp {
namespace {

constexpr int kCallBits = 40;
constexpr std::uint32_t kSplitsBelow = 251;  // numbers of the same ancestry differ, of others as a rule

}  // namespace

Mesh::Mesh(std::shared_ptr<Links> links, std::vector<int> members, std::uint32_t number, bool spins)
    : links_(std::move(links)),
      members_(std::move(members)),
      rank_(static_cast<int>(std::find(members_.begin(), members_.end(), links_->rank()) - members_.begin())),
      number_(number),
      spins_(spins) {}

std::unique_ptr<Mesh> Mesh::split(std::span<const int> members, std::uint32_t number) const {
  std::vector<int> of_world;
  of_world.reserve(members.size());
  for (const int member : members) of_world.push_back(in_world(member));
  return std::make_unique<Mesh>(links_, std::move(of_world), number_ * kSplitsBelow + number, spins_);
}

std::uint64_t Mesh::begin_call(std::span<const int> peers) {
  throw_if_aborted();
  std::vector<int> of_world;
  of_world.reserve(peers.size());
  for (const int peer : peers) of_world.push_back(in_world(peer));
  links_->require(of_world);
  return (std::uint64_t{number_} << kCallBits) + ++calls_;
}

bool Mesh::may_spin() {
  if (!spins_) return false;
  if (passed_up_ >= to_pass_up_) return true;
  ++passed_up_;
  return false;
}

void Mesh::has_spun(bool in_vain) {
  constexpr int kMostPassedUp = 255;
  passed_up_ = 0;
  to_pass_up_ = in_vain ? std::min(2 * to_pass_up_ + 1, kMostPassedUp) : 0;
}

void Mesh::lost(int rank) {
  // A survivor that has heard of a death before us closes its sockets, too. Control tells which rank has
  // died.
  {
    std::unique_lock lock(mutex_);
    abortion_.wait_for(lock, kUntilControlTells, [this] { return aborted_.load(std::memory_order_relaxed); });
  }
  throw_if_aborted();
  throw Error(Code::aborted, fmt::format("rank {} is gone: its data connection closed", in_world(rank)));
}

void Mesh::abort(const Status& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) return;
    why_ = why;
    aborted_.store(true, std::memory_order_release);
  }
  abortion_.notify_all();
  links_->abort(why);  // wakes the engine in poll(), there and here
}

void Mesh::throw_if_aborted() {
  if (!aborted_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  throw Error(why_);
}

}  // namespace hora::tcp
