// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/member.h"

#include <hora/status.h>

#include <fmt/format.h>

namespace hora::elastic {

using Does = MemberAction::Kind;

Member::Actions Member::hear_record(const GenerationRecord& record) {
  if (phase_ == Phase::ended) return {};
  const bool expected =
      phase_ == Phase::waiting || (phase_ == Phase::reported && record.generation == record_.generation + 1);
  if (!expected || record.rank_of(id_) < 0) {
    throw Error(Code::internal,
                fmt::format("member {} has got the record of generation {} while it is in generation {}", id_,
                            record.generation, record_.generation));
  }
  record_ = record;
  lost_.clear();
  phase_ = Phase::forming;
  return {{.kind = Does::form, .record = record_}};
}

Member::Actions Member::hear_stop(std::uint64_t generation) {
  return generation == record_.generation ? stop() : Actions();
}

Member::Actions Member::hear_go(std::uint64_t generation) {
  if (phase_ != Phase::forming || generation != record_.generation) return {};  // it has stopped meanwhile
  phase_ = Phase::running;
  return {{.kind = Does::start, .record = record_}};
}

Member::Actions Member::hear_out(const std::string& why) {
  if (phase_ == Phase::ended) return {};
  phase_ = Phase::ended;
  return {{.kind = Does::end, .why = why}};
}

Member::Actions Member::lose(const std::vector<MemberId>& peers) {
  const bool counts = phase_ == Phase::forming || phase_ == Phase::running || phase_ == Phase::stopping;
  Actions actions;
  for (const MemberId peer : peers) {
    if (counts && record_.rank_of(peer) >= 0 && lost_.insert(peer).second)
      actions.push_back({.kind = Does::suspect, .peer = peer});
  }
  if (actions.empty()) return actions;
  for (auto& each : stop()) actions.push_back(std::move(each));
  return actions;
}

Member::Actions Member::change_is_due() { return phase_ == Phase::running ? stop() : Actions(); }

Member::Actions Member::engine_stopped(Report report) {
  if (phase_ != Phase::stopping) return {};
  phase_ = Phase::reported;
  report.member = id_;
  report.generation = record_.generation;
  for (const MemberId peer : lost_) report.unreachable.push_back(peer);
  return {{.kind = Does::report, .report = std::move(report)}};
}

Member::Actions Member::formed() {
  if (phase_ != Phase::forming) return {};
  return {{.kind = Does::tell_formed, .record = record_}};
}

Member::Actions Member::stop() {
  if (phase_ != Phase::forming && phase_ != Phase::running) return {};
  phase_ = Phase::stopping;
  return {{.kind = Does::stop, .record = record_}};
}

}  // namespace hora::elastic
