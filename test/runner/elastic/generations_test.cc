// SPDX-License-Identifier: Apache-2.0
// Generations with real state machines of members at the other end, on a clock of the test's own.
#include "runner/elastic/generations.h"

#include "core/elastic/member.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <map>
#include <set>

namespace hora::hrun {
namespace {

using elastic::LeaderMessage;
using elastic::Member;
using elastic::MemberAction;
using elastic::MemberMessage;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Ending kKilled{137, "was killed by signal 9 (Killed)", 9};
const Ending kGood{0, "exited with code 0", 0};
const Ending kBad{3, "exited with code 3", 0};

/// An elastic job: members that do at once as they are told, and keep what they hear.
class ElasticRanks {
 public:
  explicit ElasticRanks(int least = 1, const std::vector<HostSlots>& hosts = {{"a", 2}, {"b", 2}},
                        const ReplacementPolicy& replacement = {}, std::optional<std::uint64_t> limit = {},
                        const std::vector<int>& capacities = {2, 2}, int most = kRanks, int spares = 0,
                        int first = kRanks)
      : generations_(place(hosts, kRanks, false), capacities,
                     {policy(least, most, first), replacement, spares, limit},
                     {[](int rank) { return fmt::format("(pid {})", 100 + rank); },
                      [](int host, int port) { return fmt::format("host{}:{}", host, port); },
                      [this] {
                        Secret secret{};
                        secret.fill(static_cast<unsigned char>(++secrets_));
                        return secret;
                      }},
                     now_) {
    for (int rank = 0; rank < kRanks; ++rank) members_.emplace(rank, Member(first_member(rank)));
  }

  static constexpr int kRanks = 4;

  void join(int rank) {
    MemberMessage join{.kind = MemberMessage::Kind::join};
    join.port = static_cast<std::uint16_t>(5000 + rank);
    tell(rank, join);
    settle();
  }
  void all_join() {
    for (int rank = 0; rank < kRanks; ++rank) join(rank);
  }
  void all_join_but_form_nothing() {
    for (int rank = 0; rank < kRanks; ++rank) frozen_.insert(rank);
    all_join();
  }
  void tell(int rank, const MemberMessage& message) { take(generations_.hear(rank, message, now_)); }
  [[nodiscard]] std::vector<int> left() const { return generations_.ranks_left(); }
  void finish(int rank) {
    tell(rank, {.kind = MemberMessage::Kind::finish});
    settle();
  }
  void change_is_due(int rank) {
    act(rank, members_.at(rank).change_is_due());
    settle();
  }
  /// A rank that fails reports that it is in no other generation.
  void leave_and_fail(int rank) {
    MemberMessage report{.kind = MemberMessage::Kind::report};
    report.report.generation = generations_.generation();
    report.report.leaving = true;
    frozen_.insert(rank);
    tell(rank, report);
    settle();
  }
  /// A rank ends; whether the job goes on without it.
  bool end(int rank, const Ending& ending = kKilled, bool common = false) {
    members_.erase(rank);
    const auto orders = generations_.ended(rank, ending, common, now_, now_);
    take(orders);
    settle();
    return orders.goes_on;
  }
  bool lose_host(int host, const std::vector<int>& ranks) {
    for (const int rank : ranks) members_.erase(rank);
    const auto orders = generations_.lose_host(host, fmt::format("host {} is lost: no answer", host), now_);
    take(orders);
    settle();
    return orders.goes_on;
  }
  void freeze(int rank) {
    frozen_.insert(rank);
    generations_.stopped(rank, now_);
  }
  void silence(int rank) { frozen_.insert(rank); }
  /// Time passes, and hrun does nothing.
  void stand_still(milliseconds time) {
    now_ += time;
    take(generations_.tick(now_));
  }
  /// Time passes; all ranks that can give signs of life.
  void pass(milliseconds time) {
    const TimePoint until = now_ + time;
    while (now_ < until) {
      now_ = std::min(until, now_ + milliseconds(100));
      for (const auto& [rank, member] : members_) {
        if (!frozen_.contains(rank)) tell(rank, {.kind = MemberMessage::Kind::beat});
      }
      take(generations_.tick(now_));
      settle();
    }
  }
  [[nodiscard]] std::vector<LeaderMessage> heard(int rank, LeaderMessage::Kind kind) const {
    std::vector<LeaderMessage> found;
    for (const auto& [to, message] : heard_) {
      if (to == rank && message.kind == kind) found.push_back(message);
    }
    return found;
  }
  [[nodiscard]] std::vector<int> members_of_record(int rank) const {
    std::vector<int> ranks;
    for (const auto& each : members_.at(rank).record().members)
      ranks.push_back(static_cast<int>(each.id) - 1);
    return ranks;
  }
  [[nodiscard]] Member::Phase phase(int rank) const { return members_.at(rank).phase(); }
  [[nodiscard]] std::string losses() const { return generations_.lost().describe(); }
  void resize(int size) {
    take(generations_.resize(size, now_));
    settle();
  }
  void set_capacity(int host, int slots) {
    take(generations_.set_capacity(host, slots, now_));
    settle();
  }
  void expect_ends() { generations_.expect_ends(); }
  [[nodiscard]] const Generations& generations() const { return generations_; }
  [[nodiscard]] TimePoint now() const { return now_; }

