// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/links.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace hora::tcp {

/// Some ranks of a job that make calls together: which they are, how they reach each other, and the number of
/// the call they are at. Ranks are counted within the mesh unless it says "of the world". *Engine only*,
/// except `progress` and `abort`.
class Mesh {
 public:
  /// Meshes may share links if all ranks use them in the same order, one at a time; they have different
  /// `number`s. `members`: ranks of the world, of which we are one. `spins`: whether it is worth a core's
  /// time to wait for what comes soon without sleeping.
  Mesh(std::shared_ptr<Links> links, std::vector<int> members, std::uint32_t number, bool spins);

  /// A mesh of some of these ranks, over the same links: `members` are its ranks in this order. The same
  /// number as all members give, and no other mesh split off this one.
  [[nodiscard]] std::unique_ptr<Mesh> split(std::span<const int> members, std::uint32_t number) const;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int in_world(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  /// Whether to look for what comes again and again for a while before sleeping. Each look-out that was in
  /// vain makes us pass up more of the next ones: when cores are taken by others, or two ranks share one,
  /// what we wait for cannot come while we look.
  [[nodiscard]] bool may_spin();
  void has_spun(bool in_vain);

  /// Connects these ranks, who all do the same, and numbers the call that begins: calls that may be under
  /// way over the same links at the same time have different numbers. Throws what Links::require throws, and
  /// what `abort` was given.
  std::uint64_t begin_call(std::span<const int> peers);
  /// The lines to a rank that was given to `begin_call`.
  [[nodiscard]] std::span<DataLine* const> lines(int rank) const { return links_->lines(in_world(rank)); }

  /// Throws Error(aborted): a socket to that rank has closed.
  [[noreturn]] void lost(int rank);

  /// Something has moved. *Engine only.*
  void moved() noexcept {
    moves_.store(moves_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// How often. Thread-safe.
  [[nodiscard]] std::uint64_t progress() const noexcept { return moves_.load(std::memory_order_relaxed); }

  void abort(const Status& why) noexcept;
  void throw_if_aborted();

 private:
  std::shared_ptr<Links> links_;
  std::vector<int> members_;
  int rank_;
  std::uint32_t number_;
  std::uint64_t calls_ = 0;
  bool spins_;
  int passed_up_ = 0;   // look-outs after the last one that was in vain
  int to_pass_up_ = 0;  // after it, all together

  std::atomic<std::uint64_t> moves_ = 0;
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;
  std::condition_variable abortion_;
  Status why_;  // under the mutex
};

}  // namespace hora::tcp
