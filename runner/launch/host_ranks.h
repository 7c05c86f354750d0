// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/message.h"
#include "core/launcher/news.h"
#include "core/launcher/question.h"
#include "runner/launch/plan.h"
#include "runner/launch/process.h"
#include "runner/streams/source.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pollfd;

namespace hora::hrun {

/// The exit code of a rank that could not be started.
inline constexpr int kNotStarted = 1;

/// An event of a rank, or of its whole host. A value.
struct RankEvent {
  enum class Kind { started, stopped, resumed, answered, told, ended, host_lost };
  Kind kind = Kind::started;
  int index = 0;                     ///< of the rank on its host
  int pid = 0;                       ///< started
  Reply answer{};                    ///< answered
  elastic::MemberMessage message{};  ///< told: by a process of an elastic job
  Ending ending{};                   ///< ended, stopped: how; host_lost: why
  TimePoint when{};  ///< ended, stopped: when that was noticed on its host; host_lost: when it last was well
};

/// The ranks of one host: of this machine, or of another one by way of an agent. They make ready, start when
/// all hosts are ready, and end. Nothing blocks. Not thread-safe. Its end is the end of its ranks.
class HostRanks {
 public:
  virtual ~HostRanks() = default;

  enum class State {
    making_ready,
    ready,
    failed,   ///< it cannot make ready, and `trouble` says why; nothing was started
    running,  ///< somebody may be there
    over,     ///< nobody is there any more
  };
  [[nodiscard]] virtual State state() const = 0;
  [[nodiscard]] virtual const std::string& trouble() const = 0;
  /// The facts that the host has told about itself; once it is ready.
  [[nodiscard]] virtual const Ready& ready() const = 0;

  /// Starts the ranks. Throws Error(unavailable) if that is known at once to be impossible; else it is an
  /// event.
  virtual void start(const RendezvousPoint& rendezvous) = 0;
  /// Starts a process of an elastic job in place of the one of this rank, which has ended; or as one more
  /// rank, if `index` is the number of ranks so far. `member`: its identity. If it cannot be started, that is
  /// an event `ended`.
  virtual void start_one(int index, const RankPlacement& placement, elastic::MemberId member) = 0;
  /// The signals that all ranks and the processes that they have started get: INT after a Ctrl-C, then TERM,
  /// and later KILL.
  virtual void interrupt() = 0;
  virtual void terminate() = 0;
  virtual void kill() = 0;
  /// Kills one rank, once it was started, and the processes that it has started.
  virtual void kill_one(int index) = 0;

  /// Tells the ranks that are here how one of the job has ended; a rank that does not listen misses it.
  virtual void tell(const RankEnd& end) = 0;

  /// Asks the ranks that are here; what they answer, if they do, are events.
  virtual void ask(const Question& question) = 0;

  /// Sends a message to a rank of an elastic job, once it was started; see MemberLine.
  virtual void send(int index, const elastic::LeaderMessage& message) = 0;

  /// How many bytes the ranks here take now of what hrun reads; 0 as well where none reads any more.
  [[nodiscard]] virtual std::size_t room() const = 0;
  /// Passes bytes on to them, at most `room`; none: there will be no more.
  virtual void feed(std::string_view bytes) = 0;
  /// The user's terminal has this size now.
  virtual void resize(WindowSize size) = 0;

  /// Lets go of the host; nothing but the destructor may follow, which waits a moment until nothing of the
  /// job is left there. Without this it does not wait.
  virtual void part() = 0;

  /// Adds what poll() has to wait for; and the time until when it may wait.
  virtual void watch(std::vector<pollfd>& events) const = 0;
  [[nodiscard]] virtual TimePoint next() const = 0;
  /// A child of this process has ended, was stopped, or goes on.
  virtual void child_changed(int pid, int wait_status, TimePoint now) = 0;
  /// Does what can be done without waiting. Returns the events since the last call, in order.
  virtual std::vector<RankEvent> turn(TimePoint now) = 0;

  /// The outputs of the process of a rank that was started last.
  [[nodiscard]] virtual std::shared_ptr<OutputSource> output(int index) = 0;
  [[nodiscard]] virtual std::shared_ptr<OutputSource> errors(int index) = 0;
};

}  // namespace hora::hrun