  std::vector<std::string> lines;
  std::vector<std::string> details;
  std::vector<int> kills;
  std::vector<int> starts;
  std::vector<GenerationOrders::End> ends;
  int formed = 0;

 private:
  static elastic::ElasticPolicy policy(int least, int most, int first) {
    elastic::ElasticPolicy policy;
    policy.min_members = least;
    policy.first_members = first;
    policy.max_members = most;
    policy.silence = milliseconds(5000);
    policy.pause_timeout = milliseconds(10'000);
    return policy;
  }

  void take(const GenerationOrders& orders) {
    for (const auto& message : orders.messages) on_their_way_.push_back(message);
    lines.insert(lines.end(), orders.lines.begin(), orders.lines.end());
    details.insert(details.end(), orders.details.begin(), orders.details.end());
    kills.insert(kills.end(), orders.kills.begin(), orders.kills.end());
    for (const auto& [placement, member] : orders.starts) {
      const int rank = placement.rank;
      starts.push_back(rank);
      EXPECT_TRUE(members_.emplace(rank, Member(member)).second) << "rank " << rank << " has a process";
    }
    if (orders.end) ends.push_back(*orders.end);
    formed += orders.formed ? 1 : 0;
  }

  void settle() {
    while (!on_their_way_.empty()) {
      const auto [rank, message] = on_their_way_.front();
      on_their_way_.pop_front();
      heard_.emplace_back(rank, message);
      if (members_.contains(rank) && !frozen_.contains(rank)) {
        act(rank, elastic::deliver(members_.at(rank), message));
      }
    }
  }

  void act(int rank, const Member::Actions& actions) {
    using Kind = MemberAction::Kind;
    Member& member = members_.at(rank);
    for (const auto& action : actions) {
      switch (action.kind) {
        case Kind::stop: {
          elastic::Report report;
          report.has_state = true;
          act(rank, member.engine_stopped(report));
          break;
        }
        case Kind::form: act(rank, member.formed()); break;
        case Kind::suspect:
        case Kind::report:
        case Kind::tell_formed: tell(rank, elastic::message_of(action)); break;
        case Kind::start:
        case Kind::end: break;
      }
    }
  }

  TimePoint now_{std::chrono::hours(1)};
  int secrets_ = 0;
  Generations generations_;
  std::map<int, Member> members_;
  std::set<int> frozen_;
  std::deque<GenerationOrders::Message> on_their_way_;
  std::vector<std::pair<int, LeaderMessage>> heard_;
};

using Said = LeaderMessage::Kind;

TEST(Generations, BeginWhenAllRanksHaveJoined) {
  ElasticRanks job;
  for (int rank = 0; rank < 3; ++rank) job.join(rank);
  EXPECT_EQ(job.formed, 0);
  job.join(3);
  EXPECT_EQ(job.formed, 1);
  EXPECT_THAT(job.lines, IsEmpty());
  EXPECT_THAT(job.details, ElementsAre("4 ranks have joined (generation 1)"));
  for (int rank = 0; rank < ElasticRanks::kRanks; ++rank) {
    const auto records = job.heard(rank, Said::record);
    ASSERT_THAT(records, SizeIs(1));
    EXPECT_EQ(records[0].coordinator, "host0:5000");
    EXPECT_EQ(records[0].secret[0], 1) << "all members have the same";
    EXPECT_EQ(records[0].record.members[3], (elastic::MemberInfo{4, 1, 1, false}));
    EXPECT_EQ(job.phase(rank), Member::Phase::running);
  }
}

TEST(Generations, GoOnWithoutAnyRankThatDies) {
  for (int dead = 0; dead < ElasticRanks::kRanks; ++dead) {
    SCOPED_TRACE(dead);
    ElasticRanks job;
    job.all_join();
    EXPECT_TRUE(job.end(dead));
    EXPECT_EQ(job.formed, 2);
    EXPECT_THAT(job.lines, ElementsAre(fmt::format(
                               "rank {} (pid {}) was killed by signal 9 (Killed); the job goes on with "
                               "3 of 4 ranks (generation 2)",
                               dead, 100 + dead)));
    for (int rank = 0; rank < ElasticRanks::kRanks; ++rank) {
      if (rank == dead) continue;
      EXPECT_EQ(job.phase(rank), Member::Phase::running);
      const auto stops = job.heard(rank, Said::stop);
      ASSERT_THAT(stops, SizeIs(1));
      EXPECT_EQ(stops[0].lost, first_member(dead));
      EXPECT_EQ(stops[0].why,
                fmt::format("rank {} (pid {}) was killed by signal 9 (Killed)", dead, 100 + dead));
      const auto records = job.heard(rank, Said::record);
      ASSERT_THAT(records, SizeIs(2));
      EXPECT_EQ(records[1].secret[0], 2) << "each generation has a new one";
      EXPECT_EQ(records[1].coordinator, dead == 0 ? "host0:5001" : "host0:5000");
    }
    EXPECT_EQ(
        job.details.back(),
        "generation 2: its members stopped 0.0 ms after the change was noticed, and were connected 0.0 ms "
        "later");
    EXPECT_EQ(job.losses(), fmt::format("1 of 4 ranks was lost: rank {} after 0.0 s (generation 1)", dead));
    EXPECT_THAT(job.ends, IsEmpty());
  }
}

TEST(Generations, TellMembersTheRanksOfTheirGenerationAndTheUserThoseOfTheStart) {
  ElasticRanks job;
  job.all_join();
  job.end(0);
  job.pass(milliseconds(1500));
  job.end(2);
  EXPECT_THAT(job.lines.back(), HasSubstr("rank 2 (pid 102) was killed"));
  EXPECT_EQ(job.heard(3, Said::stop).back().why, "rank 1 (pid 102) was killed by signal 9 (Killed)");
  EXPECT_EQ(job.losses(),
            "2 of 4 ranks were lost: rank 0 after 0.0 s (generation 1), rank 2 after 1.5 s (generation 2)");
  EXPECT_THAT(job.generations().lost().ranks(), ElementsAre(0, 2));
  EXPECT_EQ(job.generations().generation(), 3u);
}

TEST(Generations, EndARankThatIsStopped) {
  ElasticRanks job;
  job.all_join();
  job.freeze(1);
  EXPECT_LE(job.generations().next(), TimePoint(std::chrono::hours(1) + milliseconds(200)));
  job.pass(milliseconds(200));
  EXPECT_THAT(job.kills, ElementsAre(1));
  EXPECT_THAT(job.lines, IsEmpty()) << "its end is awaited";
  EXPECT_EQ(job.heard(0, Said::stop).back().why, "rank 1 (pid 101) was ended by hrun: it is stopped");
  EXPECT_TRUE(job.end(1));
  EXPECT_EQ(job.generations().how(1, kKilled), "was ended by hrun: it is stopped");
  EXPECT_EQ(job.generations().how(2, kKilled), kKilled.how);
  EXPECT_THAT(job.lines,
              ElementsAre("rank 1 (pid 101) was ended by hrun: it is stopped; the job goes on with 3 "
                          "of 4 ranks (generation 2)"));
  EXPECT_THAT(job.members_of_record(3), ElementsAre(0, 2, 3));
}

TEST(Generations, EndAStoppedProcessThatHasNotJoinedOrIsToLeave) {
  ElasticRanks early(1, {{"a", 4}}, {}, {}, {4}, ElasticRanks::kRanks, 0, 3);
  for (const int rank : {0, 1, 2}) early.join(rank);
  early.freeze(3);
  early.pass(milliseconds(100));
  EXPECT_THAT(early.kills, IsEmpty());
  early.pass(milliseconds(200));
  EXPECT_THAT(early.kills, ElementsAre(3));
  EXPECT_TRUE(early.end(3));
  EXPECT_EQ(early.formed, 1) << "of those that are left";

  ElasticRanks late;
  late.all_join();
  late.tell(3, {.kind = MemberMessage::Kind::leave});
  late.change_is_due(0);
  late.freeze(3);
  late.pass(milliseconds(300));
  EXPECT_THAT(late.kills, ElementsAre(3));
  EXPECT_TRUE(late.end(3)) << "it had left";
}

TEST(Generations, EndARankThatIsSilentButNotIfHrunStoodStillItself) {
  ElasticRanks job;
  job.all_join();
  job.stand_still(milliseconds(60'000));
  EXPECT_THAT(job.kills, IsEmpty());
  job.silence(2);
  job.pass(milliseconds(5000));
  EXPECT_THAT(job.kills, ElementsAre(2));
  EXPECT_EQ(job.heard(0, Said::stop).back().why,
            "rank 2 (pid 102) was ended by hrun: it gives no sign of life");
}

TEST(Generations, TellThatAConnectionIsLost) {
  ElasticRanks job;
  job.all_join();
  job.tell(3, {.kind = MemberMessage::Kind::suspect, .peer = first_member(1)});
  job.pass(milliseconds(100));
  EXPECT_EQ(job.heard(0, Said::stop).back().why,
            "rank 3 (pid 103) has lost the connection with rank 1 (pid 101)");
  EXPECT_EQ(job.heard(0, Said::stop).back().lost, first_member(1));
  EXPECT_THAT(job.lines,
              ElementsAre("rank 3 (pid 103) has lost the connection with rank 1 (pid 101); the job "
                          "goes on with 4 of 4 ranks (generation 2)"));
  EXPECT_EQ(job.losses(), "");
}

TEST(Generations, PauseWithTooFewRanksAndEndAfterATime) {
  ElasticRanks job(3);
  job.all_join();
  EXPECT_TRUE(job.end(0));
  EXPECT_TRUE(job.end(1));
  EXPECT_THAT(job.lines.back(),
              HasSubstr("; the job pauses with 2 of 4 ranks, as it needs 3 (generation 3)"));
  job.pass(milliseconds(9900));
  EXPECT_THAT(job.ends, IsEmpty());
  job.pass(milliseconds(100));
  ASSERT_THAT(job.ends, SizeIs(1));
  EXPECT_EQ(job.ends[0].status, kPausedTooLong);
  EXPECT_EQ(job.lines.back(), "the job cannot go on: it has had fewer than 3 ranks for 10 s");
}

TEST(Generations, EndTheJobWithTheLastRankThatHasTheState) {
  ElasticRanks job;
  job.all_join();
  for (int rank = 0; rank < ElasticRanks::kRanks; ++rank) {
    EXPECT_THAT(job.ends, IsEmpty());
    EXPECT_TRUE(job.end(rank));
  }
  ASSERT_THAT(job.ends, SizeIs(1));
  EXPECT_EQ(job.ends[0].status, kStateLost);
  EXPECT_EQ(job.lines.back(),
            "the job cannot go on: the state of the training is lost: no process that has it is left");
}

TEST(Generations, DoNotBeginWithoutARankThatEndedBefore) {
  for (const Ending& ending : {kBad, kGood}) {
    ElasticRanks job;
    EXPECT_FALSE(job.end(3, ending));
    EXPECT_THAT(job.ends, IsEmpty()) << "nobody waits";
    job.join(0);
    ASSERT_THAT(job.ends, SizeIs(1));
    EXPECT_EQ(job.ends[0].status, 0) << "that of the rank";
    EXPECT_THAT(job.lines, ElementsAre("the job cannot begin: it needs 4 ranks to begin, and 3 are left"));
  }
  ElasticRanks joined;
  for (const int rank : {0, 1, 2}) joined.join(rank);
  EXPECT_FALSE(joined.end(1)) << "it had joined";
  EXPECT_THAT(joined.ends, SizeIs(1));
}

TEST(Generations, HaveLostNobodyWhereAProgramDoesNotUseThem) {
  ElasticRanks job;
  for (int rank = 0; rank < ElasticRanks::kRanks; ++rank) EXPECT_FALSE(job.end(rank, kGood));
  EXPECT_THAT(job.ends, IsEmpty());
  EXPECT_EQ(job.losses(), "");
}

TEST(Generations, HaveLostNobodyWhomHrunHasToldToEnd) {
  ElasticRanks job;
  job.all_join();
  job.end(3);
  job.expect_ends();
  job.end(2);
  EXPECT_EQ(job.losses(), "1 of 4 ranks was lost: rank 3 after 0.0 s (generation 1)");
}

TEST(Generations, CannotBeginWhereAllRanksHaveGoneBeforeTheFirstStep) {
  ElasticRanks job;
  job.all_join_but_form_nothing();
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(job.end(rank, rank == 1 ? kBad : kGood));
  EXPECT_FALSE(job.end(3, kGood));
  ASSERT_THAT(job.ends, SizeIs(1));
  EXPECT_EQ(job.ends[0].status, 0) << "that of the rank that failed";
  EXPECT_EQ(job.lines.back(), "the job cannot begin: it needs 4 ranks to begin, and 0 are left");
}

TEST(Generations, AreOverWhenAllRanksHaveFinished) {
  ElasticRanks job;
  job.all_join();
  EXPECT_TRUE(job.end(2));
  const std::size_t lines = job.lines.size();
  for (const int rank : {0, 1, 3}) job.finish(rank);
  for (const int rank : {0, 1}) EXPECT_FALSE(job.end(rank, kGood));
  EXPECT_FALSE(job.end(3, kBad)) << "a failure after the last step is one of the job";
  EXPECT_EQ(job.lines.size(), lines);
  EXPECT_THAT(job.ends, IsEmpty());
  EXPECT_EQ(job.losses(), "1 of 4 ranks was lost: rank 2 after 0.0 s (generation 1)");
}

TEST(Generations, GoOnWithoutAHost) {
  ElasticRanks job;
  job.all_join();
  EXPECT_TRUE(job.lose_host(0, {0, 1}));
  EXPECT_THAT(job.lines,
              ElementsAre("host 0 is lost: no answer; the job goes on with 2 of 4 ranks (generation 2)"));
  EXPECT_EQ(job.heard(2, Said::stop).back().lost, first_member(0));
  EXPECT_EQ(job.heard(2, Said::stop).back().why, "host 0 is lost: no answer");
  EXPECT_EQ(job.heard(2, Said::record).back().coordinator, "host1:5002");
  EXPECT_THAT(job.losses(), HasSubstr("2 of 4 ranks were lost: rank 0"));
}

TEST(Generations, LetARankGoThatAsksForIt) {
  ElasticRanks job;
  job.all_join();
  job.tell(1, {.kind = MemberMessage::Kind::leave});
  job.pass(milliseconds(100));
  ASSERT_THAT(job.heard(0, Said::plan_change), SizeIs(1));
  job.change_is_due(0);
  EXPECT_EQ(job.phase(1), Member::Phase::ended);
  EXPECT_THAT(job.lines,
              ElementsAre("rank 1 (pid 101) has left; the job goes on with 3 of 4 ranks (generation 2)"));
  EXPECT_EQ(job.heard(2, Said::stop).back().lost, 0u);
  EXPECT_TRUE(job.end(1, kGood));
  EXPECT_EQ(job.losses(), "") << "it left in order";
  job.tell(3, {.kind = MemberMessage::Kind::leave});
  job.change_is_due(0);
  job.finish(3);
  EXPECT_TRUE(job.end(3, kBad)) << "it was no member any more when it finished";
}

TEST(Generations, DoNotFailBecauseOfARankThatHadLeft) {
  ElasticRanks job;
  job.all_join();
  job.leave_and_fail(1);
  for (const int rank : {0, 2, 3}) job.finish(rank);
  EXPECT_TRUE(job.end(1, kBad)) << "also after the end of the training";
  EXPECT_THAT(job.lines, ElementsAre("rank 1 (pid 101) ends because its program has failed; the job goes on "
                                     "with 3 of 4 ranks (generation 2)"));
  EXPECT_EQ(job.losses(), "1 of 4 ranks was lost: rank 1 after 0.0 s (generation 2)");
  EXPECT_THAT(job.ends, IsEmpty());
}

TEST(Generations, TakeAJoinOnce) {
  ElasticRanks job;
  job.all_join();
  job.end(0);
  job.join(1);
  EXPECT_EQ(job.formed, 2);
  EXPECT_THAT(job.heard(1, Said::record), SizeIs(2));
}

/// Rules by which a rank rests for 10 s after its second failure.
ReplacementPolicy replacing(int most = 100) { return {.most = most}; }

TEST(Generations, ReplaceARankThatDies) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(), {}, {4});
  ranks.all_join();
  EXPECT_TRUE(ranks.end(2));
  EXPECT_THAT(ranks.starts, ElementsAre(2));
  EXPECT_EQ(ranks.losses(), "1 of 4 ranks was lost: rank 2 after 0.0 s (generation 1)");
  ranks.pass(milliseconds(2000));
  ranks.join(2);
  EXPECT_THAT(ranks.heard(0, Said::plan_change), SizeIs(1));
  ranks.change_is_due(0);
  EXPECT_EQ(ranks.phase(2), Member::Phase::running);
  EXPECT_THAT(ranks.lines,
              ElementsAre("rank 2 (pid 102) was killed by signal 9 (Killed); the job goes on with 3 of 4 "
                          "ranks (generation 2)",
                          "rank 2 (pid 102) has joined; the job goes on with 4 of 4 ranks (generation 3)"));
  EXPECT_THAT(ranks.generations().lost().ranks(), IsEmpty());
  EXPECT_EQ(ranks.losses(), "1 process was lost, and 1 replaced: rank 2 after 0.0 s (generation 1)");
  EXPECT_TRUE(ranks.end(2)) << "the one that has replaced it";
  EXPECT_EQ(ranks.losses(),
            "2 processes were lost, and 1 replaced: rank 2 after 0.0 s (generation 1), rank 2 after 2.0 s "
            "(generation 3)");
}

TEST(Generations, LetARankRestThatFailsAgainAndAgain) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(), {}, {4});
  ranks.all_join();
  ranks.end(2);
  EXPECT_TRUE(ranks.end(2, kBad)) << "before it has joined";
  EXPECT_THAT(ranks.starts, ElementsAre(2));
  EXPECT_EQ(ranks.lines.at(1), "rank 2 (pid 102) exited with code 3 before it has joined the job");
  EXPECT_EQ(ranks.lines.at(2), "rank 2 fails again and again: its next process is started in 10 s");
  ranks.pass(milliseconds(9900));
  EXPECT_THAT(ranks.starts, SizeIs(1));
  ranks.pass(milliseconds(200));
  EXPECT_THAT(ranks.starts, ElementsAre(2, 2));
}

TEST(Generations, ReplaceNobodyBeforeTheFirstGenerationAndAfterTheTraining) {
  ElasticRanks early(1, {{"a", 4}}, replacing(), {}, {4});
  early.join(0);
  EXPECT_FALSE(early.end(3, kBad));
  EXPECT_THAT(early.starts, IsEmpty());

  ElasticRanks late(1, {{"a", 4}}, replacing(), {}, {4});
  late.all_join();
  late.end(3);
  EXPECT_THAT(late.starts, ElementsAre(3));
  late.finish(0);
  EXPECT_THAT(late.kills, ElementsAre(3)) << "it has not joined, and is of no use any more";
  EXPECT_TRUE(late.end(3));
  EXPECT_TRUE(late.end(2)) << "after it has made the last step, or before: the job does not need it";
  EXPECT_THAT(late.starts, SizeIs(1));
  EXPECT_THAT(late.lines, testing::Each(testing::Not(HasSubstr("before it has joined"))));
}

TEST(Generations, LetHrunWaitForNoRankThatRestsOnceTheTrainingHasEnded) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(), {}, {4});
  ranks.all_join();
  ranks.end(2);
  ranks.end(2, kBad);  // it rests for 10 s
  ranks.finish(0);
  ranks.pass(milliseconds(11'000));
  EXPECT_GT(ranks.generations().next(), ranks.now()) << "hrun would turn without a pause";
  EXPECT_THAT(ranks.starts, ElementsAre(2)) << "before that";
}

TEST(Generations, ReplaceNoMoreProcessesThanTheUserWants) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(1), {}, {4});
  ranks.all_join();
  ranks.end(3);
  ranks.end(1);
  ranks.pass(milliseconds(30'000));
  EXPECT_THAT(ranks.starts, ElementsAre(3));
}

TEST(Generations, TryALostHostAgainAfterARest) {
  ElasticRanks ranks(1, {{"a", 2}, {"b", 2}}, replacing());
  ranks.all_join();
  EXPECT_TRUE(ranks.lose_host(1, {2, 3}));
  ranks.pass(milliseconds(9900));
  EXPECT_THAT(ranks.starts, IsEmpty());
  ranks.pass(milliseconds(200));
  EXPECT_THAT(ranks.starts, ElementsAre(2, 3));
  EXPECT_TRUE(ranks.lose_host(1, {2, 3})) << "it cannot be connected";
  EXPECT_EQ(ranks.lines.back(), "host 1 is lost: no answer; it is tried again in 20 s");
  ranks.finish(0);
  EXPECT_TRUE(ranks.lose_host(1, {})) << "nobody was there";
}

TEST(Generations, BeginWithoutAHostThatIsLostBefore) {
  ElasticRanks ranks(1, {{"a", 2}, {"b", 2}}, replacing(), {}, {2, 2}, ElasticRanks::kRanks, 0, 2);
  EXPECT_TRUE(ranks.lose_host(1, {2, 3}));
  ranks.join(0);
  ranks.join(1);
  EXPECT_EQ(ranks.formed, 1);
}

TEST(Generations, EndAJobOfWhichMostRanksHaveTheSameError) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(), {}, {4});
  ranks.all_join();
  ranks.end(3, kBad);
  ranks.end(2, kBad);
  EXPECT_THAT(ranks.ends, IsEmpty());
  ranks.end(1, kBad, true);
  ASSERT_THAT(ranks.ends, SizeIs(1));
  EXPECT_EQ(ranks.ends.front().status, 0) << "that of the rank";
  EXPECT_THAT(ranks.lines,
              testing::Contains("the job cannot go on: most ranks have ended with the same error"));
}

