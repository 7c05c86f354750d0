// SPDX-License-Identifier: Apache-2.0
#include "core/base/demangled.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace hora {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : name;
}

}  // namespace hora
