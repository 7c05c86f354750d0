// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/generation_record.h"
#include "runner/launch/placement.h"
#include "runner/launch/process.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hora::hrun {

/// A process of an elastic job, as hrun knows it. A value.
struct ElasticProcess {
  /// A process that has just been started.
  ElasticProcess(elastic::MemberId id, const RankPlacement& where, bool is_late)
      : info{id, where.host, where.local_rank, false}, late(is_late) {}

  elastic::MemberInfo info;
  std::uint16_t port = 0;              ///< where it listens for the next generation
  bool late = false;                   ///< it was started while the job ran
  bool joined = false;                 ///< it has asked to become a member
  bool is_member = false;              ///< of the last generation
  bool was_member = false;             ///< it has been one
  bool succeeds_member = false;        ///< a former process of its rank has been one
  bool finished = false;               ///< it has made the last step
  bool gone = false;                   ///< it has ended, or its host is lost
  bool going = false;                  ///< hrun has asked it to leave
  bool asks_to_go = false;             ///< it has asked to leave
  std::optional<TimePoint> stopped{};  ///< since when it is stopped by a signal
  std::optional<std::string> out{};    ///< it was told to leave, and why; empty: somebody had asked for that
  std::string killed{};                ///< why it was killed; empty: it was not

  [[nodiscard]] bool left_in_order() const { return out && out->empty(); }
  /// Others have trained with it, or have waited for it.
  [[nodiscard]] bool counts() const { return !late || was_member; }
  /// It may still become a member, or is one.
  [[nodiscard]] bool takes_part() const { return !gone && !finished && !out; }
  /// It will be there for a while, as far as hrun knows.
  [[nodiscard]] bool stays() const { return takes_part() && !going && !asks_to_go; }
  /// How it has ended, for the user: also why, if it was killed because the Leader asked for it.
  [[nodiscard]] std::string how(const Ending& ending) const {
    return killed.empty() ? ending.how : "was ended by hrun: " + killed;
  }
  /// Whether the job has lost a rank by its end.
  [[nodiscard]] bool is_loss(bool ends_well) const { return counts() && (!left_in_order() || !ends_well); }
};

/// The processes of an elastic job: those that were started last, by rank, and the identities of all that
/// were ever started. Not thread-safe.
class ElasticProcesses {
 public:
  /// `shares`: the ranks that are started.
  explicit ElasticProcesses(const std::vector<HostShare>& shares);

  [[nodiscard]] ElasticProcess& at(int rank) { return processes_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const ElasticProcess& at(int rank) const {
    return processes_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] int rank_of(elastic::MemberId id) const { return ranks_.at(id); }
  /// The process of the rank of this one.
  [[nodiscard]] ElasticProcess& of(elastic::MemberId id) { return at(rank_of(id)); }
  [[nodiscard]] int size() const { return static_cast<int>(processes_.size()); }
  /// Adds a new process: in place of the one of its rank, or of a rank of its own. Returns its identity.
  elastic::MemberId add(const RankPlacement& placement);
  /// The processes that were lost with a host.
  struct Lost {
    std::vector<int> ranks;
    elastic::MemberId member = 0;  ///< one of those that were members; 0: there was none
    bool any_counts = false;       ///< whether one counts that had not left
  };
  /// Notes that all processes of a host are gone.
  Lost lose_host(int host);
  /// Notes the members of a generation. Returns the ranks of those that were none before.
  std::vector<int> welcome(const elastic::GenerationRecord& record);
  /// Lets those go that have never been members. Returns their ranks.
  std::vector<int> let_latecomers_go();
  /// How many take part; and how many of these stay.
  [[nodiscard]] int left() const;
  [[nodiscard]] int staying() const;
  /// The ranks that train, are to begin, or have ended well; also those whose process is being replaced.
  [[nodiscard]] std::vector<int> ranks_left() const;
  /// How many have asked to leave, and are there yet.
  [[nodiscard]] int asking_to_go() const;
  /// The stopped processes that the Leader does not know: they have not joined, or were told to leave.
  [[nodiscard]] std::vector<int> stopped_aside() const;
  /// Whether a member stays; whether one does that is on one of these hosts.
  [[nodiscard]] bool any_member_stays() const;
  [[nodiscard]] bool any_member_stays_on(const std::set<int>& hosts) const;
  /// Whether one that takes part has joined.
  [[nodiscard]] bool any_has_joined() const;

 private:
  std::vector<ElasticProcess> processes_;
  std::map<elastic::MemberId, int> ranks_;
};

}  // namespace hora::hrun
