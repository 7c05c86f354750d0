// SPDX-License-Identifier: Apache-2.0
#include "core/join/secret.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Secret, IsAnotherOneEachTime) { EXPECT_NE(new_secret(), new_secret()); }

}  // namespace
}  // namespace hora
