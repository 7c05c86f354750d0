// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/c.h>

#include <xla/ffi/api/ffi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hora::jax {

/// Where the tensors of one execution lie. `stream` is a cudaStream_t, and null on the CPU.
struct Place {
  hora_device device = HORA_HOST;
  int index = 0;
  void* stream = nullptr;
};

/// An operation on one tensor or more, as a compiled program describes it. XLA owns it, and executes it many
/// times. Immutable.
class Operation {
 public:
  /// Reads the attributes that hora/jax/_call.py writes. Says in the Error which one is missing.
  static ::xla::ffi::ErrorOr<std::unique_ptr<Operation>> make(::xla::ffi::Dictionary attributes);

  /// Starts it. There is one handle for each tensor, in the order of the tensors.
  ::xla::ffi::ErrorOr<std::vector<hora_handle*>> submit(::xla::ffi::RemainingArgs inputs,
                                                        ::xla::ffi::RemainingRets outputs,
                                                        const Place& place) const;

  static ::xla::ffi::TypeId id;      ///< XLA sets it when hora.jax registers the type.
  static ::xla::ffi::TypeInfo info;  ///< How XLA deletes an Operation.

 private:
  Operation() = default;

  hora_entry common_{};  // but names, memory and shapes
  std::vector<std::string> names_;
  std::vector<std::int64_t> splits_;
  int ranks_ = 0;  // of the job that the program depends on; 0: it does not
  int rank_ = 0;   // of this process in that job
};

/// XLA's error for a code of Hora that is not HORA_OK.
::xla::ffi::Error error_of(int code, std::string message);

}  // namespace hora::jax
