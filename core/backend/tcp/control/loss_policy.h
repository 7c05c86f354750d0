// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/join/frame.h"
#include "core/launcher/news.h"

#include <optional>
#include <string>

namespace hora::tcp {

inline constexpr int kNobody = -1;  ///< a loss for which no rank is to blame

/// Another rank, as the rank that watches it sees it. A value.
struct Watched {
  int rank = 0;
  std::string name;             ///< "rank 2 (pid 4711 on node7)"
  bool process_seen = false;    ///< the end of its process can be seen from here
  bool in_other_space = false;  ///< it runs on another host, or in another container
};

/// Decides which rank a job has lost, why, and when the others hear of it. A pure state machine: no clock, no
/// socket, no process. Its caller tells it what it sees, and announces the loss that a call returns. That is
/// the first loss; what follows from it is not to be reported.
///
/// A consequence of a rank's end must not overtake that end: the program that started the ranks would take
/// the consequence for the cause. So a loss is held back until the process of its rank has ended, where that
/// can be seen from here. Else it is held back for a moment, in which the launcher hears of the end. It is
/// never held back for more than two seconds, as a program may go on after its failure. While a loss is held
/// back, everything else that breaks is taken for its consequence. Unreachable pairs are held back, too,
/// until all ranks have named theirs. Where the launcher tells how ranks end, its word is waited for, too:
/// then all survivors' status has the exit code or the signal, whichever of them saw the connection end.
///
/// Not thread-safe.
class LossPolicy {
 public:
  /// The caller's state at the time of a call. A value.
  struct Now {
    TimePoint time;
    bool closing = false;         ///< this rank is leaving the job: nothing is worth waiting for
    bool launcher_tells = false;  ///< the launcher may still tell how a rank has ended
  };

  /// A rank tells of a loss: its own failure, or from rank 0 that of any rank. `collects`: this is rank 0,
  /// which hears of unreachable pairs from several ranks.
  std::optional<Loss> hear(const Loss& loss, const Watched& teller, bool collects, const Now& now);
  /// The connection to a rank has ended, or its process has, without a graceful leave: `how`.
  std::optional<Loss> end(const Watched& rank, const std::string& how, const Now& now);
  /// The time has come that `until` said, or the process of `awaited` has ended (`process_ended`), or the
  /// launcher has told of it (`told`; null: it has not).
  std::optional<Loss> look(bool process_ended, const RankEnd* told, const Now& now);

  /// A link of the tree has broken, which is no loss at first: if a rank has died, rank 0 tells of it.
  void end_tree_link(const Status& why, TimePoint now);
  /// The status that ends the job if rank 0 has not told of a loss in time: only the connection has broken.
  std::optional<Status> take_broken_link(TimePoint now);

  /// Whether a loss is held back. Everything that breaks meanwhile is a consequence.
  [[nodiscard]] bool holds_back() const { return pending_.has_value(); }
  /// When to look again, at the latest.
  [[nodiscard]] TimePoint until() const;
  /// The rank whose loss is held back; kNobody: none is.
  [[nodiscard]] int awaited() const { return pending_ ? pending_->loss.rank : kNobody; }
  /// The same, if the end of its process is awaited, and can be seen from here; else kNobody.
  [[nodiscard]] int awaited_process() const {
    return pending_ && pending_->by_process && !pending_->over ? pending_->loss.rank : kNobody;
  }

 private:
  /// A loss that is held back.
  struct Pending {
    Loss loss;
    TimePoint until;
    bool by_process = false;         ///< it is announced as soon as the rank's process has ended
    std::string ended{};             ///< what to say of it then instead, if not empty
    std::string lost{};              ///< the rank's name, if it has not said itself that it fails
    bool unreachable_pairs = false;  ///< it tells of unreachable pairs
    bool over = false;               ///< the process has ended; the launcher has a moment to tell how
  };
  /// A link of the tree that has broken.
  struct BrokenLink {
    Status why;
    TimePoint until;
  };
  std::optional<Pending> pending_;
  std::optional<BrokenLink> broken_link_;
};

}  // namespace hora::tcp
