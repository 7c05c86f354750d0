// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/tensor.h"

namespace hora {
namespace {

TensorHandle submit(Runtime& hora, Entry entry, const torch::Tensor& output) {
  return {hora.submit(std::move(entry)), std::make_shared<torch::Tensor>(output)};
}

TensorHandle reduce_into(Runtime& hora, const torch::Tensor& tensor, const torch::Tensor& output,
                         const AllreduceOptions& options) {
  Entry entry = lend(tensor, output, Operation::allreduce, name_or_number(hora, "allreduce", options.name));
  entry.op = options.op;
  entry.prescale = options.prescale;
  entry.postscale = options.postscale;
  entry.wire = wire_of(options.compression);
  return submit(hora, std::move(entry), output);
}

TensorHandle broadcast_into(Runtime& hora, const torch::Tensor& tensor, const torch::Tensor& output, int root,
                            const std::string& name) {
  Entry entry = lend(tensor, output, Operation::broadcast, name_or_number(hora, "broadcast", name));
  entry.root = root;
  return submit(hora, std::move(entry), output);
}

}  // namespace

torch::Tensor TensorHandle::wait() const {
  handle_.wait();
  return *output_;
}

TensorHandle allreduce_async(Runtime& hora, const torch::Tensor& tensor, const AllreduceOptions& options) {
  check_lendable(tensor, options.name);
  return reduce_into(hora, tensor, torch::empty_like(tensor.detach()), options);
}

TensorHandle allreduce_async_(Runtime& hora, torch::Tensor& tensor, const AllreduceOptions& options) {
  return reduce_into(hora, tensor, tensor, options);
}

torch::Tensor allreduce(Runtime& hora, const torch::Tensor& tensor, const AllreduceOptions& options) {
  return allreduce_async(hora, tensor, options).wait();
}

torch::Tensor& allreduce_(Runtime& hora, torch::Tensor& tensor, const AllreduceOptions& options) {
  static_cast<void>(allreduce_async_(hora, tensor, options).wait());
  return tensor;
}

torch::Tensor broadcast(Runtime& hora, const torch::Tensor& tensor, int root, const std::string& name) {
  check_lendable(tensor, name);
  return broadcast_into(hora, tensor, torch::empty_like(tensor.detach()), root, name).wait();
}

TensorHandle broadcast_async_(Runtime& hora, torch::Tensor& tensor, int root, const std::string& name) {
  return broadcast_into(hora, tensor, tensor, root, name);
}

torch::Tensor& broadcast_(Runtime& hora, torch::Tensor& tensor, int root, const std::string& name) {
  static_cast<void>(broadcast_async_(hora, tensor, root, name).wait());
  return tensor;
}

TensorHandle allgather_async(Runtime& hora, const torch::Tensor& tensor, const std::string& name) {
  Entry entry = lend(tensor, {}, Operation::allgather, name_or_number(hora, "allgather", name));
  auto output = std::make_shared<torch::Tensor>();
  entry.allocate = [output, options = tensor.detach().options()](const std::vector<std::int64_t>& shape) {
    *output = torch::empty(shape, options);
    return output->data_ptr();
  };
  return {hora.submit(std::move(entry)), std::move(output)};
}

torch::Tensor allgather(Runtime& hora, const torch::Tensor& tensor, const std::string& name) {
  return allgather_async(hora, tensor, name).wait();
}

void barrier(Runtime& hora) {
  Entry entry;
  entry.operation = Operation::barrier;
  entry.name = name_or_number(hora, "barrier", "");
  hora.submit(std::move(entry)).wait();
}

}  // namespace hora
