// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/message.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Request request(const std::string& name) {
  return {Operation::alltoall,
          name,
          DType::float32,
          DType::float16,
          {64, 3, 7},
          {21, 1, 3},
          ReduceOp::average,
          0.5,
          2.0,
          1,
          true,
          "bundle",
          {60, 3},
          {0, 1},
          "",
          false,
          DeviceKind::cuda,
          4096,
          true,
          true,
          "backward() failed: bad batch"};
}

Ballot only(std::vector<Ballot> ballots) {
  EXPECT_EQ(ballots.size(), 1u);
  return std::move(ballots.front());
}

TEST(Ballot, ComesBackAsItWasSent) {
  const Ballot ballot{3, 7, {1, 2, 3, 9, 10, 200}, {request("a"), request("b")}, true};
  EXPECT_EQ(only(decode_ballots(encode(ballot), 2)), ballot);
  EXPECT_EQ(only(decode_ballots(encode(Ballot{}), 1)), Ballot{});
  Ballot report;
  report.report = Report::account;
  EXPECT_EQ(only(decode_ballots(encode(report), 1)), report);
  report.content = Bytes(1000, std::byte{7});
  EXPECT_EQ(only(decode_ballots(encode(report), 1)), report);
}

TEST(Ballot, TellsTheNameOfAProcessSetAndNothingElseHasOne) {
  Request set;
  set.operation = Operation::add_process_set;
  set.name = "hora.add_process_set.x[0,1]";
  set.set_name = "x";
  set.ranks = {0, 1};
  const Ballot ballot{kWorld, 0, {}, {set}, false};
  EXPECT_EQ(only(decode_ballots(encode(ballot), 2)), ballot);
  set.operation = Operation::allgather;
  EXPECT_THROW(decode_ballots(encode(Ballot{kWorld, 0, {}, {set}, false}), 2), Error);
}

TEST(Ballot, OneThatSpeaksForOthersSaysForWhomAndWhoWasLate) {
  Ballot ballot{kWorld, 7, {1, 2}, {request("a")}};
  ballot.ranks = RankSet(1, 9000);
  ballot.age = std::chrono::microseconds(300);
  ballot.late = {{RankSet(5), std::chrono::microseconds(250)}, {RankSet(7, 9), std::chrono::milliseconds(2)}};
  EXPECT_EQ(only(decode_ballots(encode(ballot), 9000)), ballot);
  EXPECT_THROW(decode_ballots(encode(ballot), 8999), Error);
}

TEST(Ballot, SeveralTravelTogether) {
  std::vector<Ballot> ballots(3);
  ballots[0].repeats = {4, 5};
  ballots[1].report = Report::trace;
  ballots[1].content = Bytes(9, std::byte{1});
  ballots[1].ranks = RankSet(3);
  ballots[2].leaving = true;
  ballots[2].stays_in_job = true;
  EXPECT_EQ(decode_ballots(encode(ballots), 4), ballots);
}

TEST(Ballot, AWholeStepOfRepeatsTakesAFewBytes) {
  Ballot ballot;
  for (DecisionId id = 1; id <= 161; ++id) ballot.repeats.push_back(id);
  EXPECT_LE(encode(ballot).size(), 8u);
}

TEST(Verdict, ComesBackAsItWasSent) {
  Verdict verdict;
  verdict.items.push_back({5, {}});
  verdict.items.push_back({4, {}});
  verdict.group = 4;
  verdict.items.push_back({0, {{}, request("w"), {3, 0, 2}, false, 2, {1, 2}}});
  verdict.items.push_back({0, {{Code::mismatch, "'x': differs"}, request("x"), {}, true, 3, {}}});
  verdict.items.push_back(
      {0, {{Code::rank_failed, "'y': rank 1's backward() failed"}, request("y"), {}, true, 3, {}}});
  verdict.end = true;
  verdict.fuse_up_to = std::uint64_t{1} << 40;
  EXPECT_EQ(decode_verdict(encode(verdict), 3), verdict);
  Verdict inquiry;
  inquiry.inquiry = true;
  EXPECT_EQ(decode_verdict(encode(inquiry), 3), inquiry);
}

