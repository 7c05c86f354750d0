// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hora {

/// How a backend connects ranks that are threads: one collective per rank. `name` names it in test output.
struct CollectiveBackend {
  std::string name;
  std::function<std::vector<std::unique_ptr<Collective>>(int ranks)> connect;
  std::vector<int> ranks = {1, 2, 3, 5};  ///< numbers of them to try
  /// On which host a rank is: 16-bit sums are rounded for each host, in the order of hosts.
  std::function<int(int rank)> host = [](int /*rank*/) { return 0; };
};

/// Every backend registers itself here, before main.
std::vector<CollectiveBackend>& collective_backends();

/// `const RegisterCollective kRegistered{{"local", ...}};`
struct RegisterCollective {
  explicit RegisterCollective(CollectiveBackend backend) {
    collective_backends().push_back(std::move(backend));
  }
};

}  // namespace hora
