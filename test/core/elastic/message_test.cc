// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/message.h"

#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora::elastic {
namespace {

const GenerationRecord kRecord{3, {{7, 0, 0, true}, {8, 1, 0, false}}, 12, false};

/// One of each kind.
std::vector<LeaderMessage> leader_messages() {
  using Kind = LeaderMessage::Kind;
  return {{.kind = Kind::stop, .generation = 3, .lost = 8, .why = "rank 1 was killed"},
          {.kind = Kind::record, .record = kRecord, .coordinator = "127.0.0.1:4711", .secret = {1, 2, 3}},
          {.kind = Kind::go, .generation = 3},
          {.kind = Kind::out, .generation = 3, .why = "it cannot reach all other members"},
          {.kind = Kind::plan_change, .generation = 3}};
}

std::vector<MemberMessage> member_messages() {
  using Kind = MemberMessage::Kind;
  return {{.kind = Kind::join, .port = 4711},
          {.kind = Kind::beat},
          {.kind = Kind::suspect, .peer = 8},
          {.kind = Kind::report, .port = 4712, .report = {7, 3, 12, 11, true, false, false, {8}}},
          {.kind = Kind::formed, .generation = 3},
          {.kind = Kind::leave},
          {.kind = Kind::finish},
          {.kind = Kind::step, .generation = 4}};
}

TEST(ElasticMessage, IsReadAsItWasWrittenAndRefusedIfItIsCutOff) {
  for (const auto& message : leader_messages()) {
    const Bytes bytes = encode(message);
    EXPECT_EQ(decode_leader_message(bytes), message);
    EXPECT_THROW((void)decode_leader_message(std::span(bytes).first(bytes.size() - 1)), Error);
  }
  for (const auto& message : member_messages()) {
    const Bytes bytes = encode(message);
    EXPECT_EQ(decode_member_message(bytes), message);
    EXPECT_THROW((void)decode_member_message(std::span(bytes).first(bytes.size() - 1)), Error);
  }
  EXPECT_THROW((void)decode_leader_message(Bytes{std::byte{5}, std::byte{0}}), Error);
  EXPECT_THROW((void)decode_member_message(Bytes{std::byte{7}}), Error);
}

TEST(ElasticMessage, OfAReportCountsForTheProcessThatSendsIt) {
  Leader leader({.min_members = 1, .max_members = 2, .first_members = 2});
  const TimePoint now = TimePoint() + std::chrono::seconds(1);
  const MemberInfo one{1, 0, 0};
  const MemberInfo other{2, 0, 1};
  for (const auto& each : {one, other}) (void)deliver(leader, each, {.kind = MemberMessage::Kind::join}, now);
  const MemberMessage report{.kind = MemberMessage::Kind::report,
                             .report = {.member = 2, .generation = 1, .has_state = true}};
  (void)deliver(leader, one, report, now);
  EXPECT_EQ(leader.phase(), Leader::Phase::stopping) << "the other one has not reported";
  (void)deliver(leader, other, report, now);
  EXPECT_EQ(leader.record().generation, 2u);
}

TEST(ElasticMessage, CannotBeMadeOfATaskOfTheLeadersOwnProcess) {
  EXPECT_EQ(thrown([] { (void)message_of(LeaderAction{.kind = LeaderAction::Kind::kill}); }).code,
            Code::internal);
  EXPECT_EQ(thrown([] { (void)message_of(MemberAction{.kind = MemberAction::Kind::stop}); }).code,
            Code::internal);
}

}  // namespace
}  // namespace hora::elastic
