// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/control/tree_links.h"
#include "core/comm/rank_set.h"

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace hora::tcp {

/// The links of one rank in the tree while they come, and what rank 0 has announced before they are all
/// there. Guarded by control's mutex, which callers of `await_taken` hold.
class TreeGrowth {
 public:
  /// An announcement of rank 0, and to whom.
  using Announcement = std::pair<RankSet, Bytes>;

  /// A link has come.
  void add(TreeLink link) { links_.push_back(std::move(link)); }
  /// The I/O thread takes the links that have come.
  std::vector<TreeLink> take();
  /// Waits until the I/O thread has taken all links.
  void await_taken(std::unique_lock<std::mutex>& lock);
  /// All links are there. Returns what was announced meanwhile.
  std::vector<Announcement> finish();
  [[nodiscard]] bool is_finished() const { return finished_; }
  /// Keeps an announcement until then.
  void keep(Announcement early) { early_.push_back(std::move(early)); }

 private:
  std::vector<TreeLink> links_;
  std::condition_variable taken_;
  std::vector<Announcement> early_;
  bool finished_ = false;
};

}  // namespace hora::tcp
