// SPDX-License-Identifier: Apache-2.0
// A library with a C++ standard library of its own, for module_test.cc.
#include <sstream>

extern "C" std::size_t length_of(int number) {
  std::ostringstream text;
  text << number;
  return text.str().size();
}
