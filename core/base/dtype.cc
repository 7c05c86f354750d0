// SPDX-License-Identifier: Apache-2.0
#include <hora/dtype.h>
#include <hora/hora.h>

#include <array>

namespace hora {
namespace {

struct DTypeFacts {
  std::string_view name;
  std::size_t size;
};

constexpr std::array<DTypeFacts, kDTypes> kFacts{{
    {"uint8", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"bool", 1},
}};

constexpr std::array<std::string_view, kReduceOps> kReduceOpNames{"average", "sum",     "min",
                                                                  "max",     "product", "adasum"};
constexpr std::array<std::string_view, kOperations> kOperationNames{
    "allreduce",       "broadcast",          "allgather", "barrier", "alltoall", "reducescatter", "join",
    "add_process_set", "remove_process_set", "gather",    "scatter", "reduce",   "scan"};

}  // namespace

std::size_t size_of(DType dtype) { return kFacts.at(static_cast<std::size_t>(dtype)).size; }

std::string_view name(DType dtype) { return kFacts.at(static_cast<std::size_t>(dtype)).name; }

std::string_view name(ReduceOp op) { return kReduceOpNames.at(static_cast<std::size_t>(op)); }

std::string_view name(Operation operation) { return kOperationNames.at(static_cast<std::size_t>(operation)); }

bool sizes_its_output(Operation operation) {
  return operation == Operation::allgather || operation == Operation::alltoall ||
         operation == Operation::gather || operation == Operation::scatter;
}

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (kFacts[static_cast<std::size_t>(i)].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace hora
