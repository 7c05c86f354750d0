// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient.h"
#include "frameworks/torch/sparse.h"
#include "frameworks/torch/tensor.h"

namespace hora {
namespace {

/// One tensor to be reduced: what is lent, and what becomes the result.
struct Reduced {
  torch::Tensor tensor;  // the user's
  torch::Tensor input;   // its elements side by side
  torch::Tensor output;

  [[nodiscard]] Entry entry(const std::string& name, const ReduceOptions& options) const {
    Entry entry = lend(input, output, Operation::allreduce, name, options.process_set);
    set_reduction(entry, options);
    return entry;
  }
};

Reduced fresh(const torch::Tensor& tensor, const std::string& name) {
  const torch::Tensor input = lendable(tensor, name);
  return {tensor, input, torch::empty_like(input)};
}

Reduced in_place(const torch::Tensor& tensor, const std::string& name) {
  const torch::Tensor memory = lendable_in_place(tensor, name);
  return {tensor, memory, memory};
}

template <typename Finish>
TensorHandle start(Runtime& hora, const Reduced& reduced, const ReduceOptions& options, Finish finish) {
  auto handle = submit_named(hora, "allreduce", options.name, options.process_set,
                             [&](const std::string& name) { return reduced.entry(name, options); });
  return {{std::move(handle)},
          [reduced, finish](const std::vector<Result>& /*results*/) { return finish(reduced); },
          lies_on(reduced.input)};
}

template <typename Lend, typename Finish>
TensorsHandle start_group(Runtime& hora, torch::TensorList tensors, const ReduceOptions& options, Lend lend,
                          Finish finish) {
  const auto group_label = label("grouped_allreduce", options.name);
  check_group(tensors, group_label);
  std::vector<Reduced> group;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    group.push_back(lend(tensors[i], member_name(group_label, i, tensors.size())));
  auto handles = submit_named(
      hora, "grouped_allreduce", options.name, options.process_set, [&](const std::string& name) {
        std::vector<Entry> entries;
        for (std::size_t i = 0; i < group.size(); ++i)
          entries.push_back(group[i].entry(member_name(name, i, group.size()), options));
        return entries;
      });
  return {std::move(handles),
          [group, finish](const std::vector<Result>& /*results*/) {
            std::vector<torch::Tensor> outputs;
            for (const auto& reduced : group) outputs.push_back(finish(reduced));
            return outputs;
          },
          device_among(tensors)};
}

torch::Tensor output_of(const Reduced& reduced) { return used_here(reduced.output); }
torch::Tensor written_back(const Reduced& reduced) { return write_back(reduced.tensor, reduced.output); }

bool is_selecting(ReduceOp op) {
  return op == ReduceOp::min || op == ReduceOp::max || op == ReduceOp::product;
}

/// Allreduces that the gradient of one needs, each with a name of its own.
class GradientReductions {
 public:
  GradientReductions(Runtime& hora, const ReduceOptions& options) : hora_(hora), options_(options) {}

  torch::Tensor operator()(const torch::Tensor& tensor, ReduceOp op, const char* what) const {
    const std::string name = options_.name.empty() ? "" : gradient_name(options_.name) + "." + what;
    return allreduce(hora_, tensor, {.name = name, .op = op, .process_set = options_.process_set});
  }

