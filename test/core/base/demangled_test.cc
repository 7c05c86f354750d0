// SPDX-License-Identifier: Apache-2.0
#include "core/base/demangled.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Demangled, IsWhatCppSpellsAndOthersAsTheyAre) {
  EXPECT_EQ(demangled("_ZN3foo3barEv"), "foo::bar()");
  EXPECT_EQ(demangled("St13runtime_error"), "std::runtime_error");
  EXPECT_EQ(demangled("main"), "main");
}

}  // namespace
}  // namespace hora
