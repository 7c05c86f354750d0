// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stalls.h"

#include "core/backend/local/control_queues.h"
#include "test/core/watch/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr TimePoint kStart{};

std::vector<Request> tensor(const std::string& name) {
  Request request;
  request.name = name;
  request.shape = {3, 4};
  return {request};
}

/// Rank 0 of three, which asks for tensors that the others do not.
class StallsTest : public testing::Test {
 protected:
  Stalls::Advice look(Stalls& stalls, TimePoint now) { return stalls.look(negotiator_, now); }
  /// The advice when no rank has answered in time.
  Stalls::Advice ask_in_vain(Stalls& stalls, TimePoint now) {
    const auto first = look(stalls, now);
    EXPECT_THAT(first.ask, Not(IsEmpty()));
    EXPECT_EQ(first.next, now + seconds(1));
    return look(stalls, now + seconds(1));
  }

  std::shared_ptr<local::ControlQueues> queues_ = std::make_shared<local::ControlQueues>(3);
  std::unique_ptr<Control> control_ = local::make_local_control(queues_, 0);
  Negotiator negotiator_{*control_};
};

TEST_F(StallsTest, HaveNothingToSayWhileNothingWaits) {
  Stalls stalls({seconds(60), seconds(600)}, kMembers);
  EXPECT_EQ(look(stalls, kStart + seconds(1000)).next, TimePoint::max());
}

