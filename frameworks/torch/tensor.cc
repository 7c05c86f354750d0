// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/tensor.h"

#include "frameworks/torch/text.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace hora {
namespace {

/// LibTorch's type of this name; Undefined if this version has none.
torch::ScalarType scalar_type_named(std::string_view name) {
  for (int number = 0; number < static_cast<int>(torch::ScalarType::NumOptions); ++number) {
    if (torch::toString(static_cast<torch::ScalarType>(number)) == name)
      return static_cast<torch::ScalarType>(number);
  }
  return torch::ScalarType::Undefined;
}

/// LibTorch's type for each DType, in the order of their numbers.
const std::array<torch::ScalarType, kDTypes>& scalar_types() {
  static const std::array<torch::ScalarType, kDTypes> kTypes{
      torch::kUInt8,           torch::kInt8,
      torch::kInt16,           torch::kInt32,
      torch::kInt64,           torch::kFloat16,
      torch::kBFloat16,        torch::kFloat32,
      torch::kFloat64,         torch::kBool,
      torch::kUInt16,          torch::kUInt32,
      torch::kUInt64,          torch::kComplexFloat,
      torch::kComplexDouble,   torch::kFloat8_e4m3fn,
      torch::kFloat8_e4m3fnuz, torch::kFloat8_e5m2,
      torch::kFloat8_e5m2fnuz, scalar_type_named("Float8_e8m0fnu")};  // new in LibTorch 2.7
  return kTypes;
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(Code::invalid_argument, text_of("'{}': {}", name, why));
}

}  // namespace

std::vector<Result> wait_for_all(const std::vector<Handle>& operations, Device device) {
  void* const stream = current_stream(device);
  std::vector<Result> results;
  std::optional<Error> first;
  for (const auto& operation : operations) {
    try {
      results.push_back(device.kind == DeviceKind::host ? operation.wait() : operation.wait_on(stream));
    } catch (const Error& error) {
      if (!first) first = error;
    }
  }
  if (first) throw Error(*first);
  return results;
}

DType dtype_of(const torch::Tensor& tensor, const std::string& name) {
  const auto& types = scalar_types();
  const auto found = std::find(types.begin(), types.end(), tensor.scalar_type());
  if (found != types.end()) return static_cast<DType>(found - types.begin());
  refuse(name, text_of("elements of type {} cannot be sent; convert the tensor to a type that Hora has "
                       "(hora/dtype.h), such as float32, bool or an integer type",
                       torch::toString(tensor.scalar_type())));
}

torch::ScalarType scalar_type_of(DType dtype) { return scalar_types().at(static_cast<std::size_t>(dtype)); }

DType wire_of(Compression compression) {
  switch (compression) {
    case Compression::none: return DType::float32;
    case Compression::fp16: return DType::float16;
    case Compression::bf16: return DType::bfloat16;
    case Compression::mxfp8_e4m3: return DType::float8_e4m3fn;
    case Compression::mxfp8_e5m2: return DType::float8_e5m2;
  }
  return DType::float32;
}

void set_reduction(Entry& entry, const ReduceOptions& options) {
  entry.op = options.op;
  entry.prescale = options.prescale;
  entry.postscale = options.postscale;
  entry.wire = wire_of(options.compression);
}

std::shared_ptr<torch::Tensor> allocate_output(Entry& entry, const torch::Tensor& like) {
  auto output = std::make_shared<torch::Tensor>();
  entry.allocate = [output, make = maker_like(like)](const std::vector<std::int64_t>& shape) {
    *output = make(shape);
    return output->data_ptr();
  };
  return output;
}

void check_lendable(const torch::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) refuse(name, "the tensor is undefined");
  if (tensor.layout() != torch::kStrided)
    refuse(name, "sparse tensors cannot be sent; make it dense with .to_dense()");
  if (tensor.is_meta())
    refuse(name, "the tensor is on meta, so it has no elements; give one on the CPU or on a GPU");
  if (!tensor.is_cpu() && !tensor.is_cuda()) {
    refuse(name, text_of("the tensor is on {}; Hora reaches the CPU and NVIDIA's GPUs (cuda): use .cpu()",
                         tensor.device().str()));
  }
  static_cast<void>(dtype_of(tensor, name));
}

void check_rows(const torch::Tensor& tensor, const std::string& name) {
  if (tensor.dim() == 0) refuse(name, "a scalar has no first dimension; use .unsqueeze(0)");
}

void check_group(torch::TensorList tensors, const std::string& name) {
  if (tensors.empty()) refuse(name, "there are no tensors; a group has one at least");
}

torch::Tensor lendable(const torch::Tensor& tensor, const std::string& name) {
  check_lendable(tensor, name);
  return tensor.detach().contiguous().resolve_neg().resolve_conj();
}

torch::Tensor lendable_in_place(const torch::Tensor& tensor, const std::string& name) {
  check_lendable(tensor, name);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    refuse(name,
           "several elements of the tensor are one in memory, so it cannot be written to; use .contiguous()");
  }
  return tensor.detach().contiguous().resolve_neg().resolve_conj();
}

torch::Tensor write_back(torch::Tensor tensor, const torch::Tensor& memory) {
  const torch::NoGradGuard no_grad;
  if (tensor.layout() != torch::kStrided || !tensor.is_alias_of(memory)) tensor.copy_(used_here(memory));
  return tensor;
}

Entry lend(const torch::Tensor& tensor, const torch::Tensor& output, Operation operation,
           const std::string& name, int process_set) {
  Entry entry;
  entry.operation = operation;
  entry.name = name;
  entry.process_set = process_set;
  entry.dtype = dtype_of(tensor, name);
  entry.shape = tensor.sizes().vec();
  entry.device = lies_on(tensor);
  entry.stream = current_stream(entry.device);
  entry.input = tensor.data_ptr();
  entry.output = output.defined() ? output.data_ptr() : nullptr;
  entry.done = [tensor, output](const Result& /*result*/) {};  // holds both until then
  return entry;
}

std::string label(const char* operation, const std::string& name) {
  return name.empty() ? operation : std::string(operation) + "." + name;
}

std::string member_name(const std::string& group, std::size_t index, std::size_t count) {
  return group + "_" + std::to_string(index + 1) + "of" + std::to_string(count);
}

PlaceInSet place_in_set(Runtime& hora, int process_set, const std::string& name) {
  const auto sets = hora.process_sets();
  const auto set = sets.find(process_set);
  if (set == sets.end())
    refuse(name, text_of("process set {} does not exist, or has not been registered", process_set));
  const auto& ranks = set->second.ranks;
  const auto own = std::find(ranks.begin(), ranks.end(), hora.rank());
  if (own == ranks.end())
    refuse(name, text_of("rank {} is not a member of process set {}", hora.rank(), process_set));
  return {static_cast<std::size_t>(own - ranks.begin()), static_cast<int>(ranks.size())};
}

}  // namespace hora
