// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/generation_record.h"
#include "core/elastic/next_generation.h"
#include "core/elastic/process.h"
#include "core/elastic/resolve.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hora::elastic {

/// A task for the process of the Leader. A value.
struct LeaderAction {
  enum class Kind {
    stop,         ///< tell `to`: Member::hear_stop of `generation`
    record,       ///< tell `to`: Member::hear_record of `record`
    go,           ///< tell `to`: Member::hear_go of `generation`
    out,          ///< tell `to`: Member::hear_out of `why`
    kill,         ///< end the process `to` by SIGKILL, because of `why`
    plan_change,  ///< tell `to`, rank 0 of `generation`: end the generation with the next step that counts
    end_job,      ///< the job cannot go on, because of `why`
  };
  Kind kind = Kind::end_job;
  MemberId to = 0;
  std::uint64_t generation = 0;
  GenerationRecord record{};
  std::string why{};
};

/// The part of hrun in the changes of generations: it decides who is a member of the next one, and which
/// steps count. A state machine without input, output or clock of its own. The caller passes events in the
/// order in which it hears of them, calls `tick` at `next`, and carries out the actions. Not thread-safe.
///
///     first    --enough processes have joined-->  forming  --all have formed it-->  running
///     running, forming  --a death, a suspicion, a report-->  stopping  --all that live have reported-->
///     forming
///
/// It is the only one that makes records, so there is one record for each generation. It makes one only when
/// each former member has reported, or its process has certainly ended, or its host is lost. A member that
/// gives no sign of life is ended first. So nobody of the former generation votes, or writes into the memory
/// of others, when the next one begins.
///
/// It waits for nothing without end: each member reports, dies, or is ended after `silence` or
/// `stop_timeout`. An ended process dies, or its host is lost. Members never come back, so a change ends
/// after at most one turn for each of them. A job that pauses for `pause_timeout` ends.
class Leader {
 public:
  enum class Phase { first, stopping, forming, running, over };
  using Actions = std::vector<LeaderAction>;

  explicit Leader(const ElasticPolicy& policy) : policy_(policy) {}

  [[nodiscard]] Phase phase() const { return phase_; }
  /// How many members a generation may have.
  [[nodiscard]] int most() const { return policy_.max_members; }
  /// The present generation, or the one that is being formed.
  [[nodiscard]] const GenerationRecord& record() const { return record_; }

  /// A process that was started is ready to become a member.
  [[nodiscard]] Actions join(const MemberInfo& process, TimePoint now);
  /// The first generation waits for so many processes, no longer for `ElasticPolicy::first_members`.
  [[nodiscard]] Actions begin_with(int members, TimePoint now);
  /// A process has certainly ended before the training did. All messages that it has sent were passed before.
  [[nodiscard]] Actions die(MemberId id, TimePoint now);
  /// A process has ended well, after the last step. The others have voted for it, and end, too; one that has
  /// not heard that it counts loses the connection with this one, and a change tells it.
  [[nodiscard]] Actions finish(MemberId id, TimePoint now);
  /// No process of the host can be reached, and its agent ends them all.
  [[nodiscard]] Actions lose_host(int host, TimePoint now);
  /// The process is stopped by a signal; it goes on again.
  void stop(MemberId id, TimePoint now);
  void resume(MemberId id, TimePoint now);
  /// A message of any kind came from a member.
  void hear_from(MemberId id, TimePoint now);
  /// A member has lost the connection with another one.
  [[nodiscard]] Actions suspect(MemberId by, MemberId peer, TimePoint now);
  [[nodiscard]] Actions report(const Report& report, TimePoint now);
  [[nodiscard]] Actions formed(MemberId id, std::uint64_t generation, TimePoint now);
  /// A member is to go at the next step that counts: it has asked for it, or the job is to be smaller.
  [[nodiscard]] Actions let_go(MemberId id, TimePoint now);
  /// The job is to have up to `most` members from here on. If it has more now, the caller lets some go.
  [[nodiscard]] Actions resize(int most, TimePoint now);
  [[nodiscard]] Actions tick(TimePoint now);

  /// The time of the next `tick`.
  [[nodiscard]] TimePoint next() const;

 private:
  [[nodiscard]] bool is_member(MemberId id) const { return record_.rank_of(id) >= 0; }
  [[nodiscard]] std::vector<MemberId> living() const;
  void remove(MemberId id, TimePoint now, Actions& actions);
  void end_generation(TimePoint now, Actions& actions);
  void decide_if_complete(TimePoint now, Actions& actions);
  void decide(TimePoint now, Actions& actions);
  void begin(const GenerationRecord& next, TimePoint now, Actions& actions);
  void send_away(MemberId id, const std::string& why, Actions& actions);
  void finish_all(Actions& actions);
  void end_job(const std::string& why, Actions& actions);
  void start_first(TimePoint now, Actions& actions);
  void plan_change_if_due(TimePoint now, Actions& actions);
  void kill(Process& process, const std::string& why, Actions& actions);

  ElasticPolicy policy_;
  Phase phase_ = Phase::first;
  GenerationRecord record_;
  Processes processes_;
  TimePoint deadline_ = TimePoint::max();        // of the phase
  TimePoint pause_deadline_ = TimePoint::max();  // max: the job does not pause
  bool planned_ = false;                         // a change of this generation has been announced
  bool lost_any_ = false;                        // a member died in this change
  bool finished_ = false;                        // a member has ended after the last step
  bool ran_ = false;                             // steps may have been made in this generation
};

}  // namespace hora::elastic
