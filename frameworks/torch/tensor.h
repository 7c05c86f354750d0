// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/devices.h"

#include <hora/torch.h>

namespace hora {

/// Lends a contiguous tensor: an entry with its dtype, shape and memory, whose completion keeps both tensors
/// alive. `output` may be the tensor itself, or undefined.
Entry lend(const torch::Tensor& tensor, const torch::Tensor& output, Operation operation,
           const std::string& name, int process_set);

/// The elements side by side, as `lend` takes them: in the tensor's own memory if they lie so. Throws
/// Error(invalid_argument) that names it for what Hora cannot take.
torch::Tensor lendable(const torch::Tensor& tensor, const std::string& name);
/// The same, for a tensor that `write_back` will give new values.
torch::Tensor lendable_in_place(const torch::Tensor& tensor, const std::string& name);
/// Gives the tensor the values of what `lendable_in_place` made of it.
torch::Tensor write_back(torch::Tensor tensor, const torch::Tensor& memory);

/// Lets the runtime make the output of an allgather or alltoall, of the kind of `like`; it is there when the
/// entry is done.
std::shared_ptr<torch::Tensor> allocate_output(Entry& entry, const torch::Tensor& like);

/// Throws as `lendable` does, for a tensor of which only the kind matters.
void check_lendable(const torch::Tensor& tensor, const std::string& name);
/// Throws unless the tensor has a first dimension.
void check_rows(const torch::Tensor& tensor, const std::string& name);
/// Throws unless there is a tensor.
void check_group(torch::TensorList tensors, const std::string& name);

[[nodiscard]] DType dtype_of(const torch::Tensor& tensor, const std::string& name);
[[nodiscard]] torch::ScalarType scalar_type_of(DType dtype);
[[nodiscard]] DType wire_of(Compression compression);
/// Makes an entry reduce as the options say.
void set_reduction(Entry& entry, const ReduceOptions& options);

/// The name of an operation in messages, before it has a number: "allreduce.x", or "allreduce".
[[nodiscard]] std::string label(const char* operation, const std::string& name);
/// Submits what `make` makes of the operation's full name, an Entry or several: "allreduce.x", or
/// "allreduce.noname.1", "allreduce.noname.2", ... for operations without a name: the same on all ranks that
/// issue them in the same order. One that is refused gives its number back.
template <typename Make>
auto submit_named(Runtime& hora, const char* operation, const std::string& name, int process_set, Make make) {
  if (!name.empty()) return hora.submit(make(label(operation, name)));
  const std::uint64_t number = hora.next_number(process_set);
  try {
    return hora.submit(make(label(operation, "noname." + std::to_string(number))));
  } catch (const Error& error) {
    if (error.code() == Code::invalid_argument || error.code() == Code::unavailable)
      hora.return_number(number, process_set);
    throw;
  }
}
/// The name of one of `count` tensors that go together.
[[nodiscard]] std::string member_name(const std::string& group, std::size_t index, std::size_t count);

/// This rank's place in a process set, and how many ranks that has.
struct PlaceInSet {
  std::size_t place;
  int size;
};
/// Throws Error(invalid_argument) that names the tensor if this rank is not in it.
[[nodiscard]] PlaceInSet place_in_set(Runtime& hora, int process_set, const std::string& name);

}  // namespace hora
