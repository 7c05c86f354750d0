// SPDX-License-Identifier: Apache-2.0
// The functions that XLA calls. python/hora/jax/_library.py registers them.
#include "frameworks/jax/completions.h"
#include "frameworks/jax/operation.h"

#include <hora/c.h>

#include <xla/ffi/api/ffi.h>

#include <chrono>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace {

namespace ffi = ::xla::ffi;
using hora::jax::Completions;
using hora::jax::Operation;
using hora::jax::Outcome;

constexpr std::chrono::milliseconds kPatience{1};  // short operations of ranks that are ready end within it

ffi::Error error_of(const Outcome& outcome) {
  return outcome.code == HORA_OK ? ffi::Error::Success() : hora::jax::error_of(outcome.code, outcome.message);
}

void end(ffi::Promise& promise, const ffi::Error& error) {
  if (error.success()) {
    promise.SetAvailable();
  } else {
    promise.SetError(error);
  }
}

ffi::Future ended(const ffi::Error& error) {
  ffi::Promise promise;
  end(promise, error);
  return ffi::Future(promise);
}

/// Whether the operations have ended within a moment, however many they are.
bool end_soon(const std::vector<hora_handle*>& handles) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (hora_handle* handle : handles) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const int milliseconds = left > left.zero() ? static_cast<int>(kPatience.count()) : 0;
    if (hora_wait_for(handle, milliseconds) == HORA_TIMEOUT && hora_poll(handle) == 0) return false;
  }
  return true;
}

ffi::ErrorOr<std::unique_ptr<Operation>> instantiate(ffi::Dictionary attributes) {
  return Operation::make(attributes);
}

ffi::Future execute_on_host(Operation* operation, ffi::Dictionary, ffi::RemainingArgs inputs,
                            ffi::RemainingRets outputs) {
  try {
    auto& completions = Completions::of_process();  // may throw, and nothing is under way yet
    auto started = operation->submit(inputs, outputs, {});
    if (!started.has_value()) return ended(started.error());
    if (completions.waiting() == 0 && end_soon(*started)) return ended(error_of(hora::jax::finish(*started)));
    ffi::Promise promise;
    ffi::Future future(promise);
    completions.watch(*std::move(started),
                      [promise](const Outcome& outcome) mutable { end(promise, error_of(outcome)); });
    return future;
  } catch (const std::exception& failure) {
    return ended(ffi::Error::Internal(failure.what()));
  }
}

ffi::Error execute_on_gpu(Operation* operation, ffi::Dictionary, void* stream, std::int32_t device,
                          ffi::RemainingArgs inputs, ffi::RemainingRets outputs) {
  try {
    auto& completions = Completions::of_process();
    const auto started = operation->submit(inputs, outputs, {HORA_CUDA, device, stream});
    if (!started.has_value()) return started.error();
    ffi::Error error;
    for (hora_handle* handle : *started) {
      const int code = hora_wait_on(handle, stream);
      if (code != HORA_OK && error.success()) error = hora::jax::error_of(code, hora_last_error());
    }
    completions.watch(*started, [](const Outcome&) {});  // gives them back when the GPU is done
    return error;
  } catch (const std::exception& failure) {
    return ffi::Error::Internal(failure.what());
  }
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(hora_jax_instantiate, instantiate, ffi::Ffi::BindInstantiate().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    hora_jax_execute_on_host, execute_on_host,
    ffi::Ffi::Bind().Ctx<ffi::State<Operation>>().Attrs().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(hora_jax_execute_on_gpu, execute_on_gpu,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<Operation>>()
                                  .Attrs()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .RemainingArgs()
                                  .RemainingRets());

/// The type of an Operation, which hora.jax registers.
extern "C" void* hora_jax_operation_id() { return &Operation::id; }
extern "C" void* hora_jax_operation_info() { return &Operation::info; }
