// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/gradient_hooks.h"

#include <memory>
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
  /// Submits everything of the round. Never waits for other ranks, and never throws: `close_round` does.
  virtual void open_round() = 0;
  /// Waits for everything that was submitted. Throws the first error, once all has ended.
  virtual void close_round() = 0;

 protected:
  ~RoundMaker() = default;
};

/// One pass of backward(), and the reducers whose parameters it reaches.
///
/// The rounds of all reducers are opened before any of them is closed, also after the pass has failed.
/// Another rank's pass may reach the reducers in another order, or only some of them, and come to the others
/// later. So no rank waits for one round while another rank waits for a second one.
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
