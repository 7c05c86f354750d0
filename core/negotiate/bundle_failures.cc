// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/bundle_failures.h"

#include "core/negotiate/agreement.h"

#include <fmt/format.h>

namespace hora {

void BundleFailures::add(const std::string& bundle, const std::string& why) {
  if (!bundle.empty()) why_.emplace(bundle, why);
}

std::optional<Decision> BundleFailures::decision_for(const Request& request) const {
  if (why_.empty()) return std::nullopt;
  const auto why = why_.find(request.bundle);
  if (why == why_.end()) return std::nullopt;
  return failure(request, Code::mismatch, fmt::format("its group failed: {}", why->second));
}

}  // namespace hora
