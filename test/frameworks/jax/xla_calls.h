// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xla/ffi/api/c_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace hora::jax {

/// A tensor of a compiled program. The memory is the caller's.
struct XlaTensor {
  XLA_FFI_DataType dtype = XLA_FFI_DataType_F32;
  void* data = nullptr;
  std::vector<std::int64_t> shape;
};

using XlaAttribute = std::variant<std::int32_t, double, std::string, std::vector<std::int64_t>>;
using XlaAttributes = std::map<std::string, XlaAttribute>;

/// How a call of XLA's has ended. A value.
struct XlaStatus {
  XLA_FFI_Error_Code code = XLA_FFI_Error_Code_OK;
  std::string message;

  [[nodiscard]] bool ok() const { return code == XLA_FFI_Error_Code_OK; }
};

/// The answer of a handler when it is registered.
struct XlaHandlerTraits {
  int major = -1;
  int minor = -1;
  std::int64_t state_type = 0;
};
XlaHandlerTraits traits_of(XLA_FFI_Handler* handler);

/// One execution of a custom call. Keeps everything that the handler was given until its future is fulfilled.
class XlaExecution {
 public:
  struct Frame;

  explicit XlaExecution(std::unique_ptr<Frame> frame);
  /// Waits for the future.
  ~XlaExecution();
  XlaExecution(XlaExecution&&) noexcept;
  XlaExecution& operator=(XlaExecution&&) = delete;

  [[nodiscard]] bool has_ended() const;
  /// For 20 seconds at most; it is a failure of the test if that is not enough.
  [[nodiscard]] XlaStatus wait() const;
  /// The thread that has fulfilled the future; none for a handler that has no future, or an error at once.
  [[nodiscard]] std::thread::id ended_by() const;

 private:
  std::unique_ptr<Frame> frame_;
};

/// A custom call of a compiled program, as XLA makes and executes it by the functions of libhora_jax: an
/// imitation of XLA, with its part of the foreign function interface. Immutable once it is compiled.
class XlaCustomCall {
 public:
  explicit XlaCustomCall(XlaAttributes attributes);
  ~XlaCustomCall();
  XlaCustomCall(const XlaCustomCall&) = delete;
  XlaCustomCall& operator=(const XlaCustomCall&) = delete;

  /// How instantiating it has ended; executing it needs success.
  [[nodiscard]] const XlaStatus& compiled() const { return compiled_; }
  [[nodiscard]] XlaExecution execute_on_host(const std::vector<XlaTensor>& inputs,
                                             const std::vector<XlaTensor>& outputs) const;
  [[nodiscard]] XlaExecution execute_on_gpu(const std::vector<XlaTensor>& inputs,
                                            const std::vector<XlaTensor>& outputs, void* stream,
                                            int device) const;

 private:
  [[nodiscard]] std::unique_ptr<XlaExecution::Frame> make_frame(XLA_FFI_ExecutionStage stage) const;
  static XlaExecution execute(XLA_FFI_Handler* handler, std::unique_ptr<XlaExecution::Frame> frame,
                              const std::vector<XlaTensor>& inputs, const std::vector<XlaTensor>& outputs);

  XlaAttributes attributes_;
  XlaStatus compiled_;
  void* state_ = nullptr;
};

/// A name that no program of this process has had.
std::string new_program();
/// The attributes of a sum of the tensors that have these names, one a line.
XlaAttributes sum_of(const std::string& program, const std::string& names);

}  // namespace hora::jax
