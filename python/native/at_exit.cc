// SPDX-License-Identifier: Apache-2.0
#include "python/native/at_exit.h"

#include <hora/hora.h>

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

namespace py = pybind11;

namespace hora {
namespace {

constexpr int kStatusBits = 0xff;  // of what exit() gets, those that others see

/// A Runtime that is to leave, and why.
struct Leaver {
  Runtime* runtime;
  std::map<int, std::string> reasons;
  pid_t owner = ::getpid();
};

std::string reason_for(const Leaver& leaver, int status) {
  if (status == 0) return {};
  const auto known = leaver.reasons.find(status);
  return known == leaver.reasons.end() ? "it exited with code " + std::to_string(status) : known->second;
}

/// There is no interpreter any more, and no thread that could run Python.
void leave(int status, void* argument) {
  const std::unique_ptr<Leaver> leaver(static_cast<Leaver*>(argument));
  if (::getpid() != leaver->owner) return;
  try {
    leaver->runtime->shutdown(reason_for(*leaver, status & kStatusBits));
    const Runtime ended(std::move(*leaver->runtime));  // leaves the job
  } catch (const std::exception&) {
    return;  // the other ranks hear of the end of this process
  }
}

}  // namespace

bool shutdown_at_exit(const py::object& runtime, std::map<int, std::string> reasons, const py::object& kept) {
  auto leaver = std::make_unique<Leaver>(Leaver{&runtime.cast<Runtime&>(), std::move(reasons)});
  if (::on_exit(leave, leaver.get()) != 0) return false;
  static_cast<void>(leaver.release());
  runtime.inc_ref();
  kept.inc_ref();
  return true;
}

}  // namespace hora
