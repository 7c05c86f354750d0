// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/generation_record.h"
#include "core/elastic/resolve.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace hora::elastic {

/// A task for the process of a Member. A value.
struct MemberAction {
  enum class Kind {
    suspect,      ///< tell the leader that the connection with `peer` is lost
    stop,         ///< end all collectives of the generation, and then call `Member::engine_stopped`
    report,       ///< send `report` to the leader
    form,         ///< connect the members of `record`, and then call `Member::formed`
    tell_formed,  ///< tell the leader that the generation's connections are there
    start,        ///< the generation of `record` begins: threads of users may adopt it
    end,          ///< leave the job, for the reason `why`
  };
  Kind kind = Kind::end;
  MemberId peer = 0;
  Report report{};
  GenerationRecord record{};
  std::string why{};
};

/// The part of one process in the changes of generations, as a state machine without input, output or clock.
/// The caller passes events, and carries out the actions that they return, in their order. Not thread-safe.
///
///     waiting  --record with this member-->  forming  --formed, go-->  running
///     running, forming  --loss of a peer, or stop, or a planned change-->  stopping  --engine stopped-->
///     reported reported  --record with this member-->  forming;  --out-->  ended
///
/// Safety. A report is sent once for each generation, and only after the engine has stopped. From then on the
/// member votes for no step and makes none, until the record of the next generation says which steps count.
/// So what a report says stays true.
class Member {
 public:
  enum class Phase { waiting, forming, running, stopping, reported, ended };
  using Actions = std::vector<MemberAction>;

  explicit Member(MemberId id) : id_(id) {}

  [[nodiscard]] MemberId id() const { return id_; }
  [[nodiscard]] Phase phase() const { return phase_; }
  /// The generation that it is in, or forms; in the phase `waiting` without members.
  [[nodiscard]] const GenerationRecord& record() const { return record_; }

  // Messages of the leader. Throw Error(internal) if one contradicts what this member knows.

  /// The record of the next generation.
  [[nodiscard]] Actions hear_record(const GenerationRecord& record);
  /// All members of this generation are to stop and report.
  [[nodiscard]] Actions hear_stop(std::uint64_t generation);
  /// All members of this generation have formed it.
  [[nodiscard]] Actions hear_go(std::uint64_t generation);
  /// The next generation is without this member.
  [[nodiscard]] Actions hear_out(const std::string& why);

  // Events of this process.

  /// The connections with other members are lost, or cannot be made.
  [[nodiscard]] Actions lose(const std::vector<MemberId>& peers);
  /// The step at which a planned change was announced has been made, or nothing is under way.
  [[nodiscard]] Actions change_is_due();
  /// The engine has stopped after `stop`. `report`: the steps, the state, whether this process leaves, and
  /// the members that could not be reached while the generation was formed. The rest is filled in.
  [[nodiscard]] Actions engine_stopped(Report report);
  /// The connections of the generation that is being formed are there.
  [[nodiscard]] Actions formed();

 private:
  Actions stop();

  const MemberId id_;
  Phase phase_ = Phase::waiting;
  GenerationRecord record_;
  std::set<MemberId> lost_;  // in this generation
};

}  // namespace hora::elastic
