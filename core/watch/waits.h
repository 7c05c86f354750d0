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

/// A wait of some ranks for others: for a tensor that those have not submitted, a message that they have not
/// sent or received, or `shutdown`, which they have not called. A value.
struct Wait {
  WaitKind kind = WaitKind::tensor;
  WaitingTensor on;  ///< complete for a tensor; else only name, text, ranks and time are set
};

/// All waits in the job. *Engine only*, on rank 0.
class Waits {
 public:
  explicit Waits(int size) : size_(size) {}

  /// Takes the list of a rank's messages that have waited for long. It replaces the rank's last list.
  void tell_messages(int rank, const std::vector<MessageWait>& waits, TimePoint now);
  /// Omits waits for shutdown from now on.
  void leave_out_shutdown() { with_shutdown_ = false; }

  /// All waits: of tensors first, then of messages, by rank, then of shutdown.
  [[nodiscard]] std::vector<Wait> all(const Negotiator& negotiator) const;
  /// A time that is not after the beginning of any wait; max: there is no wait. `all` takes longer.
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
/// The end of that sentence: ": rank 0 asked for it", ", which has not been sent".
[[nodiscard]] std::string describe_asked(const Wait& wait);
/// The first wait of `rank` in `all`, as part of a sentence: "for 'x', which others have not submitted".
/// Empty if there is none.
[[nodiscard]] std::string waits_for(const std::vector<Wait>& all, int rank);

/// The wait to report instead of `wait`. If the missing ranks of a tensor wait in turn for another tensor,
/// both waits are one mistake. Then it is the wait where the mistake probably is. Else it is `wait`.
[[nodiscard]] const Wait& cause_of(const Wait& wait, const std::vector<Wait>& all);

}  // namespace hora
