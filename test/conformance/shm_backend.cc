// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shm_collective.h"
#include "test/conformance/collective_suite.h"

namespace hora {
namespace {

// Over one mapping, so that ThreadSanitizer sees that all ranks use the same addresses.
const RegisterCollective kReaching{{"shm", [](int ranks) { return shm::make_shm_group(ranks, true); }}};
const RegisterCollective kByLevels{{"shm_levels", [](int ranks) {
                                      return shm::make_shm_group(
                                          ranks, true, std::size_t{1} << 30,
                                          {.direct = {}, .streams = {}, .levels = {{2, 4}}});
                                    }}};
const RegisterCollective kStaged{{"shm_staged", [](int ranks) { return shm::make_shm_group(ranks, false); }}};

}  // namespace
}  // namespace hora
