// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora {

/// A symbol or the name of a type as C++ spells it: "foo::bar()"; as it is, if it is none of C++'s.
[[nodiscard]] std::string demangled(const char* name);

}  // namespace hora
