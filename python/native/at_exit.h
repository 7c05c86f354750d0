// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <map>
#include <string>

namespace hora {

/// Makes a Runtime leave its job when this process calls exit(), after the interpreter has ended: only then
/// is the exit status known. With status 0 it leaves in order, and waits for the other ranks. With another
/// one the job fails, for the reason that `reasons` has for that status, or for the status itself.
///
/// `kept` is whatever owns memory that is lent to operations. It and the Runtime are never given back to
/// Python. False: there is no memory to do so; nothing has changed then. In a forked child it does nothing.
[[nodiscard]] bool shutdown_at_exit(const pybind11::object& runtime, std::map<int, std::string> reasons,
                                    const pybind11::object& kept);

}  // namespace hora
