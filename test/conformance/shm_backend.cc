// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shm_collective.h"
#include "test/conformance/collective_suite.h"
#include "test/conformance/control_suite.h"
#include "test/support/shared_controls.h"

namespace hora {
namespace {

// Over one mapping, so that ThreadSanitizer sees that all ranks use the same addresses.
const RegisterCollective kReaching{{"shm", [](int ranks) { return shm::make_shm_group(ranks, true); }}};
const RegisterCollective kByLevels{{"shm_levels", [](int ranks) {
                                      return shm::make_shm_group(
                                          ranks, true, std::size_t{1} << 30,
                                          {.direct = {}, .streams = {}, .levels = {{2, 4}}});
                                    }}};
// With four children, some neighbours of rank 0 have children of their own, and others not.
const RegisterControl kSharedControl{
    {"shm", [](int ranks) { return shm::shared_controls(loopback_configs(ranks)); }, true}};
const RegisterControl kSharedTree{
    {"shm_tree", [](int ranks) { return shm::shared_controls(tree_configs(ranks, 4)); }, true}};

const RegisterCollective kStaged{{"shm_staged", [](int ranks) { return shm::make_shm_group(ranks, false); }}};

}  // namespace
}  // namespace hora
