// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/alarm.h"
#include "core/comm/alert.h"
#include "core/comm/world.h"
#include "core/fuse/autotune.h"
#include "core/fuse/pace.h"
#include "core/fuse/plan.h"
#include "core/launcher/health.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/delays.h"
#include "core/runtime/executor.h"
#include "core/runtime/gpu_lanes.h"
#include "core/runtime/messages.h"
#include "core/runtime/process_sets.h"
#include "core/runtime/timeline.h"
#include "core/watch/lateness.h"
#include "core/watch/stalls.h"
#include "core/watch/stragglers.h"
#include "core/watch/watchdog.h"

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace hora {

/// The loop that an Engine runs: one turn after another, each of which asks, hears, and carries out. Refers
/// to its constructor's arguments, which must outlive it. *Engine only*, except `leave`, `dump`,
/// `write_dump`, `health` and `inquire`.
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
    TimePoint next = TimePoint::max();  ///< when to turn again, if the alert does not ring before
  };
  /// Does what there is to do, up to one batch, without waiting but for its collective. `pressing`: somebody
  /// waits for it.
  Turn turn(bool pressing) noexcept;
  /// The alert that rings when there is something to do.
  [[nodiscard]] Alert alert() const { return alert_; }
  /// Whether nothing can be done before other ranks have said how far they are; whether they have. *Engine
  /// only*.
  [[nodiscard]] bool waits_for_others() const { return negotiator_.waits_for_others(); }
  /// Whether a core that waits is better left to others.
  [[nodiscard]] bool crowded() const { return world_.rollcall && world_.rollcall->cores_for_each() == 0; }
  /// Whether steps are locked, and each rank has no core but the one that its program computes on. *Engine
  /// only*.
  [[nodiscard]] bool shares_its_core() const {
    return negotiator_.is_locked() && world_.rollcall->cores_for_each() <= 1;
  }
  [[nodiscard]] bool may_go_on() { return negotiator_.waits_for_others() && negotiator_.may_go_on(); }
  /// Makes this rank ask for nothing more; `run` returns when all ranks have left. Thread-safe; the first
  /// call counts.
  void leave(const std::string& reason);
  /// Writes down what this rank has done and what is under way, and says where. Thread-safe.
  void dump(const std::string& why) const;
  /// The same; the path. Throws Error(unavailable) with the path and the system's reason. Thread-safe.
  [[nodiscard]] std::string write_dump(const std::string& why) const;
  /// How this rank is. Thread-safe.
  [[nodiscard]] Health health() const;
  /// Rank 0: answers how the job is, to this question of the launcher's (`Config::question_fd`), as soon as
  /// it comes to it. Thread-safe.
  void inquire(std::uint64_t question);

 private:
  Turn turn_or_throw(bool pressing);
  std::optional<std::string> told_to_leave();
  void leave(TimePoint now);
  void begin(Negotiator::Heard heard);
  bool carry_out_next();
  void carry_out(Executor& host, std::span<const Decision> decisions, const Batch& batch, TimePoint decided);
  void follow(TraceCommand command);
  void send(TracePart part);
  void collect_reports();
  [[nodiscard]] Account account() const;
  void add_process_set(const Decision& decision, TimePoint decided);
  void remove_process_set(const Decision& decision, TimePoint decided);
  void give_back(std::vector<Loan> loans, const Status& status);
  void tell_of_missed();
  void answer_inquiry(TimePoint now);
  [[nodiscard]] JobHealth job_health(TimePoint now) const;
  TimePoint watch_stalls(TimePoint now);
  TimePoint watch_messages(TimePoint now);
  void follow_steps();
  void prepare_to_choose_batches();
  void fuse_up_to(std::size_t bytes);
  void choose_batches(TimePoint now);
  void end();
  void fail(const Status& status);
  [[nodiscard]] std::string write_dump_of(const Status& why, std::vector<Record> pending) const;
  void tell_of_failure(const Status& why, std::vector<Record> pending) const;
  [[nodiscard]] std::string tell_of_dump(const Status& why, std::vector<Record> pending) const;

  /// A process set that this rank is in.
  struct Party {
    Party(Lane own, TensorTable& table, Recorder& recorder, Tracer& tracer, Members members,
          std::size_t fusion_threshold)
        : lane(std::move(own)),
          executor(lane, table, recorder, tracer, std::move(members), fusion_threshold) {}
    Lane lane;
    Executor executor;
  };

  /// The work that was heard of, and is to be carried out.
  struct Work {
    Negotiator::Heard heard;
    std::vector<Batch> batches;
    std::size_t next = 0;  // of the batches
    TimePoint decided;
  };

  World& world_;
  const Config& config_;
  TensorTable& table_;
  ProcessSets& sets_;
  Timeline& timeline_;
  Delays& delays_;
  Messages& messages_;
  AlertWords own_alert_{};  // where ranks share no memory
  Alert alert_;
  Negotiator negotiator_;
  FusionThresholds thresholds_;
  // Rank 0, until the thresholds are chosen.
  std::optional<Pace> pace_;
  std::optional<Autotune> autotune_;
  int paced_steps_ = 0;
  Recorder recorder_;
  Tracer tracer_;
  Executor executor_;  // of the world
  std::map<int, Party> parties_;
  std::deque<Work> work_;
  Alarm alarm_;
  GpuLanes gpu_;
  Stalls stalls_;
  Stragglers stragglers_;
  Lateness lateness_;                      // nobody's but on rank 0
  std::atomic<std::uint64_t> inquiry_{0};  // the question; 0: none

  std::mutex leaving_mutex_;
  std::optional<std::string> leaving_;  // the reason; under leaving_mutex_
  bool leaves_ = false;                 // what it has sent is on its way
  bool left_ = false;

  mutable std::mutex dump_mutex_;  // who writes a dump

  Watchdog watchdog_;  // last: its thread uses the others
};

}  // namespace hora
