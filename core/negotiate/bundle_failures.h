// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <optional>
#include <string>
#include <unordered_map>

namespace hora {

/// The bundles (groups of tensors that users submit together) of which a tensor has failed. All tensors of
/// such a bundle fail, as users expect all results of a bundle or none. *Engine only.*
class BundleFailures {
 public:
  /// A tensor has failed. Does nothing if it belongs to no bundle. The first failure of a bundle is the one
  /// that is reported.
  void add(const std::string& bundle, const std::string& why);
  /// The decision that fails this request for its bundle; nothing if no tensor of its bundle has failed.
  [[nodiscard]] std::optional<Decision> decision_for(const Request& request) const;
  [[nodiscard]] bool empty() const { return why_.empty(); }

 private:
  std::unordered_map<std::string, std::string> why_;  // by bundle
};

}  // namespace hora
