// SPDX-License-Identifier: Apache-2.0
// The job of tests of what is watched: three ranks on two hosts.
#pragma once

#include "core/comm/world.h"

#include <vector>

namespace hora {

inline const std::vector<Member> kMembers{{0, 10, "a", {}}, {1, 11, "a", {}}, {2, 12, "b", {}}};

}  // namespace hora
