// SPDX-License-Identifier: Apache-2.0
#include "python/native/bind_rounds.h"

#include "frameworks/rounds/round.h"

#include <pybind11/stl.h>

#include <initializer_list>
#include <utility>

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

/// Binds an enumerator's values as numbers. A hook compares several for each gradient, and two objects of a
/// py::enum_ take a microsecond to compare.
template <typename Enum>
void bind_numbers(py::module_& module, const char* name,
                  std::initializer_list<std::pair<const char*, Enum>> values) {
  py::object numbers = py::module_::import("types").attr("SimpleNamespace")();
  for (const auto& [value, enumerator] : values) numbers.attr(value) = static_cast<int>(enumerator);
  module.attr(name) = numbers;
}

/// A member function whose answer is such a number.
template <typename Answer, typename... Arguments>
auto as_number(Answer (ReducerState::*function)(Arguments...)) {
  return [function](ReducerState& state, Arguments... arguments) {
    return static_cast<int>((state.*function)(arguments...));
  };
}

void bind_answers(py::module_& module) {
  module.attr("UNKNOWN_KIND") = rounds::kUnknown;
  module.attr("DENSE_KIND") = rounds::kDense;
  bind_numbers<Before>(module, "Before",
                       {{"nothing", Before::nothing},
                        {"begin", Before::begin},
                        {"settle", Before::settle},
                        {"look", Before::look}});
  bind_numbers<After>(module, "After",
                      {{"nothing", After::nothing},
                       {"begin", After::begin},
                       {"place", After::place},
                       {"submit", After::submit},
                       {"unexpected", After::unexpected}});
  bind_numbers<Bring>(module, "Bring",
                      {{"nothing", Bring::nothing},
                       {"stand_in", Bring::stand_in},
                       {"set_aside", Bring::set_aside},
                       {"gradient", Bring::gradient}});
  bind_numbers<Settle>(module, "Settle",
                       {{"leave", Settle::leave}, {"take", Settle::take}, {"add", Settle::add}});
}

void bind_state(py::module_& module) {
  py::class_<Units>(module, "Units")
      .def("add_unit", &Units::add_unit)
      .def("kind", &Units::kind)
      .def("travels_dense", &Units::travels_dense)
      .def("members_with", &Units::members_with)
      .def("asked", &Units::asked)
      .def("learn", &Units::learn)
      .def("lasting_kinds", &Units::lasting_kinds)
      .def("recall", &Units::recall);
  py::class_<ReducerState>(module, "ReducerState")
      .def(py::init<std::string, int, bool>())
      .def_property_readonly("units", &ReducerState::units)
      .def("add_parameter", &ReducerState::add_parameter)
      .def("unsettled", &ReducerState::unsettled)
      .def("name_of", &ReducerState::name_of)
      .def("numbered", &ReducerState::numbered)
      .def_property("accumulating", &ReducerState::is_accumulating, &ReducerState::set_accumulating)
      .def_property("passes_per_round", &ReducerState::passes_per_round, &ReducerState::set_passes_per_round)
      .def("restart_count", &ReducerState::restart_count)
      .def("begin", &ReducerState::begin)
      .def("before", as_number(&ReducerState::before))
      .def("pending_with", &ReducerState::pending_with)
      .def("touch", &ReducerState::touch)
      .def("after", as_number(&ReducerState::after))
      .def("leave", &ReducerState::leave)
      .def("fail", &ReducerState::fail)
      .def("abandon", &ReducerState::abandon)
      .def_property_readonly("is_due", &ReducerState::is_due)
      .def_property_readonly("overlaps", &ReducerState::overlaps)
      .def_property_readonly("failed_with", &ReducerState::failed_with)
      .def("bring", as_number(&ReducerState::bring))
      .def("submitted", &ReducerState::submitted)
      .def("settled", as_number(&ReducerState::settled))
      .def("lost", &ReducerState::lost)
      .def("owes_round", &ReducerState::owes_round)
      .def_property_readonly("rounds", &ReducerState::rounds)
      .def_property_readonly("is_owed", &ReducerState::is_owed)
      .def_property_readonly("spoiled", &ReducerState::spoiled)
      .def("end_step", &ReducerState::end_step)
      .def("forget", &ReducerState::forget)
      .def("begin_generation", &ReducerState::begin_generation);
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