TEST_F(StallsTest, WarnWithTheAccountsOfThoseWhoAreMissing) {
  Stalls stalls({seconds(60), seconds(600)}, kMembers);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  EXPECT_EQ(look(stalls, kStart).next, kStart + seconds(60));
  EXPECT_THAT(look(stalls, kStart + seconds(60)).ask, ElementsAre(1, 2));
  stalls.tell(1, {41, "grad.6", milliseconds(61'000), "    evaluate in ./train"});
  EXPECT_EQ(look(stalls, kStart + seconds(60)).next, kStart + seconds(61)) << "rank 2 may still answer";
  stalls.tell(2, {});
  const auto advice = look(stalls, kStart + seconds(60));
  EXPECT_THAT(
      advice.warnings,
      ElementsAre("'grad' (allreduce float32[3,4]) has been waited for 60 s: rank 0 asked for it; missing:\n"
                  "  rank 1 (pid 11 on a). It lives; it finished 'grad.6' 61.0 s ago, the 41st of its "
                  "operations, and its main thread is at:\n"
                  "    evaluate in ./train\n"
                  "  rank 2 (pid 12 on b). It lives; it has finished no operation"));
  EXPECT_FALSE(advice.verdict);
  EXPECT_EQ(advice.next, kStart + seconds(120)) << "once each time the limit passes";
  EXPECT_THAT(look(stalls, kStart + seconds(119)).ask, IsEmpty());
  EXPECT_THAT(look(stalls, kStart + seconds(120)).ask, ElementsAre(1, 2));
}

TEST_F(StallsTest, DoNotWaitForAnAccountForLong) {
  Stalls stalls({seconds(60), {}}, kMembers);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  EXPECT_THAT(ask_in_vain(stalls, kStart + seconds(60)).warnings,
              ElementsAre(HasSubstr(
                  "rank 1 (pid 11 on a). It lives, but its engine has not said within 1 s what it does")));
  stalls.tell(1, {});  // too late: nobody has asked any more
}

TEST_F(StallsTest, AskAlsoThoseWhomATensorMissesThatBecomesOverdueMeanwhile) {
  Stalls stalls({seconds(60), {}}, kMembers);
  const TimePoint begin = Clock::now();
  Ballot ballot;
  ballot.requests = tensor("loss");
  local::make_local_control(queues_, 1)->send(0, encode(ballot));
  negotiator_.ask(kWorld, tensor("grad"), begin - seconds(30));
  negotiator_.hear(Clock::now(), false);
  const TimePoint late = Clock::now() + seconds(60);
  EXPECT_THAT(look(stalls, begin + seconds(30)).ask, ElementsAre(1, 2));
  for (const int rank : {1, 2}) stalls.tell(rank, {7, "before", {}, {}});
  EXPECT_THAT(look(stalls, late).ask, ElementsAre(0)) << "of whom nobody has asked yet";
  stalls.tell(0, {8, "earlier", {}, {}});
  const auto advice = look(stalls, late);
  EXPECT_THAT(advice.warnings,
              ElementsAre(AllOf(HasSubstr("'grad'"), HasSubstr("'before'"), HasSubstr("It waits itself")),
                          AllOf(HasSubstr("'loss'"), HasSubstr("'earlier'"), HasSubstr("It waits itself"))));
}

TEST_F(StallsTest, SayNothingOfWhatHasBeenDecidedMeanwhile) {
  Stalls stalls({seconds(60), {}}, kMembers);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  EXPECT_THAT(look(stalls, kStart + seconds(60)).ask, ElementsAre(1, 2));
  Ballot ballot;
  ballot.requests = tensor("grad");
  for (const int rank : {1, 2}) local::make_local_control(queues_, rank)->send(0, encode(ballot));
  negotiator_.hear(Clock::now(), false);
  EXPECT_THAT(look(stalls, kStart + seconds(61)).warnings, IsEmpty());
}

TEST_F(StallsTest, SayNothingOfWhatAllHaveAskedForAtLast) {
  Stalls stalls({seconds(60), seconds(100)}, kMembers);
  Ballot ballot;
  ballot.requests = tensor("grad");
  for (const int rank : {1, 2}) local::make_local_control(queues_, rank)->send(0, encode(ballot));
  negotiator_.hear(Clock::now(), false);
  negotiator_.ask(kWorld, tensor("grad"), Clock::now());  // decided when rank 0 next hears
  const auto advice = look(stalls, Clock::now() + seconds(1000));
  EXPECT_THAT(advice.ask, IsEmpty());
  EXPECT_FALSE(advice.verdict);
}

TEST_F(StallsTest, EndTheJobAfterTheTimeout) {
  Stalls stalls({seconds(60), seconds(100)}, kMembers);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  const auto warned = ask_in_vain(stalls, kStart + seconds(60));
  EXPECT_FALSE(warned.verdict);
  EXPECT_EQ(warned.next, kStart + seconds(100)) << "before the next warning";
  const auto advice = ask_in_vain(stalls, kStart + seconds(100));
  EXPECT_THAT(advice.warnings, IsEmpty());
  ASSERT_TRUE(advice.verdict);
  EXPECT_EQ(advice.verdict->code, Code::timeout);
  EXPECT_THAT(advice.verdict->message,
              StartsWith("'grad' (allreduce float32[3,4]) has been waited for 101 s"));
  EXPECT_THAT(advice.verdict->message, EndsWith("The job ends: HORA_MISSING_TIMEOUT is 100 s"));
}

TEST_F(StallsTest, MissARankFromTheEndOfItsDelayOn) {
  Stalls stalls({seconds(60), seconds(100)}, kMembers);
  stalls.expect_delay(1, {"evaluation", seconds(300)}, kStart);
  stalls.expect_delay(2, {"evaluation", seconds(200)}, kStart);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  EXPECT_EQ(look(stalls, kStart + seconds(61)).next, kStart + seconds(260))
      << "of the first who has no excuse";
  EXPECT_THAT(look(stalls, kStart + seconds(259)).ask, IsEmpty());
  EXPECT_THAT(
      ask_in_vain(stalls, kStart + seconds(260)).warnings,
      ElementsAre(HasSubstr("rank 2 (pid 12 on b), which expected to be busy with 'evaluation' for 200 s")));
  stalls.expect_delay(2, {"checkpoint", seconds(1000)}, kStart + seconds(262));
  EXPECT_THAT(look(stalls, kStart + seconds(359)).ask, IsEmpty());
  EXPECT_TRUE(ask_in_vain(stalls, kStart + seconds(400)).verdict) << "rank 1's is over since 300 s";
}

TEST_F(StallsTest, LookInTimeForAYoungerTensorIfTheOldestIsExcused) {
  Stalls stalls({seconds(60), {}}, kMembers);
  const TimePoint begin = Clock::now();
  for (const int rank : {1, 2}) stalls.expect_delay(rank, {"evaluation", seconds(300)}, begin);
  negotiator_.ask(kWorld, tensor("excused"), begin - seconds(30));
  Ballot ballot;
  ballot.requests = tensor("other");
  for (const int rank : {1, 2}) local::make_local_control(queues_, rank)->send(0, encode(ballot));
  negotiator_.hear(begin, false);
  const auto next = look(stalls, begin + seconds(30)).next;
  EXPECT_GE(next, begin + seconds(60)) << "rank 0 is late for the other one";
  EXPECT_LE(next, Clock::now() + seconds(60));
  EXPECT_THAT(look(stalls, next).ask, ElementsAre(0));
}

TEST_F(StallsTest, MissARankThatIsBackBeforeTheEndOfItsDelayFromThenOn) {
  Stalls stalls({seconds(60), seconds(100)}, kMembers);
  stalls.expect_delay(1, {"evaluation", seconds(3000)}, kStart);
  stalls.expect_delay(2, {"evaluation", seconds(3000)}, kStart);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  stalls.expect_delay(1, {}, kStart + seconds(200));
  EXPECT_THAT(look(stalls, kStart + seconds(259)).ask, IsEmpty()) << "it needs time to come to the tensor";
  EXPECT_THAT(ask_in_vain(stalls, kStart + seconds(260)).warnings,
              ElementsAre(testing::AllOf(HasSubstr("rank 1 (pid 11 on a). It lives"),
                                         HasSubstr("rank 2 (pid 12 on b), which expected"))));
  EXPECT_TRUE(ask_in_vain(stalls, kStart + seconds(300)).verdict);
}

TEST_F(StallsTest, TellOfTensorsThatWaitForTheSameRanksTogether) {
  Stalls stalls({seconds(60), {}}, kMembers);
  for (const auto* name : {"a", "b", "c"}) negotiator_.ask(kWorld, tensor(name), kStart);
  EXPECT_THAT(ask_in_vain(stalls, kStart + seconds(60)).warnings,
              ElementsAre(StartsWith("'a' (allreduce float32[3,4]) and 2 more has been waited for")));
}

TEST_F(StallsTest, SayWhatAMissingRankWaitsForItself) {
  Stalls stalls({seconds(60), {}}, kMembers);
  negotiator_.ask(kWorld, tensor("a"), kStart);
  Ballot ballot;
  ballot.requests = tensor("b");
  local::make_local_control(queues_, 1)->send(0, encode(ballot));
  negotiator_.hear(Clock::now(), false);
  EXPECT_THAT(ask_in_vain(stalls, kStart + seconds(60)).warnings.front(),
              HasSubstr("It waits itself, for 'b', which others have not submitted"));
}

/// Some ranks ask for a tensor, as ballots do.
void ask_for(const std::shared_ptr<local::ControlQueues>& queues, const std::vector<int>& ranks,
             const std::string& name) {
  Ballot ballot;
  ballot.requests = tensor(name);
  for (const int rank : ranks) local::make_local_control(queues, rank)->send(0, encode(ballot));
}

TEST_F(StallsTest, TellOneMistakeOnceWhereTwoSidesWaitForEachOther) {
  Stalls stalls({seconds(60), {}}, kMembers);
  negotiator_.ask(kWorld, tensor("only"), kStart);
  ask_for(queues_, {1, 2}, "gradient.0.weight");
  negotiator_.hear(kStart, false);
  EXPECT_THAT(look(stalls, Clock::now() + seconds(61)).ask, ElementsAre(1, 2));
  for (const int rank : {1, 2}) stalls.tell(rank, {4, "last", milliseconds(10), "train.py:7 in step"});
  EXPECT_THAT(
      look(stalls, Clock::now() + seconds(61)).warnings,
      ElementsAre(AllOf(
          StartsWith("'only' "), HasSubstr("ranks 1 and 2, all in the same place: rank 1 (pid 11"),
          HasSubstr("at train.py:7 in step. It waits itself, for 'gradient.0.weight'"),
          EndsWith("\nOnly rank 0 called it; call it on all ranks, not inside `if hvd.rank() == 0`."))));
}

TEST_F(StallsTest, BlameABackwardThatWasLeftOutForWhatItsRankDoesInstead) {
  Stalls stalls({seconds(60), {}}, kMembers);
  ask_for(queues_, {1}, "loss");
  negotiator_.hear(kStart, false);
  negotiator_.ask(kWorld, tensor("gradient.0.weight"), kStart + seconds(1));
  ask_for(queues_, {2}, "gradient.0.weight");
  negotiator_.hear(kStart, false);
  const auto said = ask_in_vain(stalls, Clock::now() + seconds(70)).warnings;
  EXPECT_THAT(said, ElementsAre(AllOf(StartsWith("'gradient.0.weight' "),
                                      HasSubstr("\nRank 1 did not call backward() in this step"))));
}

TEST_F(StallsTest, WarnInShortWhereNothingHasChanged) {
  Stalls stalls({seconds(60), {}}, kMembers);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  EXPECT_THAT(ask_in_vain(stalls, kStart + seconds(60)).warnings, ElementsAre(HasSubstr("It lives")));
  EXPECT_THAT(
      ask_in_vain(stalls, kStart + seconds(121)).warnings,
      ElementsAre("'grad' (allreduce float32[3,4]) has been waited for 122 s; still missing: ranks 1 and 2"));
  look(stalls, kStart + seconds(200));
  stalls.tell(1, {4, "x", {}, "train.py:7 in step"});
  EXPECT_THAT(look(stalls, kStart + seconds(201)).warnings, ElementsAre(HasSubstr("train.py:7 in step")));
}

/// Ranks 0 and 1 receive from each other, since `kStart`.
void receive_from_each_other(Stalls& stalls, TimePoint now) {
  const auto since = std::chrono::duration_cast<milliseconds>(now - kStart);
  for (const int rank : {0, 1}) stalls.tell_waits(rank, {{false, 1 - rank, 7, "int64[2]", 16, since}}, now);
}

TEST_F(StallsTest, WarnOfMessagesAndEndTheJobForThem) {
  Stalls stalls({seconds(60), seconds(100)}, kMembers);
  receive_from_each_other(stalls, kStart + seconds(60));
  const auto warned = ask_in_vain(stalls, kStart + seconds(60));
  EXPECT_THAT(
      warned.warnings,
      ElementsAre(
          AllOf(StartsWith("rank 0 has waited for 61 s for a message from rank 1 with tag 7 (int64[2]), "
                           "which has not been sent; missing:\n  rank 1 (pid 11 on a). It lives"),
                EndsWith("It waits itself, for a message from rank 0 with tag 7, which has not been sent")),
          StartsWith("rank 1 has waited for 61 s for a message from rank 0")));
  EXPECT_EQ(warned.next, kStart + seconds(100));
  const auto advice = ask_in_vain(stalls, warned.next);
  ASSERT_TRUE(advice.verdict);
  EXPECT_EQ(advice.verdict->code, Code::timeout);
  EXPECT_THAT(advice.verdict->message, StartsWith("rank 0 has waited for 101 s for a message from rank 1"));
}

TEST_F(StallsTest, CountMessagesOfOneRankThatMissTheSame) {
  Stalls stalls({seconds(60), {}}, kMembers);
  const MessageWait wait{true, 1, 7, "int8[99999]", 99'999, seconds(60)};
  stalls.tell_waits(2, {wait, wait, wait}, kStart + seconds(60));
  EXPECT_THAT(ask_in_vain(stalls, kStart + seconds(60)).warnings,
              ElementsAre(StartsWith("rank 2 has waited for 61 s until a message to rank 1 with tag 7 "
                                     "(int8[99999]) and 2 more is received; missing:")));
  EXPECT_THAT(
      ask_in_vain(stalls, kStart + seconds(121)).warnings,
      ElementsAre("rank 2 has waited for 122 s until a message to rank 1 with tag 7 (int8[99999]) and "
                  "2 more is received; still missing: rank 1"));
}

TEST_F(StallsTest, GiveNoHintForATensorWhoseMissingRankReceives) {
  Stalls stalls({seconds(60), {}}, kMembers);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  for (const int rank : {1, 2})
    stalls.tell_waits(rank, {{false, 0, 7, "int64[2]", 16, seconds(1)}}, kStart + seconds(60));
  EXPECT_THAT(
      ask_in_vain(stalls, kStart + seconds(60)).warnings,
      ElementsAre(AllOf(StartsWith("'grad' "), HasSubstr("It waits itself, for a message from rank 0"),
                        Not(HasSubstr("call it on all ranks")))));
}

TEST_F(StallsTest, WarnOnceOfShutdownAndNeverEndTheJobForIt) {
  Stalls stalls({seconds(60), seconds(100)}, kMembers);
  negotiator_.leave(kStart);
  negotiator_.hear(kStart, false);
  EXPECT_EQ(look(stalls, kStart).next, kStart + seconds(60));
  EXPECT_THAT(
      ask_in_vain(stalls, kStart + seconds(60)).warnings,
      ElementsAre(StartsWith("shutdown() has waited for 61 s: rank 0 called it; missing:\n  rank 1")));
  const auto advice = look(stalls, kStart + seconds(10'000));
  EXPECT_EQ(advice.next, TimePoint::max());
  EXPECT_THAT(advice.ask, IsEmpty());
  EXPECT_FALSE(advice.verdict);
}

TEST_F(StallsTest, NameTheProcessSet) {
  Stalls stalls({seconds(1), {}}, kMembers);
  negotiator_.add_group(1, {0, 2});
  negotiator_.ask(1, tensor("grad"), kStart);
  EXPECT_THAT(
      ask_in_vain(stalls, kStart + seconds(2)).warnings,
      ElementsAre(HasSubstr("in the process set of ranks 0 and 2 has been waited for 3 s: rank 0 asked")));
}

TEST_F(StallsTest, OnlyNameMostOfMany) {
  std::vector<Member> members;
  for (int rank = 0; rank < 20; ++rank) members.push_back({rank, 100 + rank, "a", {}});
  const auto control = local::make_local_control(std::make_shared<local::ControlQueues>(20), 0);
  Negotiator negotiator(*control);
  Stalls stalls({seconds(1), {}}, members);
  negotiator.ask(kWorld, tensor("grad"), kStart);
  stalls.look(negotiator, kStart + seconds(1));
  EXPECT_THAT(stalls.look(negotiator, kStart + seconds(2)).warnings.front(), EndsWith("\n  and ranks 9-19"));
}

TEST_F(StallsTest, ZeroMeansNever) {
  Stalls stalls({}, kMembers);
  negotiator_.ask(kWorld, tensor("grad"), kStart);
  const auto advice = look(stalls, kStart + seconds(10'000));
  EXPECT_EQ(advice.next, TimePoint::max());
  EXPECT_THAT(advice.ask, IsEmpty());
}

}  // namespace
}  // namespace hora
