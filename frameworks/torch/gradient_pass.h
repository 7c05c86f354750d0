// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/rounds/round.h"
#include "frameworks/torch/gradient_hooks.h"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace hora {

/// A reducer that communicates at the end of a pass of backward(): it makes a round.
class RoundMaker {
 public:
  RoundMaker() = default;
  RoundMaker(const RoundMaker&) = delete;
  RoundMaker& operator=(const RoundMaker&) = delete;

  /// The pass of this number has ended. Returns whether a round is due.
  virtual bool leave_pass(int pass) = 0;
  /// The pass of this number has failed. Returns whether other ranks wait for its round.
  virtual bool fail_pass(int pass) = 0;
  /// The state that says what to do in a round, and the mutex that guards it.
  virtual rounds::ReducerState& state() = 0;
  virtual std::mutex& mutex() = 0;
  /// Carries out one action of a round. The caller holds the mutex.
  virtual void carry_out(const rounds::Action& action) = 0;

 protected:
  ~RoundMaker() = default;
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

  /// `maker` takes part in the pass that autograd runs on this thread, as long as `*alive`. Called from
  /// hooks, which autograd runs on one thread for each device.
  [[nodiscard]] static std::shared_ptr<GradientPass> enter(RoundMaker& maker, Alive alive);

  /// Whether autograd has ended the pass, or given it up.
  [[nodiscard]] bool is_over() const { return running_.expired(); }
  /// The pass has failed. Makes the rounds that other ranks wait for. Throws the first error that does not
  /// come from this. No maker may hold a lock that its functions take.
  void fail();

 private:
  using Makers = std::vector<std::pair<RoundMaker*, Alive>>;
  void end();
  [[nodiscard]] Makers take_makers();

  int number_;
  std::weak_ptr<int> running_;
  Makers makers_;
};

}  // namespace hora
