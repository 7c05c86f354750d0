// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/abort_broadcaster.h"
#include "core/comm/wake_up.h"
#include "core/comm/world.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/batch_sizer.h"
#include "core/runtime/groups.h"
#include "core/runtime/leaving.h"
#include "core/runtime/observation.h"
#include "core/runtime/process_set_changes.h"
#include "core/runtime/work_queue.h"
#include "core/watch/watchdog.h"

#include <functional>
#include <string>

namespace hora {

/// The loop that an Engine runs: one turn after another, each of which asks, hears, and carries out. Refers
/// to its constructor's arguments, which must outlive it. *Engine only*, except `leave`, `stop`,
/// `state`, and `inquire`.
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
  /// Makes this rank ask for nothing more; `turn` is over when all ranks have left. Thread-safe.
  void leave();
  /// Ends the loop at once, for this reason, also while this rank leaves. The other ranks are told, and end,
  /// too. Thread-safe; the first call counts.
  void stop(const Status& why);
  /// Whether the GPU was given up with work that it had not ended. Once the loop is over, on any thread.
  [[nodiscard]] bool left_gpu_behind() const { return groups_.gpu().left_behind(); }
  /// As GpuLanes::await_end.
  void await_gpu(const std::function<void()>& check) { groups_.gpu().await_end(check); }
  /// How this rank is. Thread-safe.
  [[nodiscard]] const RankState& state() const { return observation_.state(); }
  /// Rank 0: answers how the job is, to this question of the launcher's (`Config::question_fd`), as soon as
  /// it comes to it. Thread-safe.
  void inquire(std::uint64_t question) { observation_.inquire(question); }

 private:
  Turn turn_or_throw(bool pressing);
  void ask(TimePoint now);
  TakeOnGpu take_on_gpu();
  [[nodiscard]] bool waits_for_inputs() const;
  TimePoint hear(TimePoint now, bool pressing);
  void follow_steps();
  void interrupt(const Status& why);
  void end();
  void fail(const Status& status);

  World& world_;
  TensorTable& table_;
  Messages& messages_;
  WakeUpWords own_wake_up_{};  // where ranks share no memory
  WakeUp wake_up_;
  Negotiator negotiator_;
  Observation observation_;
  AbortBroadcaster aborter_;
  Groups groups_;
  BatchSizer sizer_;
  ProcessSetChanges changes_;
  Watchdog watchdog_;
  WorkQueue work_;
  Leaving leaving_;
};

}  // namespace hora
