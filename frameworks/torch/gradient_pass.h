// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/rounds/round.h"
#include "frameworks/torch/gradient_hooks.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hora {

class GradientPass;

/// The rounds of one optimizer: a pass of backward() ends with one, or fails and leaves one to be made up.
///
/// Locking: autograd's threads run hooks and the end of a pass. The user's thread calls the rest. `mutex_`
/// guards everything of the optimizer. A round holds the mutexes of all its makers, in the order of their
/// addresses, and waits under them: the end of a pass, and the user's thread, are alone. Passes lock the list
/// of passes under no mutex that a round waits for.
class RoundMaker {
 public:
  RoundMaker(std::string label, int passes_per_round, bool sparse_as_dense)
      : state_(std::move(label), passes_per_round, sparse_as_dense) {}
  RoundMaker(const RoundMaker&) = delete;
  RoundMaker& operator=(const RoundMaker&) = delete;

  [[nodiscard]] std::mutex& mutex() { return mutex_; }
  [[nodiscard]] rounds::ReducerState& state() { return state_; }
  [[nodiscard]] const Alive& alive() const { return alive_; }

  /// Carries out one action of a round. The caller holds the mutex.
  virtual void carry_out(const rounds::Action& action) = 0;

 protected:
  ~RoundMaker() { *alive_ = false; }

  /// Runs what a hook does, and remembers what it throws: the pass has failed on this rank.
  void run_hook(const std::function<void()>& action);
  /// The first hook of a pass. Makes up the rounds of a pass that failed before this one, without the lock.
  void begin_pass(int pass, bool overlaps, std::unique_lock<std::mutex>& lock);
  /// Ends a pass that has begun and not ended: it has failed. Makes its rounds, also of other makers.
  void end_failed_pass();
  /// The same, and makes the rest of a round that was interrupted: the other ranks wait for it.
  void finish();

  std::mutex mutex_;
  rounds::ReducerState state_;

 private:
  Alive alive_ = std::make_shared<bool>(true);
  std::shared_ptr<GradientPass> pass_;  // the last one
};

/// Makes a round of each, at the same time. `has_failed`: this rank knows that it has no gradients. Throws
/// the first error, once all rounds have ended; if this rank has failed, none that comes from that.
void make_rounds(const std::vector<RoundMaker*>& makers, bool has_failed);

/// One pass of backward(), and the reducers whose parameters it reaches. They make their rounds together,
/// also after the pass has failed.
class GradientPass {
 public:
  /// Autograd keeps `running` until it has ended the pass, or given it up.
  GradientPass(int number, const std::shared_ptr<int>& running) : number_(number), running_(running) {}

  /// `maker` takes part in the pass that autograd runs on this thread, as long as it is alive. Called from
  /// hooks, which autograd runs on one thread for each device.
  [[nodiscard]] static std::shared_ptr<GradientPass> enter(RoundMaker& maker);

  /// Whether autograd has ended the pass, or given it up.
  [[nodiscard]] bool is_over() const { return running_.expired(); }
  /// The pass has failed. Makes the rounds that other ranks wait for. Throws the first error that does not
  /// come from this. No maker may hold a lock that its functions take.
  void fail();

 private:
  using IsDue = std::function<bool(rounds::ReducerState&)>;  // tells a state that the pass is over
  void end();
  [[nodiscard]] std::vector<RoundMaker*> all_for_which(const IsDue& is_due);

  int number_;
  std::weak_ptr<int> running_;
  std::vector<std::pair<RoundMaker*, Alive>> makers_;
};

}  // namespace hora
