// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_slot.h"

#include "frameworks/torch/tensor.h"
#include "frameworks/torch/text.h"

namespace hora {
namespace {

constexpr std::size_t kLarge = 64 * 1024;  // bytes of a gradient for whose copy caches matter

[[noreturn]] void refuse_gradient(const std::string& name, const char* why) {
  throw Error(Code::invalid_argument, text_of("'{}': {}", name, why));
}

}  // namespace

bool GradientSlot::is_on_host() const { return lies_on(tensor).kind == DeviceKind::host; }

bool GradientSlot::in_place() const {
  const torch::Tensor& gradient = tensor.grad();
  return gradient.defined() && place.defined() && gradient.layout() == torch::kStrided &&
         gradient.data_ptr() == place.data_ptr();
}

void GradientSlot::refuse_graph() const {
  if (!has_gradient() || !tensor.grad().requires_grad()) return;
  refuse_gradient(name,
                  "backward(create_graph=true) cannot be reduced; use torch::autograd::grad with "
                  "create_graph=true for the inner gradient");
}

void GradientSlot::put_in_place(Runtime& hora, bool sparse_as_dense, bool for_later) {
  if (in_place()) return;
  torch::Tensor& gradient = tensor.mutable_grad();
  if (gradient.layout() != torch::kStrided) {
    if (!sparse_as_dense)
      refuse_gradient(name, "its gradient is sparse; set sparse_as_dense in the DistributedOptions");
    gradient = gradient.to_dense();
  }
  check_lendable(gradient, name);
  if (gradient.scalar_type() != place.scalar_type() || gradient.sizes() != place.sizes() ||
      gradient.device() != place.device()) {
    refuse_gradient(name,
                    "its gradient has another dtype, shape or device than the parameter had when its "
                    "DistributedOptimizer was made; make that after converting the model");
  }
  const bool same_bytes = gradient.strides() == place.strides() && !gradient.is_neg() && !gradient.is_conj();
  if (for_later && same_bytes && place.nbytes() >= kLarge && is_on_host()) {
    hora.copy_for_later(place.data_ptr(), gradient.data_ptr(), place.nbytes());
  } else {
    place.copy_(gradient);
  }
  gradient = place;
}

/// An addition to a gradient that was reduced before counts with that gradient.
void GradientSlot::look_at() {
  if (!base.defined()) {
    looked_at.clear();
    unseen = false;
  }
  looked_at.push_back(pending.value());
}

bool GradientSlot::wait() {
  const Handle handle = *std::exchange(pending, std::nullopt);
  return (is_on_host() ? handle.wait() : handle.wait_on(current_stream(lies_on(place)))).contributed;
}

void GradientSlot::end_step() {
  looked_at.clear();
  unseen = false;
  base.reset();
  version = has_gradient() ? tensor.grad()._version() : 0;
}

}  // namespace hora
