// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sparse.h"

#include "frameworks/torch/tensor.h"
#include "frameworks/torch/text.h"

#include <cmath>

namespace hora {
namespace {

/// The tensors that the ranks send each other, and the places for the answers.
struct Parts {
  torch::Tensor indices;  // one row for each value
  torch::Tensor values;
  torch::Tensor present = torch::ones({}, torch::kFloat64);  // becomes the number of ranks that take part
  torch::Tensor share = torch::ones({}, torch::kFloat64);    // becomes the mean of their ones
  torch::Tensor shape;  // [2, dimensions], becomes the largest, - smallest
};

void check(const torch::Tensor& tensor, const ReduceOptions& options, const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid_argument, text_of("'{}': {}", name, why));
  };
  if (tensor.layout() != torch::kSparse)
    refuse("expected a sparse COO tensor, not another sparse layout; use .to_sparse()");
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum)
    refuse("sparse tensors are reduced by average or sum; for the others make it dense with .to_dense()");
  static_cast<void>(dtype_of(tensor, name));
}

torch::ScalarType dtype_on_wire(const torch::Tensor& tensor, Compression compression) {
  const bool wide = tensor.scalar_type() == torch::kFloat32 || tensor.scalar_type() == torch::kFloat64;
  if (!wide || compression == Compression::none) return tensor.scalar_type();
  return compression == Compression::fp16 ? torch::kFloat16 : torch::kBFloat16;
}

Entry gather(const torch::Tensor& tensor, const std::string& name, int process_set,
             std::shared_ptr<torch::Tensor>& output) {
  const torch::Tensor memory = lendable(tensor, name);
  Entry entry = lend(memory, {}, Operation::allgather, name, process_set);
  output = allocate_output(entry, memory);
  return entry;
}

Entry reduce(const torch::Tensor& number, ReduceOp op, const std::string& name, int process_set) {
  Entry entry = lend(number, number, Operation::allreduce, name, process_set);
  entry.op = op;
  return entry;
}

void check_shape(const torch::Tensor& extremes, const std::string& name) {
  if (torch::equal(extremes[0], -extremes[1])) return;
  const auto text = [](const torch::Tensor& sizes) {
    const auto numbers = sizes.contiguous();
    const torch::IntArrayRef all(numbers.data_ptr<std::int64_t>(), static_cast<std::size_t>(numbers.numel()));
    return "[" + joined(all, ", ") + "]";
  };
  throw Error(Code::mismatch,
              text_of("'{}': the shape of the sparse tensor differs between ranks: from {} to {}", name,
                      text(-extremes[1]), text(extremes[0])));
}

/// The values of all ranks, times `scale`, divided by `divisor`.
torch::Tensor put_together(const Parts& parts, const torch::Tensor& like, double scale, double divisor) {
  const auto values = parts.values.to(like.scalar_type());
  const auto whole = torch::sparse_coo_tensor(parts.indices.t(), values, like.sizes()).coalesce();
  if (scale == 1.0 && divisor == 1.0) return whole;
  if (whole.is_floating_point() || whole.is_complex()) return whole * scale / divisor;
  if (scale == 1.0) return whole.div(torch::Scalar(static_cast<std::int64_t>(divisor)), "trunc");
  return (whole.to(torch::kFloat64) * scale / divisor).to(like.scalar_type());  // truncated once
}

}  // namespace

bool is_sparse(const torch::Tensor& tensor) { return tensor.defined() && tensor.layout() != torch::kStrided; }

TensorHandle sparse_allreduce_async(Runtime& hora, const torch::Tensor& tensor,
                                    const ReduceOptions& options) {
  const auto own_label = label("sparse_allreduce", options.name);
  check(tensor, options, own_label);
  const torch::Tensor own = tensor.detach();
  std::shared_ptr<torch::Tensor> indices;
  std::shared_ptr<torch::Tensor> values;
  const auto sent = own._values().to(dtype_on_wire(own, options.compression));
  const auto sizes = torch::tensor(own.sizes().vec(), torch::kInt64);
  Parts parts;
  parts.shape = torch::stack({sizes, -sizes});
  const auto make = [&](const std::string& name) {
    const int set = options.process_set;
    return std::vector<Entry>{gather(own._indices().t(), name + ".indices", set, indices),
                              gather(sent, name + ".values", set, values),
                              reduce(parts.present, ReduceOp::sum, name + ".present", set),
                              reduce(parts.share, options.op, name + ".share", set),
                              reduce(parts.shape, ReduceOp::max, name + ".shape", set)};
  };
  auto handles = submit_named(hora, "sparse_allreduce", options.name, options.process_set, make);
  return {std::move(handles),
          [=, scale = options.prescale * options.postscale](const std::vector<Result>& /*all*/) {
            check_shape(parts.shape, own_label);
            Parts received = parts;
            received.indices = used_here(*indices);
            received.values = used_here(*values);
            // Ranks that have joined may count or not: the sum of ones over their mean is what means divide
            // by.
            const double divisor = std::round(parts.present.item<double>() / parts.share.item<double>());
            const torch::NoGradGuard no_grad;
            return put_together(received, own, scale, divisor);
          },
          lies_on(own._values())};
}

}  // namespace hora
