// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/gradient_state.h"

#include <utility>

namespace hora::rounds {

/// Whether the gradient is a reduced one, and so the same on all ranks.
bool GradientState::is_shared(bool present, bool unchanged) const {
  return settled_ && (submitted_ > 0 || !present || unchanged);
}

bool GradientState::touch(bool present, bool unchanged) {
  has_base_ = is_shared(present, unchanged) && present;
  settled_ = false;
  return has_base_;
}

Bring GradientState::bring(bool present, bool unchanged, bool failed) {
  absent_ = true;
  if (failed) return Bring::stand_in;
  if (!present) return Bring::nothing;
  if (is_shared(present, unchanged)) {
    has_base_ = true;
    return Bring::set_aside;
  }
  absent_ = false;
  return Bring::gradient;
}

void GradientState::submitted() {
  pending_ = true;
  ++submitted_;
}

Settle GradientState::settled(bool contributed, bool present) {
  const bool has_base = std::exchange(has_base_, false);
  const bool cleared = !absent_ && !present;  // by the user, after backward() was interrupted
  pending_ = false;
  settled_ = true;
  if (!contributed || cleared) return Settle::leave;
  return has_base ? Settle::add : Settle::take;
}

}  // namespace hora::rounds