TEST(Verdict, TellsWhoHasLeftAndRefusesThoseThatAreNoRanks) {
  Verdict verdict;
  verdict.left.add(RankSet(0));
  verdict.left.add(RankSet(2));
  verdict.ended = {3, 200};
  const Bytes bytes = encode(verdict);
  EXPECT_EQ(decode_verdict(bytes, 3), verdict);
  EXPECT_THROW(decode_verdict(bytes, 2), Error);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_verdict(std::span(bytes).first(length), 3), Error) << length;
}

TEST(Verdict, AWholeStepOfRepeatsTakesTwoBytesATensor) {
  Verdict verdict;
  for (DecisionId id = 1; id <= 100; ++id) verdict.items.push_back({id, {}});
  EXPECT_LE(encode(verdict).size(), 204u);
}

TEST(DecodeBallot, RefusesAnEnumeratorThatDoesNotExist) {
  auto bytes = encode(Ballot{kWorld, 0, {}, {request("a")}, false});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == std::byte{static_cast<unsigned char>(DType::float16)}) bytes[i] = std::byte{99};
  }
  EXPECT_THROW(decode_ballots(bytes, 2), Error);
}

TEST(DecodeBallot, RefusesARootThatIsNoRank) {
  EXPECT_THROW(decode_ballots(encode(Ballot{kWorld, 0, {}, {request("a")}, false}), 1), Error);
}

TEST(DecodeBallot, RefusesEveryTruncation) {
  const auto bytes = encode(Ballot{kWorld, 7, {1, 5}, {request("a")}, true});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(decode_ballots(std::span(bytes).first(length), 2), Error) << length;
  }
}

TEST(DecodeBallot, RefusesSplitsThatDoNotFitTheRowsAndRowsOfScalars) {
  Request wrong = request("a");
  wrong.splits = {60, 5};
  EXPECT_THROW(decode_ballots(encode(Ballot{kWorld, 0, {}, {wrong}, false}), 2), Error);
  wrong.splits = {-1, 5};
  EXPECT_THROW(decode_ballots(encode(Ballot{kWorld, 0, {}, {wrong}, false}), 2), Error);
  wrong.splits = {};
  wrong.shape = {};
  EXPECT_THROW(decode_ballots(encode(Ballot{kWorld, 0, {}, {wrong}, false}), 2), Error);
}

TEST(DecodeVerdict, RefusesADecisionWithoutAName) {
  Verdict verdict;
  verdict.items.push_back({0, {{}, request("w"), {}, true, 1, {}}});
  auto bytes = encode(verdict);
  ASSERT_NO_THROW(decode_verdict(bytes, 2));
  verdict.items.front().decision.request.name = "ww";
  EXPECT_THROW(decode_verdict(std::span(bytes).first(4), 2), Error);
}

TEST(Elements, CountsAndRefusesWhatCannotBe) {
  EXPECT_EQ(elements({}, DType::float32), 1);
  EXPECT_EQ(elements({3, 0, 5}, DType::float32), 0);
  EXPECT_EQ(elements({64, 3, 7, 7}, DType::float32), 9408);
  EXPECT_THROW(static_cast<void>(elements({-1}, DType::float32)), Error);
  EXPECT_THROW(static_cast<void>(elements({std::int64_t{1} << 40, std::int64_t{1} << 40}, DType::uint8)),
               Error);
  EXPECT_THROW(static_cast<void>(elements({std::int64_t{1} << 61}, DType::float64)), Error);
}

TEST(Describe, OfWhatHasNoTensorIsItsName) {
  Request request;
  for (const auto operation :
       {Operation::barrier, Operation::join, Operation::add_process_set, Operation::remove_process_set}) {
    request.operation = operation;
    EXPECT_EQ(describe(request), name(operation));
  }
}

TEST(Describe, IsDtypeAndShape) { EXPECT_EQ(describe(DType::bfloat16, {2, 3}), "bfloat16[2,3]"); }

TEST(Describe, OfARequestNamesItsOperation) {
  Request tensor;
  tensor.shape = {3};
  EXPECT_EQ(describe(tensor), "allreduce float32[3]");
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abc", 2), "ab");
  EXPECT_EQ(shortened("a\u00E9\u00E9", 4), "a\u00E9");
  EXPECT_EQ(shortened("\u20AC", 2), "");
}

}  // namespace
}  // namespace hora
