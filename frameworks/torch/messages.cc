// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/tensor.h"

namespace hora {
namespace {

Message message(int peer, int tag, int process_set) {
  Message message;
  message.peer = peer;
  message.tag = tag;
  message.process_set = process_set;
  return message;
}

/// A message with the dtype and shape of a contiguous tensor, which is kept alive.
Message lend(const torch::Tensor& memory, int peer, int tag, int process_set) {
  Message lent = message(peer, tag, process_set);
  lent.dtype = dtype_of(memory, "message");
  lent.shape = memory.sizes().vec();
  lent.done = [memory](const Result& /*result*/) {};  // holds it until then
  return lent;
}

/// The elements in the host's memory, in which messages travel: a copy of a GPU's, made when that has come so
/// far.
torch::Tensor on_host(const torch::Tensor& memory) { return memory.cpu(); }

Pending<Received> receiving(Handle handle, std::function<torch::Tensor()> tensor) {
  return {{std::move(handle)}, [tensor = std::move(tensor)](const std::vector<Result>& results) {
            return Received{tensor(), results.front().source, results.front().tag};
          }};
}

}  // namespace

Handle isend(Runtime& hora, const torch::Tensor& tensor, int dest, int tag, int process_set) {
  const torch::Tensor memory = on_host(lendable(tensor, "send"));
  Message message = lend(memory, dest, tag, process_set);
  message.input = memory.data_ptr();
  return hora.send(std::move(message));
}

void send(Runtime& hora, const torch::Tensor& tensor, int dest, int tag, int process_set) {
  isend(hora, tensor, dest, tag, process_set).wait();
}

Pending<Received> irecv(Runtime& hora, int source, int tag, int process_set) {
  const auto output = std::make_shared<torch::Tensor>();
  Message wanted = message(source, tag, process_set);
  wanted.allocate = [output](DType dtype, const std::vector<std::int64_t>& shape) {
    *output = torch::empty(shape, scalar_type_of(dtype));
    return output->data_ptr();
  };
  return receiving(hora.receive(std::move(wanted)), [output] { return *output; });
}

Received recv(Runtime& hora, int source, int tag, int process_set) {
  return irecv(hora, source, tag, process_set).wait();
}

Pending<Received> irecv_(Runtime& hora, const torch::Tensor& tensor, int source, int tag, int process_set) {
  const torch::Tensor memory = on_host(lendable_in_place(tensor, "recv_"));
  Message wanted = lend(memory, source, tag, process_set);
  wanted.output = memory.data_ptr();
  return receiving(hora.receive(std::move(wanted)), [tensor, memory] { return write_back(tensor, memory); });
}

Received recv_(Runtime& hora, const torch::Tensor& tensor, int source, int tag, int process_set) {
  return irecv_(hora, tensor, source, tag, process_set).wait();
}

}  // namespace hora
