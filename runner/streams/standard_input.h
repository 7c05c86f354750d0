// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/launch/host_ranks.h"
#include "runner/streams/user_terminal.h"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

struct pollfd;

namespace hora::hrun {

/// hrun's own standard input on its way to the ranks that read it (--stdin).
///
/// Where one rank reads, and hrun was started at a terminal, the rank has a terminal of its own, on its host:
/// hrun passes on each key, and shows what comes back. A file or a pipe becomes the input of a rank of this
/// host as it is. In all other cases hrun reads, and writes into pipes, as fast as the slowest rank reads.
/// Nothing blocks. In the background of a terminal nothing is read.
class StandardInput {
 public:
  /// `reader`: the rank, or kEveryRank; nothing: nobody reads.
  explicit StandardInput(std::optional<int> reader);

  /// Completes the plan of a host, whose ranks are in it already.
  void go_into(HostPlan& plan, bool here);
  /// Whether a rank may put questions to a user.
  [[nodiscard]] bool converses_with(int rank) const { return terminal_ && reads(rank); }
  /// The signals that hrun watches because of it.
  [[nodiscard]] static std::vector<int> signals();

  /// The ranks of a host were started; `numbers`: which those are. Borrows it until `ended` was told of them.
  void add(HostRanks& ranks, const std::vector<int>& numbers);
  /// A rank has ended. Once that is true of all that read, nothing is read, and the terminal is as it was.
  void ended(int rank);

  /// The ranks of a host are gone, which have these numbers. Null: none were there.
  void lost(const HostRanks* ranks, const std::vector<int>& numbers);

  /// Adds what poll() has to wait for; and the time until when it may wait.
  void watch(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const { return next_; }
  /// Passes on what is there.
  void turn();
  /// The user's terminal has another size.
  void resized();
  /// After a Ctrl-Z: gives the terminal back, and stops this process until it is told to go on; where no
  /// shell could do that, the system ignores the key.
  void stop();

  /// For a rank that failed with this error: how it could have read more, as a sentence. Empty: it failed for
  /// another reason.
  [[nodiscard]] std::string advice(int rank, std::string_view error) const;

 private:
  [[nodiscard]] bool reads(int rank) const;
  [[nodiscard]] bool has_own_terminal() const;
  [[nodiscard]] std::size_t room() const;
  void end();

  const std::optional<int> reader_;
  std::optional<UserTerminal> terminal_;  // where standard input is one, and somebody reads
  const bool shown_;                      // standard output is a terminal
  bool inherited_ = false;                // the rank reads by itself
  std::vector<HostRanks*> hosts_;         // where ranks read, until they have ended
  std::set<int> reading_;                 // ranks
  bool in_foreground_ = true;
  TimePoint next_ = TimePoint::max();
};

}  // namespace hora::hrun
