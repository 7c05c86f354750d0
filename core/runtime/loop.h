// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/abort_broadcaster.h"
#include "core/comm/wake_up.h"
#include "core/comm/world.h"
#include "core/fuse/batch_sizing.h"
#include "core/fuse/plan.h"
#include "core/gpu/own_gpu.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/delays.h"
#include "core/runtime/groups.h"
#include "core/runtime/job_watch.h"
#include "core/runtime/messages.h"
#include "core/runtime/process_sets.h"
#include "core/runtime/rank_state.h"
#include "core/runtime/tracing.h"
#include "core/watch/watchdog.h"

#include <deque>
#include <mutex>
#include <optional>
#include <string>

namespace hora {

/// The loop that an Engine runs: one turn after another, each of which asks, hears, and carries out. Refers
/// to its constructor's arguments, which must outlive it. *Engine only*, except `leave`, `state`, and
/// `inquire`.
class Loop {
 public:
  Loop(World& world, const Config& config, TensorTable& table, ProcessSets& sets, Timeline& timeline,
       Delays& delays, OwnGpu& gpu, Messages& messages);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// The outcome of a turn. A value.
  struct Turn {
    bool over = false;  ///< the job has ended, or failed, and all tensors are given back; no more turns
    bool more = false;  ///< there is more to do at once
    TimePoint next = TimePoint::max();  ///< when to turn again, if the wake-up does not ring before
  };
  /// Does what there is to do, up to one batch, without waiting but for its collective. `pressing`: somebody
  /// waits for it.
  Turn turn(bool pressing) noexcept;
  /// The wake-up that rings when there is something to do.
  [[nodiscard]] WakeUp wake_up() const { return wake_up_; }
  /// Whether nothing can be done before other ranks have said how far they are; whether they have. *Engine
  /// only*.
  [[nodiscard]] bool waits_for_others() const { return negotiator_.waits_for_others(); }
  /// Whether a core that waits is better left to others.
  [[nodiscard]] bool crowded() const { return world_.vote && world_.vote->cores_for_each() == 0; }
  /// Whether steps are locked, and each rank has no core but the one that its program computes on. *Engine
  /// only*.
  [[nodiscard]] bool shares_its_core() const {
    return negotiator_.is_locked() && world_.vote->cores_for_each() <= 1;
  }
  [[nodiscard]] bool may_go_on() { return negotiator_.waits_for_others() && negotiator_.may_go_on(); }
  /// Makes this rank ask for nothing more; `turn` is over when all ranks have left. Thread-safe; the first
  /// call counts.
  void leave(const std::string& reason);
  /// How this rank is. Thread-safe.
  [[nodiscard]] const RankState& state() const { return state_; }
  /// Rank 0: answers how the job is, to this question of the launcher's (`Config::question_fd`), as soon as
  /// it comes to it. Thread-safe.
  void inquire(std::uint64_t question);

 private:
  /// The work that was heard of, and is to be carried out.
  struct Work {
    Negotiator::Heard heard;
    std::vector<Batch> batches;
    std::size_t next = 0;  // of the batches
    TimePoint decided;
  };
  Turn turn_or_throw(bool pressing);
  std::optional<std::string> told_to_leave();
  void leave(TimePoint now);
  void ask(TimePoint now);
  TimePoint watch_messages(TimePoint now);
  TimePoint hear(TimePoint now, bool pressing);
  void begin(Negotiator::Heard heard);
  void collect_reports(TimePoint now);
  void follow_steps();
  bool carry_out_next();
  void carry_out_next(Executor& host, Work& work);
  void carry_out(Executor& host, std::span<const Decision> decisions, const Batch& batch, TimePoint decided);
  void add_process_set(const Decision& decision, TimePoint decided);
  void remove_process_set(const Decision& decision, TimePoint decided);
  void give_back(std::vector<Loan> loans, const Status& status);
  void end();
  void fail(const Status& status);

  World& world_;
  TensorTable& table_;
  ProcessSets& sets_;
  Delays& delays_;
  Messages& messages_;
  WakeUpWords own_wake_up_{};  // where ranks share no memory
  WakeUp wake_up_;
  Negotiator negotiator_;
  Recorder recorder_;
  Tracing tracing_;
  AbortBroadcaster aborter_;
  Groups groups_;
  RankState state_;
  JobWatch job_;
  std::optional<BatchSizing> sizing_;  // rank 0's, of several
  std::deque<Work> work_;

  std::mutex leaving_mutex_;
  std::optional<std::string> leaving_;  // the reason; under leaving_mutex_
  bool leaves_ = false;                 // what it has sent is on its way
  bool left_ = false;

  Watchdog watchdog_;  // last: its thread uses the others
};

}  // namespace hora