TEST(Generations, CountRanksThatHaveEndedWellAsThoseWithoutAnError) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(), {}, {5}, 4, 1);
  ranks.all_join();
  EXPECT_THAT(ranks.left(), ElementsAre(0, 1, 2, 3)) << "a spare that waits does not count";
  ranks.end(3);
  EXPECT_THAT(ranks.left(), ElementsAre(0, 1, 2, 3)) << "it is being replaced";
  ranks.finish(0);
  EXPECT_THAT(ranks.left(), testing::IsSupersetOf({0, 1, 2}));
}

TEST(Generations, EndAJobWhoseRanksChangeTooOften) {
  ElasticRanks ranks(1, {{"a", 4}}, {}, 1, {4});
  ranks.all_join();
  ranks.end(3);
  EXPECT_THAT(ranks.ends, IsEmpty());
  ranks.end(2);
  ASSERT_THAT(ranks.ends, SizeIs(1));
  EXPECT_EQ(ranks.lines.back(), "the job cannot go on: its ranks have changed 2 times (--reset-limit 1)");
}

/// An elastic job of four ranks on host a, which may have up to eight there and on host b.
ElasticRanks growing(int spares = 0) {
  return ElasticRanks(1, {{"a", 4}}, replacing(), {}, {6, 2}, 8, spares);
}

