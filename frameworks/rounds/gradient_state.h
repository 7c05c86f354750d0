// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hora::rounds {

/// The contribution of this rank to the reduction of one gradient.
enum class Bring {
  nothing,    ///< this rank has no gradient; its part counts as zeros
  stand_in,   ///< a pass failed here (`failed_with`), so the reduction fails on all ranks
  set_aside,  ///< the gradient was reduced before: it becomes the base, and counts as zeros
  gradient,   ///< the gradient is reduced
};

/// The new value of a gradient when its reduction has ended.
enum class Settle {
  leave,  ///< the gradient is not changed
  take,   ///< the reduced gradient
  add,    ///< the reduced gradient plus the base
};

/// The state of one gradient in the rounds of its optimizer. Only what this rank has added itself is reduced,
/// and only once. If backward() adds to a gradient that was reduced before, that gradient is set aside as the
/// *base*. The addition is then reduced alone, and its result is added to the base.
class GradientState {
 public:
  /// Whether the reduction of the gradient is under way.
  [[nodiscard]] bool is_pending() const { return pending_; }
  /// Whether the reduction of the gradient has ended, and backward() has not added to the gradient since.
  [[nodiscard]] bool is_settled() const { return settled_; }
  /// How often the gradient was submitted since the last optimizer step.
  [[nodiscard]] unsigned times_submitted() const { return submitted_; }

  /// Notes that backward() is about to add to the gradient. `present`: there is a gradient. `unchanged`:
  /// nothing has written to it since the last step. Returns whether the adapter must set the gradient aside
  /// and clear it.
  [[nodiscard]] bool touch(bool present, bool unchanged);
  /// Notes that the gradient is about to be submitted, and returns the contribution of this rank. `failed`: a
  /// pass failed on this rank, so it has no gradients.
  [[nodiscard]] Bring bring(bool present, bool unchanged, bool failed);
  /// Notes that the gradient was submitted.
  void submitted();
  /// Notes that the reduction has succeeded. `contributed`: at least one rank had a gradient.
  [[nodiscard]] Settle settled(bool contributed, bool present);
  /// Notes that the reduction has failed, which drops the base.
  void lost() { pending_ = has_base_ = false; }

  /// Notes that the optimizer has made a step.
  void end_step() { submitted_ = 0; }
  /// Notes that the gradient is about to be cleared.
  void forget() { has_base_ = settled_ = false; }

 private:
  [[nodiscard]] bool is_shared(bool present, bool unchanged) const;

  bool pending_ = false;
  bool absent_ = false;    // this rank contributes nothing to the reduction under way
  bool has_base_ = false;  // there is a base, to be added to the result
  bool settled_ = false;
  unsigned submitted_ = 0;
};

}  // namespace hora::rounds
