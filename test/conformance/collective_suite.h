// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hora {

/// A function that returns these numbers, for `CollectiveBackend::ranks`.
inline std::function<std::vector<int>()> exactly(std::vector<int> numbers) {
  return [numbers = std::move(numbers)] { return numbers; };
}

/// How a backend connects ranks. `name` names it in test output.
///
/// Ranks are threads, as a rule: then `connect` gives one collective per rank. Where they must be processes,
/// every process runs the same tests in step, and `connect` gives nothing for the ranks that others are.
struct CollectiveBackend {
  std::string name;
  std::function<std::vector<std::unique_ptr<Collective>>(int ranks)> connect;
  /// How many there may be; asked when the program has started.
  std::function<std::vector<int>()> ranks = exactly({1, 2, 3, 5});
  /// A number, 0 at first, that all ranks see. All processes call it.
  std::function<std::shared_ptr<std::atomic<int>>()> make_counter = [] {
    return std::make_shared<std::atomic<int>>(0);
  };
  /// On which host a rank is: 16-bit sums are rounded for each host, in the order of hosts.
  std::function<int(int rank)> host = [](int /*rank*/) { return 0; };
  /// Whether the backend can do this reduction: the negotiation asks for no other.
  std::function<bool(const Reduction&)> reduces = [](const Reduction& /*reduction*/) { return true; };
  /// 16-bit sums are rounded after each addition, in the order of ranks.
  bool rounds_additions = false;
  /// Whether bytes other than 0 and 1 are true, too.
  bool knows_any_truth = true;
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