TEST(Generations, StartProcessesInFreeSlotsUntilTheJobHasAllItsRanks) {
  ElasticRanks ranks = growing();
  ranks.all_join();
  EXPECT_THAT(ranks.starts, ElementsAre(4, 5, 6, 7));
  for (const int rank : {4, 5, 6, 7}) ranks.join(rank);
  ranks.change_is_due(0);
  EXPECT_THAT(ranks.lines.back(),
              HasSubstr("rank 7 (pid 107) has joined; the job goes on with 8 of 8 ranks"));
  EXPECT_EQ(ranks.heard(0, Said::record).back().record.members.back(), (elastic::MemberInfo{8, 1, 1, false}));
}

TEST(Generations, LetTheLastRanksGoWhenTheJobIsToBeSmaller) {
  ElasticRanks ranks = growing();
  ranks.all_join();
  ranks.join(5);  // 4, 6 and 7 have not joined
  ranks.change_is_due(0);
  ranks.resize(2);
  EXPECT_THAT(ranks.kills, testing::UnorderedElementsAre(4, 6, 7));
  for (const int rank : {4, 6, 7}) EXPECT_TRUE(ranks.end(rank));
  ranks.change_is_due(0);
  EXPECT_THAT(ranks.members_of_record(0), ElementsAre(0, 1));
  EXPECT_THAT(ranks.lines.back(), HasSubstr("; the job goes on with 2 of 2 ranks"));
  for (const int rank : {2, 3, 5}) EXPECT_TRUE(ranks.end(rank, kGood));
  ranks.starts.clear();
  ranks.pass(milliseconds(60'000));
  EXPECT_THAT(ranks.starts, IsEmpty());
  EXPECT_EQ(ranks.losses(), "");
  ranks.resize(3);
  EXPECT_THAT(ranks.starts, ElementsAre(2)) << "at once";
}

TEST(Generations, RefuseSizesThatTheJobCannotHave) {
  ElasticRanks ranks = growing();
  EXPECT_THROW(ranks.resize(5), Error) << "it has not begun";
  ranks.all_join();
  for (const int size : {0, 9}) EXPECT_THROW(ranks.resize(size), Error);
  ranks.resize(1);
  ranks.finish(0);
  EXPECT_THROW(ranks.resize(2), Error) << "its training has ended";
}

TEST(Generations, LetSparesTakeThePlacesOfLostRanks) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(), {}, {6}, ElasticRanks::kRanks, 1);
  ranks.all_join();
  EXPECT_THAT(ranks.starts, ElementsAre(4));
  ranks.join(4);
  EXPECT_THAT(ranks.heard(0, Said::plan_change), IsEmpty()) << "it waits";
  ranks.end(2);
  EXPECT_THAT(ranks.heard(1, Said::plan_change), SizeIs(0));
  ASSERT_THAT(ranks.heard(0, Said::plan_change), SizeIs(1));
  ranks.change_is_due(0);
  EXPECT_THAT(ranks.lines.back(),
              HasSubstr("rank 4 (pid 104) has joined; the job goes on with 4 of 4 ranks"));
  EXPECT_THAT(ranks.starts, ElementsAre(4, 2)) << "another spare";
}

