// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient.h"
#include "frameworks/torch/text.h"

#include <ostream>

namespace hora {
namespace {

using Tensors = std::vector<torch::Tensor>;

/// [C] as [1, C, 1, ...], to be combined with an input.
torch::Tensor by_channel(const torch::Tensor& values, const torch::Tensor& like) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(like.dim()), 1);
  shape[1] = -1;
  return values.view(shape).to(like.scalar_type());
}

/// All dimensions but that of the channels.
std::vector<std::int64_t> all_but_channels(const torch::Tensor& x) {
  std::vector<std::int64_t> over;
  for (std::int64_t d = 0; d < x.dim(); ++d) {
    if (d != 1) over.push_back(d);
  }
  return over;
}

/// Of the batches of all ranks, float64: [C] values, but for `total`, the number of values for each channel.
struct Statistics {
  torch::Tensor mean;
  torch::Tensor variance;
  torch::Tensor total;
};

/// Each rank tells its number of values, their mean and the sum of their squared deviations from that; all
/// combine them alike, in rank order.
Statistics statistics_of_all(Runtime& hora, const torch::Tensor& x, const OperationOptions& operation) {
  const auto over = all_but_channels(x);
  const std::int64_t channels = x.size(1);
  const std::int64_t count = x.numel() / channels;
  const auto mean = count > 0 ? x.mean(over) : torch::zeros({channels}, x.options());
  const auto squares = (x - by_channel(mean, x)).square().sum(over);
  const auto own = torch::cat({torch::full({1}, count, mean.options().dtype(torch::kFloat64)),
                               mean.to(torch::kFloat64), squares.to(torch::kFloat64)});
  const auto all = allgather(hora, own.unsqueeze(0),
                             {.name = operation.name + ".forward", .process_set = operation.process_set});
  const auto parts = all.split_with_sizes({1, channels, channels}, 1);
  const auto& counts = parts[0];
  const auto& means = parts[1];
  const auto total = counts.sum();
  const auto whole_mean = (counts * means).sum(0) / total;
  const auto deviations = (parts[2] + counts * (means - whole_mean).square()).sum(0);
  return {whole_mean, deviations / total, total};
}

/// The values of a normalisation that backward() needs.
struct Normalization {
  torch::Tensor normalized;  // (x - mean) / sqrt(variance + eps)
  torch::Tensor weight;      // or undefined
  torch::Tensor inverse;     // 1 / sqrt(variance + eps), float64
  torch::Tensor total;
  torch::ScalarType dtype;  // of the input
  bool input_has_gradient;
};

/// The sums over the batch in the gradient of the input are added up over the ranks; the gradients of weight
/// and bias stay those of this rank's batch.
Tensors gradients_of(Runtime& hora, const OperationOptions& operation, const Normalization& was,
                     const torch::Tensor& gradient) {
  const auto dy = gradient.to(was.normalized.scalar_type());
  const auto over = all_but_channels(dy);
  const auto sum = dy.sum(over);
  const auto sum_normalized = (dy * was.normalized).sum(over);
  Tensors gradients(3);
  if (was.input_has_gradient) {
    const auto sums = torch::stack({sum, sum_normalized}).to(torch::kFloat64);
    const auto means = allreduce(hora, sums,
                                 {.name = operation.name + ".backward",
                                  .op = ReduceOp::sum,
                                  .process_set = operation.process_set}) /
                       was.total;
    const auto scale = was.weight.defined() ? was.inverse * was.weight.to(torch::kFloat64) : was.inverse;
    const auto centred = dy - by_channel(means[0], dy) - was.normalized * by_channel(means[1], dy);
    gradients[0] = (centred * by_channel(scale, dy)).to(was.dtype);
  }
  if (was.weight.defined()) {
    gradients[1] = sum_normalized.to(was.weight.scalar_type());
    gradients[2] = sum.to(was.weight.scalar_type());
  }
  return gradients;
}