 private:
  Runtime& hora_;
  const ReduceOptions& options_;
};

/// How much of each element of the product is due to this rank's: the product of all others.
torch::Tensor share_of_product(const torch::Tensor& scaled, const GradientReductions& reduce) {
  const auto zero = scaled == 0;
  const auto zeros = reduce(zero.to(torch::kInt32), ReduceOp::sum, "zeros");
  const auto factors = torch::where(zero, torch::ones_like(scaled), scaled);
  const auto others = reduce(factors, ReduceOp::product, "factors") / factors;
  return torch::where(zeros == zero, others, torch::zeros_like(others));  // another rank's zero makes it zero
}

/// Whether this rank's element is the extreme one; ranks with equal ones share it.
torch::Tensor share_of_extreme(const torch::Tensor& scaled, ReduceOp op, const GradientReductions& reduce) {
  const auto chosen = scaled == reduce(scaled, op, "extremes");
  return chosen / reduce(chosen.to(torch::kInt32), ReduceOp::sum, "chosen");
}

/// The gradient of min, max or product in what this rank brought, for the sum of what all ranks make of the
/// result.
torch::Tensor selected_gradient(Runtime& hora, const torch::Tensor& tensor, const torch::Tensor& gradient,
                                const ReduceOptions& options) {
  const GradientReductions reduce(hora, options);
  const auto whole = reduce(gradient, ReduceOp::sum, "sum");
  const auto scaled = tensor.detach() * options.prescale;
  const auto share = options.op == ReduceOp::product ? share_of_product(scaled, reduce)
                                                     : share_of_extreme(scaled, options.op, reduce);
  return whole * share.to(gradient.scalar_type()) * (options.prescale * options.postscale);
}

ReduceOptions member_options(const ReduceOptions& options, std::size_t index, std::size_t count) {
  ReduceOptions member = options;
  if (!options.name.empty()) member.name = member_name(options.name, index, count);
  return member;
}

}  // namespace

TensorHandle allreduce_async(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options) {
  if (is_sparse(tensor)) return sparse_allreduce_async(hora, tensor, options);
  return start(hora, fresh(tensor, label("allreduce", options.name)), options, output_of);
}

TensorHandle allreduce_async_(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options) {
  if (is_sparse(tensor)) {
    return sparse_allreduce_async(hora, tensor, options).then([tensor](const torch::Tensor& reduced) {
      return write_back(tensor, reduced);
    });
  }
  return start(hora, in_place(tensor, label("allreduce", options.name)), options, written_back);
}

torch::Tensor allreduce(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options) {
  const BlockingScope blocking;
  const torch::Tensor output = allreduce_async(hora, tensor, options).wait();
  if (is_sparse(tensor) || is_logical(options.op) || !is_tracked(tensor)) return output;
  if (is_selecting(options.op)) {
    const torch::Tensor brought = tensor.detach().clone();
    return with_gradient(tensor, output, [&hora, options, brought](const std::vector<torch::Tensor>& all) {
      return std::vector<torch::Tensor>{selected_gradient(hora, brought, all[0], options)};
    });
  }
  const ReduceOptions back = for_gradient(options);
  return with_gradient(tensor, output, [&hora, back](const std::vector<torch::Tensor>& gradients) {
    return std::vector<torch::Tensor>{allreduce(hora, gradients[0], back)};
  });
}

torch::Tensor allreduce_(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options) {
  const BlockingScope blocking;
  static_cast<void>(allreduce_async_(hora, tensor, options).wait());
  return tensor;
}

TensorsHandle grouped_allreduce_async(Runtime& hora, torch::TensorList tensors,
                                      const ReduceOptions& options) {
  return start_group(hora, tensors, options, fresh, output_of);
}

TensorsHandle grouped_allreduce_async_(Runtime& hora, torch::TensorList tensors,
                                       const ReduceOptions& options) {
  return start_group(hora, tensors, options, in_place, written_back);
}

void grouped_allreduce_(Runtime& hora, torch::TensorList tensors, const ReduceOptions& options) {
  const BlockingScope blocking;
  static_cast<void>(grouped_allreduce_async_(hora, tensors, options).wait());
}

std::vector<torch::Tensor> grouped_allreduce(Runtime& hora, torch::TensorList tensors,
                                             const ReduceOptions& options) {
  const BlockingScope blocking;
  auto outputs = grouped_allreduce_async(hora, tensors, options).wait();
  if (is_logical(options.op) || !is_tracked(tensors)) return outputs;
  const auto floats = differentiable(tensors);
  std::vector<torch::Tensor> brought;
  if (is_selecting(options.op)) {
    for (const auto& tensor : select(tensors, floats)) brought.push_back(tensor.detach().clone());
  }
  const auto gradient = [&hora, options, brought](const std::vector<torch::Tensor>& gradients) {
    if (!is_selecting(options.op)) return grouped_allreduce(hora, gradients, for_gradient(options));
    std::vector<torch::Tensor> selected;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      selected.push_back(
          selected_gradient(hora, brought[i], gradients[i], member_options(options, i, gradients.size())));
    }
    return selected;
  };
  with_gradient(select(tensors, floats), select(outputs, floats), gradient);
  return outputs;
}

}  // namespace hora
