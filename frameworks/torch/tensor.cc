// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/tensor.h"

#include <fmt/format.h>

namespace hora {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(Code::invalid_argument, fmt::format("'{}': {}", name, why));
}

}  // namespace

DType dtype_of(const torch::Tensor& tensor, const std::string& name) {
  switch (tensor.scalar_type()) {
    case torch::kUInt8: return DType::uint8;
    case torch::kInt8: return DType::int8;
    case torch::kInt16: return DType::int16;
    case torch::kInt32: return DType::int32;
    case torch::kInt64: return DType::int64;
    case torch::kFloat16: return DType::float16;
    case torch::kBFloat16: return DType::bfloat16;
    case torch::kFloat32: return DType::float32;
    case torch::kFloat64: return DType::float64;
    case torch::kBool: return DType::boolean;
    default:
      refuse(name, fmt::format(
                       "elements of type {} cannot be sent; convert the tensor to float32, float64, float16, "
                       "bfloat16, bool or an integer type",
                       torch::toString(tensor.scalar_type())));
  }
}

DType wire_of(Compression compression) {
  if (compression == Compression::fp16) return DType::float16;
  return compression == Compression::bf16 ? DType::bfloat16 : DType::float32;
}

void check_lendable(const torch::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) refuse(name, "the tensor is undefined");
  if (tensor.layout() != torch::kStrided)
    refuse(name, "sparse tensors cannot be sent; make it dense with .to_dense()");
  if (!tensor.device().is_cpu()) {
    refuse(name, fmt::format("the tensor is on {}; this version takes tensors on the CPU: use .cpu()",
                             tensor.device().str()));
  }
  static_cast<void>(dtype_of(tensor, name));
}

Entry lend(const torch::Tensor& tensor, const torch::Tensor& output, Operation operation,
           const std::string& name) {
  check_lendable(tensor, name);
  if (!tensor.is_contiguous()) refuse(name, "the tensor is not contiguous; use .contiguous()");
  if (tensor.is_neg()) refuse(name, "the tensor is a negative view; use .resolve_neg()");
  Entry entry;
  entry.operation = operation;
  entry.name = name;
  entry.dtype = dtype_of(tensor, name);
  entry.shape = tensor.sizes().vec();
  entry.input = tensor.data_ptr();
  entry.output = output.defined() ? output.data_ptr() : nullptr;
  entry.done = [tensor, output](const Result& /*result*/) {};  // holds both until then
  return entry;
}

std::string name_or_number(Runtime& hora, const char* operation, const std::string& name) {
  return name.empty() ? fmt::format("{}.noname.{}", operation, hora.next_number())
                      : fmt::format("{}.{}", operation, name);
}

}  // namespace hora
