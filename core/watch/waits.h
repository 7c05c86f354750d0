// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/negotiator.h"
#include "core/watch/message_wait.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hora {

enum class WaitKind : std::uint8_t { tensor, receive, send, shutdown };

/// A tensor, message or shutdown that some ranks wait for, and that others have not done. A value.
struct Wait {
  WaitKind kind = WaitKind::tensor;
  Coordinator::Waiting on;  ///< of tensors all that there is, of others name, ranks and time alone
};

/// All that ranks wait for: tensors, messages, and the others' shutdown. *Engine only*, on rank 0.
class Waits {
 public:
  explicit Waits(int size) : size_(size) {}

  /// Takes all messages of this rank that have waited for long, instead of those that it told of before.
  void tell_messages(int rank, const std::vector<MessageWait>& waits, TimePoint now);
  /// Ranks that wait in shutdown are left out from now on.
  void leave_out_shutdown() { with_shutdown_ = false; }

  /// Tensors first, the oldest of each kind first.
  [[nodiscard]] std::vector<Wait> all(const Negotiator& negotiator) const;
  /// The time since which the oldest of them waits, or an earlier time; max: nothing waits.
  [[nodiscard]] TimePoint oldest(const Negotiator& negotiator) const;

 private:
  /// A message, since it waits.
  struct Message {
    MessageWait wait;
    TimePoint since;
  };
  int size_;
  std::map<int, std::vector<Message>> messages_;  // by the rank that waits
  bool with_shutdown_ = true;
};

/// The text about a wait, with its ranks, its tensor or message, and its time: "'x' (allreduce float32[2])
/// and 1 more has been waited for 60 s".
[[nodiscard]] std::string describe(const Wait& wait, int more, Clock::duration time);
/// The text that goes with it: ": rank 0 asked for it", ", which has not been sent".
[[nodiscard]] std::string describe_asked(const Wait& wait);
/// The wait of this rank itself, as part of a sentence; empty if it waits for nothing.
[[nodiscard]] std::string waits_for(const std::vector<Wait>& all, int rank);

/// The cause of the wait for a tensor: that tensor, or the one for which the missing ranks wait. For anything
/// else, the wait itself.
[[nodiscard]] const Wait& cause_of(const Wait& wait, const std::vector<Wait>& all);

}  // namespace hora
