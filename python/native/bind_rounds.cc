// SPDX-License-Identifier: Apache-2.0
#include "python/native/bind_rounds.h"

#include "frameworks/rounds/round.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace hora {
namespace {

using rounds::Action;
using rounds::After;
using rounds::Before;
using rounds::Bring;
using rounds::ReducerState;
using rounds::Round;
using rounds::Settle;
using rounds::Units;

void bind_answers(py::module_& module) {
  module.attr("UNKNOWN_KIND") = rounds::kUnknown;
  module.attr("DENSE_KIND") = rounds::kDense;
  py::enum_<Before>(module, "Before")
      .value("nothing", Before::nothing)
      .value("begin", Before::begin)
      .value("settle", Before::settle)
      .value("look", Before::look);
  py::enum_<After>(module, "After")
      .value("nothing", After::nothing)
      .value("begin", After::begin)
      .value("place", After::place)
      .value("submit", After::submit)
      .value("unexpected", After::unexpected);
  py::enum_<Bring>(module, "Bring")
      .value("nothing", Bring::nothing)
      .value("stand_in", Bring::stand_in)
      .value("set_aside", Bring::set_aside)
      .value("gradient", Bring::gradient);
  py::enum_<Settle>(module, "Settle")
      .value("leave", Settle::leave)
      .value("take", Settle::take)
      .value("add", Settle::add);
}

void bind_state(py::module_& module) {
  py::class_<Units>(module, "Units")
      .def("add_unit", &Units::add_unit)
      .def("kind", &Units::kind)
      .def("travels_dense", &Units::travels_dense)
      .def("members_with", &Units::members_with)
      .def("asked", &Units::asked)
      .def("learn", &Units::learn);
  py::class_<ReducerState>(module, "ReducerState")
      .def(py::init<std::string, int, bool>())
      .def_property_readonly("units", &ReducerState::units)
      .def("add_parameter", &ReducerState::add_parameter)
      .def("is_settled", &ReducerState::is_settled)
      .def("name_of", &ReducerState::name_of)
      .def("numbered", &ReducerState::numbered)
      .def_property("accumulating", &ReducerState::is_accumulating, &ReducerState::set_accumulating)
      .def_property("passes_per_round", &ReducerState::passes_per_round, &ReducerState::set_passes_per_round)
      .def("restart_count", &ReducerState::restart_count)
      .def("begin", &ReducerState::begin)
      .def("before", &ReducerState::before)
      .def("pending_with", &ReducerState::pending_with)
      .def("touch", &ReducerState::touch)
      .def("after", &ReducerState::after)
      .def("leave", &ReducerState::leave)
      .def("fail", &ReducerState::fail)
      .def("abandon", &ReducerState::abandon)
      .def_property_readonly("is_due", &ReducerState::is_due)
      .def_property_readonly("overlaps", &ReducerState::overlaps)
      .def_property_readonly("failed_with", &ReducerState::failed_with)
      .def("bring", &ReducerState::bring)
      .def("submitted", &ReducerState::submitted)
      .def("settled", &ReducerState::settled)
      .def("lost", &ReducerState::lost)
      .def("owes_round", &ReducerState::owes_round)
      .def_property_readonly("rounds", &ReducerState::rounds)
      .def_property_readonly("is_owed", &ReducerState::is_owed)
      .def_property_readonly("spoiled", &ReducerState::spoiled)
      .def("end_step", &ReducerState::end_step)
      .def("forget", &ReducerState::forget);
}

void bind_round(py::module_& module) {
  py::class_<Action> action(module, "Action");
  py::enum_<Action::Kind>(action, "Kind")
      .value("adopt", Action::Kind::adopt)
      .value("submit", Action::Kind::submit)
      .value("ask", Action::Kind::ask)
      .value("look", Action::Kind::look)
      .value("pause", Action::Kind::pause)
      .value("learn", Action::Kind::learn)
      .value("settle", Action::Kind::settle)
      .value("spoil", Action::Kind::spoil);
  action.def_readonly("kind", &Action::kind)
      .def_readonly("reducer", &Action::reducer)
      .def_readonly("units", &Action::units)
      .def_readonly("parameters", &Action::parameters);
  py::class_<Round>(module, "Round")
      .def(py::init<std::vector<ReducerState*>>(), py::keep_alive<1, 2>())
      .def("next", &Round::next)
      .def("answered", &Round::answered)
      .def("failed", &Round::failed);
}

}  // namespace

void bind_rounds(py::module_& module) {
  bind_answers(module);
  bind_state(module);
  bind_round(module);
}

}  // namespace hora
