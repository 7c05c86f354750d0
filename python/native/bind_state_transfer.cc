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

StateTransfer::Unit unit_of(const AddressesAndSizes& parts) {
  StateTransfer::Unit unit;
  for (const auto& [address, size] : parts)
    unit.emplace_back(reinterpret_cast<std::byte*>(address), size);  // NOLINT(performance-no-int-to-ptr)
  return unit;
}

std::unique_ptr<StateTransfer, EndTransfer> make_transfer(Runtime& hora, const std::vector<bool>& joins) {
  return {new StateTransfer(hora, joins), EndTransfer()};
}

/// `keeps`: what the memory belongs to.
std::size_t begin_part(StateTransfer& transfer, const std::vector<AddressesAndSizes>& state, bool rest,
                       const py::object& /*keeps*/) {
  const WithoutLock release;
  std::vector<StateTransfer::Unit> units;
  units.reserve(state.size());
  for (const auto& unit : state) units.push_back(unit_of(unit));
  return transfer.begin_part(units, rest);
}

}  // namespace

void bind_state_transfer(py::module_& module) {
  py::enum_<StateTransfer::Outcome>(module, "TransferOutcome")
      .value("MORE_FOLLOWS", StateTransfer::Outcome::more_follows)
      .value("IS_COMPLETE", StateTransfer::Outcome::is_complete)
      .value("DIFFERS", StateTransfer::Outcome::differs);
  py::class_<StateTransfer, std::unique_ptr<StateTransfer, EndTransfer>>(module, "StateTransfer")
      .def(py::init(&make_transfer), py::keep_alive<1, 2>())
      .def("begin_part", &begin_part, py::keep_alive<1, 4>())
      .def("await_part", &StateTransfer::await_part, py::call_guard<WithoutLock>())
      .def("confirm", &StateTransfer::confirm, py::call_guard<WithoutLock>());
}

}  // namespace hora