/// Gradients with create_graph may be looked at, but not differentiated.
Tensors once_differentiable(const Tensors& inputs, Tensors outputs, const std::string& name) {
  if (!is_tracked(inputs)) return outputs;
  Tensors defined;
  for (const auto& output : outputs) {
    if (output.defined()) defined.push_back(output);
  }
  with_gradient(inputs, defined, [name](const Tensors& /*gradients*/) -> Tensors {
    throw Error(Code::invalid_argument, text_of("'{}': SyncBatchNorm has no second derivative", name));
  });
  return outputs;
}

void refuse_single_values(const Statistics& all, const torch::Tensor& x, const std::string& name) {
  if (x.numel() > x.size(1)) return;  // own values are enough: nobody needs to wait for the GPU
  if (all.total.item<double>() > 1) return;
  throw Error(
      Code::invalid_argument,
      text_of("'{}': in training, expected more than 1 value for each channel on all ranks together", name));
}

void track(SyncBatchNormImpl& norm, const Statistics& all) {
  const torch::NoGradGuard no_grad;
  norm.num_batches_tracked.add_(1);
  const double factor = norm.options.momentum().value_or(1.0 / norm.num_batches_tracked.item<double>());
  const auto unbiased = all.variance * all.total / (all.total - 1);
  norm.running_mean.lerp_(all.mean.to(norm.running_mean.scalar_type()), factor);
  norm.running_var.lerp_(unbiased.to(norm.running_var.scalar_type()), factor);
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(Runtime& hora, const torch::nn::BatchNormOptions& wanted,
                                     int process_set)
    : NormImplBase(wanted),
      hora_(&hora),
      operation_{"sync_batch_norm." + std::to_string(hora.next_number(process_set)), process_set} {}

void SyncBatchNormImpl::_check_input_dim(const torch::Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features() && input.is_floating_point()) return;
  throw Error(
      Code::invalid_argument,
      text_of("'{}': expected floating-point [N, {}, ...], not {} [{}]", operation_.name,
              options.num_features(), torch::toString(input.scalar_type()), joined(input.sizes(), ", ")));
}

torch::Tensor SyncBatchNormImpl::forward(const torch::Tensor& input) {
  _check_input_dim(input);
  if (!is_training() && options.track_running_stats())
    return torch::batch_norm(input, weight, bias, running_mean, running_var, false, 0.0, options.eps(),
                             false);
  const auto x =
      input.detach().to(input.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
  const auto all = statistics_of_all(*hora_, x, operation_);
  if (is_training()) {
    refuse_single_values(all, x, operation_.name);
    if (options.track_running_stats()) track(*this, all);
  }
  const auto inverse = (all.variance + options.eps()).rsqrt();
  const auto normalized = (x - by_channel(all.mean, x)) * by_channel(inverse, x);
  const auto own_weight = options.affine() ? weight.detach() : torch::Tensor();
  auto output = normalized;
  if (options.affine()) output = output * by_channel(own_weight, x) + by_channel(bias.detach(), x);
  output = output.to(input.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  const Tensors inputs = {input, weight, bias};
  if (!is_tracked(inputs)) return output;
  const Normalization was{normalized, own_weight,          inverse,
                          all.total,  input.scalar_type(), input.requires_grad()};
  const auto gradient = [hora = hora_, operation = operation_, was](const Tensors& gradients) {
    const auto of_inputs = [&] {
      const torch::NoGradGuard no_grad;
      return gradients_of(*hora, operation, was, gradients[0]);
    }();
    return once_differentiable(gradients, of_inputs, operation.name);
  };
  return with_gradient(inputs, Tensors{output}, gradient).front();
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << text_of("hora::SyncBatchNorm({}, eps={}, momentum={}, affine={}, track_running_stats={})",
                    options.num_features(), options.eps(),
                    options.momentum() ? text_of("{}", *options.momentum()) : "none", options.affine(),
                    options.track_running_stats());
}

}  // namespace hora
