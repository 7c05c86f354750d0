// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/elastic/generation_record.h"
#include "core/elastic/resolve.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace hora::elastic {

/// The time in which all members connect; then a generation without those that do not come is chosen.
inline constexpr std::chrono::milliseconds kFormTimeout{5000};

/// The sizes and times of an elastic job. A value.
struct ElasticPolicy {
  int min_members = 1;    ///< with fewer the job pauses
  int max_members = 1;    ///< with the hot spares
  int hot_spares = 0;     ///< so many members train on nothing, and do when others are lost
  int first_members = 1;  ///< the first generation waits for so many
  /// After this time a member is ended that gives no sign of life; and one that is stopped (SIGSTOP), which 0
  /// never ends.
  std::chrono::milliseconds silence{1000};
  std::chrono::milliseconds stopped_after{200};
  std::chrono::milliseconds stop_timeout{5000};  ///< for a member to stop its engine and report
  std::chrono::milliseconds form_timeout = kFormTimeout;
  std::chrono::milliseconds pause_timeout{600'000};  ///< for processes that end a pause to come
};

/// A process that has joined, and has neither died nor been sent away, as the Leader knows it. A value.
struct Process {
  MemberInfo info;
  TimePoint heard{};                   ///< when it gave the last sign of life
  std::optional<TimePoint> stopped{};  ///< since when it is stopped
  std::optional<Report> report{};      ///< of the present generation
  bool formed = false;                 ///< it has formed the present generation
  bool killed = false;                 ///< its end is awaited
  bool goes = false;                   ///< it is to go at the next step that counts

  /// When it is ended because it gives no sign of life.
  [[nodiscard]] TimePoint silent_at(const ElasticPolicy& policy) const {
    if (!stopped) return heard + policy.silence;
    return policy.stopped_after.count() == 0 ? TimePoint::max() : *stopped + policy.stopped_after;
  }
};

/// The processes that have joined and are left, by their identities.
class Processes {
 public:
  void add(const MemberInfo& info, TimePoint now) {
    all_.emplace(info.id, Process{.info = info, .heard = now});
  }
  /// Returns whether it was there.
  bool remove(MemberId id) { return all_.erase(id) > 0; }
  [[nodiscard]] bool contains(MemberId id) const { return all_.contains(id); }
  /// Null: it is not there.
  [[nodiscard]] Process* find(MemberId id);
  /// Of one that is there.
  [[nodiscard]] Process& at(MemberId id) { return all_.at(id); }
  [[nodiscard]] const Process& at(MemberId id) const { return all_.at(id); }

  /// Those of a host.
  [[nodiscard]] std::vector<MemberId> on_host(int host) const;
  /// The members of a generation that are left, by rank.
  [[nodiscard]] std::vector<MemberId> members_of(const GenerationRecord& record) const;
  /// Those that wait to become members, the oldest first.
  [[nodiscard]] std::vector<MemberInfo> candidates(const GenerationRecord& record) const;
  /// Whether a member is to go, and others stay. Before the change they get the whole state.
  [[nodiscard]] bool can_let_go(const GenerationRecord& record) const;
  /// When the first of them is ended because it gives no sign of life.
  [[nodiscard]] TimePoint first_silent_at(const ElasticPolicy& policy) const;

  [[nodiscard]] bool empty() const { return all_.empty(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }

 private:
  std::map<MemberId, Process> all_;
};

}  // namespace hora::elastic
