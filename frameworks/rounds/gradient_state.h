// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hora::rounds {

/// The contribution of this rank to the reduction of one gradient.
enum class Bring {
  nothing,    ///< no gradient: it counts as zeros
  stand_in,   ///< no gradient, because of `failed_with`: the reduction fails on all ranks
  set_aside,  ///< no gradient; the present one was reduced before, and becomes the base
  gradient,   ///< the gradient
};

/// The outcome for a gradient whose reduction has ended.
enum class Settle {
  leave,  ///< it stays as it is
  take,   ///< it is the reduced one
  add,    ///< it is the reduced one plus the base
};

/// The state of one gradient. Only what is this rank's own is ever reduced. A gradient that is added to after
/// it was reduced is set aside as the *base*, and the reduced addition is added to that.
class GradientState {
 public:
  /// Whether its reduction is under way.
  [[nodiscard]] bool is_pending() const { return pending_; }
  /// Whether its reduction has ended, and backward() has not added to it since.
  [[nodiscard]] bool is_settled() const { return settled_; }
  /// How often it was submitted since the last step.
  [[nodiscard]] unsigned times_submitted() const { return submitted_; }

  /// backward() is about to add to it. `present`: there is a gradient. `unchanged`: nobody has written to it
  /// since the last step. Returns whether it is to be set aside, and cleared.
  [[nodiscard]] bool touch(bool present, bool unchanged);
  /// It is about to be submitted. `failed`: this rank has no gradients.
  [[nodiscard]] Bring bring(bool present, bool unchanged, bool failed);
  void submitted();
  /// Its reduction has ended well. `contributed`: a rank had a gradient.
  [[nodiscard]] Settle settled(bool contributed, bool present);
  /// Its reduction has failed. The base is dropped.
  void lost() { pending_ = has_base_ = false; }

  void end_step() { submitted_ = 0; }
  /// It is about to be cleared.
  void forget() { has_base_ = settled_ = false; }

 private:
  [[nodiscard]] bool is_shared(bool present, bool unchanged) const;

  bool pending_ = false;
  bool absent_ = false;    // the reduction under way has nothing from this rank
  bool has_base_ = false;  // what was reduced before is to be added
  bool settled_ = false;
  unsigned submitted_ = 0;
};

}  // namespace hora::rounds
