// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/tree_growth.h"

namespace hora::tcp {

std::vector<TreeLink> TreeGrowth::take() {
  auto links = std::exchange(links_, {});
  if (!links.empty()) taken_.notify_one();
  return links;
}

void TreeGrowth::await_taken(std::unique_lock<std::mutex>& lock) {
  taken_.wait(lock, [this] { return links_.empty(); });
}

std::vector<TreeGrowth::Announcement> TreeGrowth::finish() {
  finished_ = true;
  return std::exchange(early_, {});
}

}  // namespace hora::tcp
