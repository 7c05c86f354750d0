// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/admission.h"

#include <fmt/format.h>

#include <cmath>

namespace hora {
namespace {

class Admission {
 public:
  Admission(const Entry& entry, int size) : entry_(entry), size_(size) {}

  Request request() const {
    name();
    shape();
    switch (entry_.operation) {
      case Operation::allreduce: allreduce(); break;
      case Operation::broadcast: broadcast(); break;
      case Operation::allgather: allgather(); break;
      case Operation::barrier: break;
    }
    const bool reduces = entry_.operation == Operation::allreduce;
    return {entry_.operation,
            entry_.name,
            entry_.dtype,
            wire(),
            entry_.shape,
            reduces ? entry_.op : ReduceOp::sum,
            reduces ? entry_.prescale : 1.0,
            reduces ? entry_.postscale : 1.0,
            entry_.operation == Operation::broadcast ? entry_.root : 0,
            reduces && entry_.absent};
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Code::invalid_argument, fmt::format("'{}': {}", entry_.name, why));
  }

  void name() const {
    if (entry_.name.empty())
      throw Error(Code::invalid_argument, "a tensor needs a name, the same on all ranks");
    if (entry_.name.size() > kMostNameBytes) {
      throw Error(Code::invalid_argument,
                  fmt::format("'{}...': a name has at most {} bytes, not {}", entry_.name.substr(0, 64),
                              kMostNameBytes, entry_.name.size()));
    }
  }

  void shape() const {
    if (entry_.shape.size() > kMostDimensions) {
      refuse(fmt::format("a tensor has at most {} dimensions, not {}", kMostDimensions, entry_.shape.size()));
    }
    try {
      static_cast<void>(elements(entry_.shape, entry_.dtype));
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  [[nodiscard]] bool empty() const { return elements(entry_.shape, entry_.dtype) == 0; }

  void memory(const void* data, const char* which) const {
    if (data == nullptr && !empty()) refuse(fmt::format("its {} is a null pointer", which));
  }

  void allreduce() const {
    if (!entry_.absent) memory(entry_.input, "input");
    memory(entry_.output, "output");
    if (entry_.dtype == DType::boolean && entry_.op == ReduceOp::average) {
      refuse("bool has no average; use sum (or), product (and), min or max");
    }
    if (entry_.dtype == DType::boolean && (entry_.prescale != 1.0 || entry_.postscale != 1.0)) {
      refuse("bool cannot be scaled; leave prescale and postscale at 1");
    }
    if (!std::isfinite(entry_.prescale) || !std::isfinite(entry_.postscale)) {
      refuse(fmt::format("prescale {} and postscale {} must be finite", entry_.prescale, entry_.postscale));
    }
    if (entry_.wire != DType::float32 && entry_.wire != DType::float16 && entry_.wire != DType::bfloat16) {
      refuse(fmt::format("elements can travel as float16 or bfloat16, not as {}", hora::name(entry_.wire)));
    }
  }

  void broadcast() const {
    if (entry_.root < 0 || entry_.root >= size_) {
      refuse(fmt::format("there is no root rank {}: ranks are 0 to {}", entry_.root, size_ - 1));
    }
    memory(entry_.input, "input");
    memory(entry_.output, "output");
  }

  void allgather() const {
    if (entry_.shape.empty())
      refuse("a scalar has no first dimension to gather along; make it a tensor of 1 element");
    if (!entry_.allocate) refuse("an allgather needs `allocate`, which makes the output");
    memory(entry_.input, "input");
  }

  /// Only wide floats are narrowed; everything else travels as it is.
  [[nodiscard]] DType wire() const {
    const bool wide = entry_.dtype == DType::float32 || entry_.dtype == DType::float64;
    const bool narrow = entry_.wire == DType::float16 || entry_.wire == DType::bfloat16;
    return entry_.operation == Operation::allreduce && wide && narrow ? entry_.wire : entry_.dtype;
  }

  const Entry& entry_;
  int size_;
};

}  // namespace

Request admit(const Entry& entry, int size) { return Admission(entry, size).request(); }

}  // namespace hora
