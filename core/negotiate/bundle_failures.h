// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <optional>
#include <string>
#include <unordered_map>

namespace hora {

/// The bundles (groups of tensors that users submit together) in which a tensor has failed. All tensors of
/// such a bundle fail, because users expect all results of a bundle or none. *Engine only.*
class BundleFailures {
 public:
  /// Notes that a tensor of this bundle has failed with the error `why`. Does nothing if the tensor belongs
  /// to no bundle (an empty name). Only the first failure of a bundle is reported.
  void add(const std::string& bundle, const std::string& why);
  /// The decision by which a request fails together with its bundle; nothing if no tensor of the bundle has
  /// failed.
  [[nodiscard]] std::optional<Decision> decision_for(const Request& request) const;
  [[nodiscard]] bool empty() const { return why_.empty(); }

 private:
  std::unordered_map<std::string, std::string> why_;  // by bundle
};

}  // namespace hora
