// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/message.h"
#include "core/launcher/life_mutex.h"
#include "core/launcher/question.h"
#include "runner/launch/binding.h"
#include "runner/launch/guard.h"
#include "runner/launch/member_line.h"
#include "runner/launch/plan.h"
#include "runner/streams/rank_inputs.h"
#include "runner/streams/source.h"

#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

struct pollfd;

namespace hora::hrun {

/// The facts of the start of a rank's process. Refers to its parts.
struct RankStart {
  const HostPlan& plan;
  const RankPlacement& placement;
  const RendezvousPoint& rendezvous;
  const Binding* binding = nullptr;  ///< null: it is not bound
  int listener = -1;                 ///< of rank 0: the socket that listens for the others; -1: there is none
  elastic::MemberId member = 0;      ///< of an elastic job: its identity
  bool late = false;                 ///< of an elastic job: the job runs already
};

/// The process of a rank on this host: its process group, its outputs, and the sockets between it and hrun.
/// The group may outlive the process that leads it: it may hold children of a wrapper script, for example.
/// Its number cannot become another group's as long as somebody is in it; then it must not be used. Nothing
/// blocks. Not thread-safe.
class LocalRank {
 public:
  /// Starts it. `guard` outlives it. `inputs`: gets its standard input, if it reads what hrun reads. Throws
  /// Error(unavailable).
  LocalRank(const RankStart& start, Guard& guard, RankInputs& inputs);
  /// Ends the process, if it is still there.
  ~LocalRank() { signal(SIGKILL); }
  LocalRank(const LocalRank&) = delete;
  LocalRank& operator=(const LocalRank&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  /// The process has not been reaped.
  [[nodiscard]] bool running() const { return running_; }
  /// Its group may have somebody in it.
  [[nodiscard]] bool left() const { return left_; }
  [[nodiscard]] const std::shared_ptr<OutputSource>& output() const { return output_; }
  [[nodiscard]] const std::shared_ptr<OutputSource>& errors() const { return errors_; }

  /// Adds its sockets to an epoll instance: that of questions as number 2 `index`, and that of the member as
  /// 2 `index` + 1.
  void hear_on(int epoll, int index) const;
  /// Adds what poll() has to wait for.
  void watch(std::vector<pollfd>& events) const { member_.watch(events); }

  /// Sends the bytes of a RankEnd. A rank that does not listen misses it.
  void tell(const Bytes& end) const;
  /// Sends the bytes of a Question.
  void ask(const Bytes& question);
  /// Sends a message of the Leader, or queues it; `flush` sends queued ones. A process that breaks the rules
  /// of MemberLine is killed.
  void send(const elastic::LeaderMessage& message);
  void flush();
  /// The next reply, if one is here. `space` is for its bytes. A socket on which something else comes is
  /// closed.
  [[nodiscard]] std::optional<Reply> take_reply(std::span<std::byte> space);
  /// The next message of a process of an elastic job, likewise.
  [[nodiscard]] std::optional<elastic::MemberMessage> take_message(std::span<std::byte> space);

  /// Sends a signal to the group.
  void signal(int number) const;
  /// Ends the group by SIGKILL.
  void kill();
  /// Of an elastic job, when it has sent a message: the mutex that it holds as long as it lives. Null
  /// afterwards.
  [[nodiscard]] std::shared_ptr<LifeMutex> take_life() { return std::exchange(life_, nullptr); }
  /// The process ends, and all that it sent was taken. Returns why hrun has ended it, if it has broken the
  /// rules of MemberLine.
  [[nodiscard]] std::string end();
  /// Whether `end` was called.
  [[nodiscard]] bool is_ending() const { return ending_; }
  /// The process has been reaped, after `end`.
  void reaped();
  /// Looks whether the group of a process that was reaped is empty.
  void look_if_left();

 private:
  /// The socket on which a rank is asked, until one of its ends is closed.
  struct Questioning {
    Descriptor line;
    int credit;  ///< how many replies are still taken
  };

  void kill_if_broken();
  void release();

  Guard& guard_;
  int pid_ = 0;
  bool running_ = true;
  bool ending_ = false;
  bool left_ = true;
  bool killed_ = false;  // its whole group
  std::shared_ptr<OutputSource> output_;
  std::shared_ptr<OutputSource> errors_;
  Descriptor news_;  // on which the rank hears of the ends of others
  Questioning questions_;
  // Of a rank of an elastic job:
  MemberLine member_;
  std::shared_ptr<LifeMutex> life_;
};

}  // namespace hora::hrun
