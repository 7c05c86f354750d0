// SPDX-License-Identifier: Apache-2.0
// The operations that MPI has and Horovod has not: gather, scatter, reduce, scan.
#include "frameworks/torch/tensor.h"

namespace hora {
namespace {

torch::Tensor with_rows(const torch::Tensor& tensor, const std::string& name) {
  const torch::Tensor memory = lendable(tensor, name);
  check_rows(memory, name);
  return memory;
}

}  // namespace

TensorHandle gather_async(Runtime& hora, const torch::Tensor& tensor, int root,
                          const OperationOptions& options) {
  const torch::Tensor input = with_rows(tensor, label("gather", options.name));
  std::shared_ptr<torch::Tensor> output;
  auto handle = submit_named(hora, "gather", options.name, options.process_set, [&](const std::string& name) {
    Entry entry = lend(input, {}, Operation::gather, name, options.process_set);
    entry.root = root;
    output = allocate_output(entry, input);
    return entry;
  });
  return {{std::move(handle)},
          [output, is_root = hora.rank() == root](const std::vector<Result>& /*results*/) {
            return is_root ? used_here(*output) : torch::Tensor();
          },
          lies_on(input)};
}

torch::Tensor gather(Runtime& hora, const torch::Tensor& tensor, int root, const OperationOptions& options) {
  const BlockingScope blocking;
  return gather_async(hora, tensor, root, options).wait();
}

TensorHandle scatter_async(Runtime& hora, const torch::Tensor& tensor, int root,
                           const std::vector<std::int64_t>& splits, const OperationOptions& options) {
  const torch::Tensor input = with_rows(tensor, label("scatter", options.name));
  std::shared_ptr<torch::Tensor> output;
  auto handle =
      submit_named(hora, "scatter", options.name, options.process_set, [&](const std::string& name) {
        Entry entry = lend(input, {}, Operation::scatter, name, options.process_set);
        entry.root = root;
        entry.splits = splits;
        output = allocate_output(entry, input);
        return entry;
      });
  return {{std::move(handle)},
          [output](const std::vector<Result>& /*results*/) { return used_here(*output); },
          lies_on(input)};
}

torch::Tensor scatter(Runtime& hora, const torch::Tensor& tensor, int root,
                      const std::vector<std::int64_t>& splits, const OperationOptions& options) {
  const BlockingScope blocking;
  return scatter_async(hora, tensor, root, splits, options).wait();
}

TensorHandle reduce_async(Runtime& hora, const torch::Tensor& tensor, int root,
                          const ReduceOptions& options) {
  const torch::Tensor input = lendable(tensor, label("reduce", options.name));
  const torch::Tensor output = hora.rank() == root ? torch::empty_like(input) : torch::Tensor();
  auto handle = submit_named(hora, "reduce", options.name, options.process_set, [&](const std::string& name) {
    Entry entry = lend(input, output, Operation::reduce, name, options.process_set);
    entry.root = root;
    set_reduction(entry, options);
    return entry;
  });
  return {{std::move(handle)},
          [output](const std::vector<Result>& /*results*/) { return used_here(output); },
          lies_on(input)};
}

torch::Tensor reduce(Runtime& hora, const torch::Tensor& tensor, int root, const ReduceOptions& options) {
  const BlockingScope blocking;
  return reduce_async(hora, tensor, root, options).wait();
}

TensorHandle scan_async(Runtime& hora, const torch::Tensor& tensor, ReduceOp op,
                        const OperationOptions& options) {
  const torch::Tensor input = lendable(tensor, label("scan", options.name));
  const torch::Tensor output = torch::empty_like(input);
  auto handle = submit_named(hora, "scan", options.name, options.process_set, [&](const std::string& name) {
    Entry entry = lend(input, output, Operation::scan, name, options.process_set);
    entry.op = op;
    return entry;
  });
  return {{std::move(handle)},
          [output](const std::vector<Result>& /*results*/) { return used_here(output); },
          lies_on(input)};
}

torch::Tensor scan(Runtime& hora, const torch::Tensor& tensor, ReduceOp op, const OperationOptions& options) {
  const BlockingScope blocking;
  return scan_async(hora, tensor, op, options).wait();
}

}  // namespace hora
