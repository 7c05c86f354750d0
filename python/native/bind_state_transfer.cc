// SPDX-License-Identifier: Apache-2.0
#include "python/native/bind_state_transfer.h"

#include "frameworks/state/state_transfer.h"
#include "python/native/without_lock.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace py = pybind11;

namespace hora {
namespace {

using state::StateTransfer;

struct EndTransfer {
  void operator()(StateTransfer* transfer) const {
    const WithoutLock release;
    delete transfer;
  }
};

/// Addresses and sizes in bytes.
using AddressesAndSizes = std::vector<std::pair<std::uintptr_t, std::size_t>>;

std::unique_ptr<StateTransfer, EndTransfer> make_transfer(Runtime& hora, const std::vector<bool>& joins,
                                                          const AddressesAndSizes& parts,
                                                          const py::object& /*keeps*/) {
  const WithoutLock release;
  std::vector<StateTransfer::Memory> memory;
  memory.reserve(parts.size());
  for (const auto& [address, size] : parts)
    memory.emplace_back(reinterpret_cast<std::byte*>(address), size);  // NOLINT(performance-no-int-to-ptr)
  return {new StateTransfer(hora, joins, memory), EndTransfer()};
}

}  // namespace

void bind_state_transfer(py::module_& module) {
  py::class_<StateTransfer, std::unique_ptr<StateTransfer, EndTransfer>>(module, "StateTransfer")
      .def(py::init(&make_transfer), py::keep_alive<1, 2>(), py::keep_alive<1, 5>())
      .def("await_state", &StateTransfer::await_state, py::call_guard<WithoutLock>())
      .def("confirm", &StateTransfer::confirm, py::call_guard<WithoutLock>());
}

}  // namespace hora