TEST(Generations, ReplaceARankThatCrashesAlsoAfterAnotherOneHasLeft) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(), {}, {6});
  ranks.all_join();
  ranks.tell(1, {.kind = MemberMessage::Kind::leave});
  ranks.pass(milliseconds(100));
  EXPECT_THAT(ranks.starts, IsEmpty()) << "nobody takes the place of one that leaves";
  ranks.change_is_due(0);
  ranks.end(1, kGood);
  ranks.end(2);
  EXPECT_THAT(ranks.starts, ElementsAre(2));
}

TEST(Generations, DoNotFailBecauseOfASpareThatIsEndedAfterTheTraining) {
  ElasticRanks ranks(1, {{"a", 4}}, replacing(), {}, {5}, ElasticRanks::kRanks, 1);
  ranks.all_join();
  ranks.join(4);
  for (const int rank : {0, 1, 2, 3}) ranks.finish(rank);
  EXPECT_THAT(ranks.kills, ElementsAre(4));
  EXPECT_TRUE(ranks.end(4)) << "it waits, and is told that the training has ended, when it is killed";
  EXPECT_EQ(ranks.losses(), "");
}

TEST(Generations, LetAllRanksLeaveAHostThatIsDrained) {
  ElasticRanks ranks(1, {{"a", 2}, {"b", 2}}, replacing(), {}, {2, 2, 1});
  ranks.all_join();
  ranks.set_capacity(1, 0);
  EXPECT_THAT(ranks.starts, ElementsAre(4)) << "on the third host, before they have left";
  ranks.change_is_due(0);
  EXPECT_THAT(ranks.members_of_record(0), ElementsAre(0, 1));
  for (const int rank : {2, 3}) EXPECT_TRUE(ranks.end(rank, kGood));
  EXPECT_FALSE(ranks.generations().any_stays_on({1, 2}));
  ranks.set_capacity(3, 1);
  EXPECT_THAT(ranks.starts, ElementsAre(4, 5)) << "a new host";
  ranks.set_capacity(1, 1);
  EXPECT_THAT(ranks.starts, ElementsAre(4, 5)) << "the job has its ranks";
}

}  // namespace
}  // namespace hora::hrun
