// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/tensor.h"

namespace hora {
namespace {

Message message(int peer, int tag) {
  Message message;
  message.peer = peer;
  message.tag = tag;
  return message;
}

/// A message with the dtype and shape of a contiguous tensor, which is kept alive.
Message lend(const torch::Tensor& memory, int peer, int tag) {
  Message lent = message(peer, tag);
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

Handle isend(Runtime& hora, const torch::Tensor& tensor, int dest, int tag) {
  const torch::Tensor memory = on_host(lendable(tensor, "send"));
  Message message = lend(memory, dest, tag);
  message.input = memory.data_ptr();
  return hora.send(std::move(message));
}

void send(Runtime& hora, const torch::Tensor& tensor, int dest, int tag) {
  isend(hora, tensor, dest, tag).wait();
}

Pending<Received> irecv(Runtime& hora, int source, int tag) {
  const auto output = std::make_shared<torch::Tensor>();
  Message wanted = message(source, tag);
  wanted.allocate = [output](DType dtype, const std::vector<std::int64_t>& shape) {
    *output = torch::empty(shape, scalar_type_of(dtype));
    return output->data_ptr();
  };
  return receiving(hora.receive(std::move(wanted)), [output] { return *output; });
}

Received recv(Runtime& hora, int source, int tag) { return irecv(hora, source, tag).wait(); }

Pending<Received> irecv_(Runtime& hora, const torch::Tensor& tensor, int source, int tag) {
  const torch::Tensor memory = on_host(lendable_in_place(tensor, "recv_"));
  Message wanted = lend(memory, source, tag);
  wanted.output = memory.data_ptr();
  return receiving(hora.receive(std::move(wanted)), [tensor, memory] { return write_back(tensor, memory); });
}

Received recv_(Runtime& hora, const torch::Tensor& tensor, int source, int tag) {
  return irecv_(hora, tensor, source, tag).wait();
}

}  // namespace hora
