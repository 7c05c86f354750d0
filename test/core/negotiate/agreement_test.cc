// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/agreement.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hora {
namespace {

Request shaped(std::vector<std::int64_t> shape, Operation operation = Operation::allreduce) {
  Request request;
  request.operation = operation;
  request.name = "layer1.weight";
  request.shape = std::move(shape);
  return request;
}

Decision agree_on(const std::vector<Request>& requests) {
  std::vector<int> members(requests.size());
  std::iota(members.begin(), members.end(), 0);
  std::vector<Voice> voices;
  for (const int place : members)
    voices.push_back({RankSet(place), std::make_shared<Request>(requests[static_cast<std::size_t>(place)])});
  return agree(voices, members);
}

TEST(Agree, EqualRequestsMakeADecision) {
  const auto decision = agree_on({shaped({3}), shaped({3})});
  EXPECT_TRUE(decision.status.ok());
  EXPECT_EQ(decision.request, shaped({3}));
  EXPECT_TRUE(decision.contributed);
}

TEST(Agree, NamesTensorRanksAndBothShapes) {
  const auto decision = agree_on({shaped({64, 3, 7, 7}), shaped({64, 3, 5, 5}), shaped({64, 3, 7, 7})});
  EXPECT_EQ(decision.status.code, Code::mismatch);
  EXPECT_EQ(decision.status.message,
            "'layer1.weight': tensor differs between ranks: float32[64,3,7,7] on ranks 0 and "
            "2, float32[64,3,5,5] on rank 1");
}

TEST(Agree, NamesBothOperations) {
  const auto decision = agree_on({shaped({3}), shaped({3}, Operation::broadcast)});
  EXPECT_EQ(decision.status.message,
            "'layer1.weight': operation differs between ranks: allreduce on rank 0, broadcast on rank 1");
}

TEST(Agree, NamesDtypesReductionsRootsFactorsAndWires) {
  auto other = shaped({3});
  other.dtype = DType::int64;
  EXPECT_NE(agree_on({shaped({3}), other}).status.message.find("float32[3] on rank 0, int64[3] on rank 1"),
            std::string::npos);
  other = shaped({3});
  other.op = ReduceOp::max;
  EXPECT_NE(agree_on({shaped({3}), other}).status.message.find("reduction differs between ranks: sum"),
            std::string::npos);
  other = shaped({3});
  other.root = 1;
  EXPECT_NE(agree_on({shaped({3}), other})
                .status.message.find("root rank differs between ranks: 0 on rank 0, 1 on"),
            std::string::npos);
  other = shaped({3});
  other.prescale = 0.5;
  EXPECT_NE(agree_on({shaped({3}), other}).status.message.find("prescale factor differs"), std::string::npos);
  other = shaped({3});
  other.postscale = 0.5;
  EXPECT_NE(agree_on({shaped({3}), other}).status.message.find("postscale factor differs"),
            std::string::npos);
  other = shaped({3});
  other.strides = {2};
  EXPECT_NE(agree_on({shaped({3}), other})
                .status.message.find("that of the shape on rank 0, strides (2) on rank 1"),
            std::string::npos);
  other = shaped({3});
  other.device = DeviceKind::cuda;
  EXPECT_NE(
      agree_on({shaped({3}), other}).status.message.find("device differs between ranks: CPU on rank 0, GPU"),
      std::string::npos);
  other = shaped({3});
  other.symmetric_address = 128;
  EXPECT_EQ(agree_on({other, other}).request.symmetric_address, 128u);
  EXPECT_EQ(agree_on({shaped({3}), other}).request.symmetric_address, 0u)
      << "where it lies is no reason to fail";
  auto padded = other;
  padded.padded = true;
  EXPECT_TRUE(agree_on({padded, padded}).request.padded);
  EXPECT_FALSE(agree_on({padded, other}).request.padded) << "nor is what lies behind it";
  EXPECT_EQ(agree_on({padded, other}).request.symmetric_address, 128u);
  other = shaped({3});
  other.wire = DType::bfloat16;
  EXPECT_NE(agree_on({shaped({3}), other}).status.message.find("wire dtype differs"), std::string::npos);
}

TEST(Agree, AllgatherTakesDifferentFirstDimensions) {
  const auto decision = agree_on({shaped({3, 4}, Operation::allgather), shaped({0, 4}, Operation::allgather),
                                  shaped({2, 4}, Operation::allgather)});
  EXPECT_TRUE(decision.status.ok());
  EXPECT_EQ(decision.rows, (std::vector<std::int64_t>{3, 0, 2}));
  EXPECT_EQ(decision.request.shape, (std::vector<std::int64_t>{5, 4}));
}

TEST(Agree, AllgatherWantsTheOtherDimensionsEqual) {
  const auto decision =
      agree_on({shaped({3, 4}, Operation::allgather), shaped({3, 5}, Operation::allgather)});
  EXPECT_EQ(decision.status.code, Code::mismatch);
}

TEST(Agree, AllgatherRefusesMoreRowsThanMemoryCanHold) {
  const auto decision = agree_on({shaped({std::int64_t{1} << 59}, Operation::allgather),
                                  shaped({std::int64_t{1} << 59}, Operation::allgather),
                                  shaped({std::int64_t{1} << 59}, Operation::allgather)});
  EXPECT_EQ(decision.status.code, Code::mismatch);
}

TEST(Agree, ATensorThatIsAbsentEverywhereIsNotContributed) {
  auto absent = shaped({3});
  absent.absent = true;
  EXPECT_TRUE(agree_on({absent, shaped({3})}).contributed);
  EXPECT_FALSE(agree_on({absent, absent}).contributed);
}

Request failed(const std::string& why, std::int64_t length = 3) {
  auto request = shaped({length});
  request.failed_with = why;
  return request;
}

TEST(Agree, SaysWhyARankCannotBringItsTensorAndNotThatItDiffers) {
  const auto decision = agree_on({shaped({3}), failed("backward() failed: bad batch", 4), shaped({3})});
  EXPECT_EQ(decision.status.code, Code::rank_failed);
  EXPECT_EQ(decision.status.message, "'layer1.weight': rank 1's backward() failed: bad batch");
  EXPECT_EQ(agree_on({failed("x failed"), failed("y failed")}).status.message,
            "'layer1.weight': rank 0's x failed; rank 1's y failed");
}

TEST(Agree, TheLongestReasonsOfManyRanksFitIntoAVerdict) {
  Verdict verdict;
  verdict.items.push_back(
      {0, agree_on(std::vector<Request>(100, failed(std::string(kMostFailureBytes, 'x'))))});
  EXPECT_EQ(verdict.items.front().decision.status.code, Code::rank_failed);
  EXPECT_EQ(decode_verdict(encode(verdict), 100), verdict);
}

TEST(Agree, ShortensMessagesThatWouldNotFit) {
  std::vector<Request> requests(100);
  for (std::size_t rank = 0; rank < requests.size(); ++rank) {
    const auto extent = 1'000'000'000'000'000'000 + static_cast<std::int64_t>(rank);
    requests[rank] = shaped(std::vector<std::int64_t>(kMostDimensions, extent));
    requests[rank].shape.front() = 0;  // so large a tensor must be empty
  }
  Verdict verdict;
  verdict.items.push_back({0, agree_on(requests)});
  EXPECT_EQ(decode_verdict(encode(verdict), 100), verdict);
}

TEST(Agree, RefusesMoreGatheredRowsThanThereCanBe) {
  for (const std::size_t ranks : {2U, 3U, 4U}) {
    auto request = shaped({std::int64_t{1} << 62, 0}, Operation::allgather);
    request.dtype = DType::uint8;
    const Decision decision = agree_on(std::vector<Request>(ranks, request));
    EXPECT_EQ(decision.status.code, Code::mismatch) << ranks;
    Verdict verdict;
    verdict.items.push_back({0, decision});
    EXPECT_EQ(decode_verdict(encode(verdict), static_cast<int>(ranks)), verdict);  // all can hear of it
  }
}

TEST(Agree, NamesRanksAndNotPlaces) {
  const std::vector<Voice> voices{{RankSet(0), std::make_shared<Request>(shaped({3}))},
                                  {RankSet(1), std::make_shared<Request>(shaped({4}))}};
  EXPECT_EQ(agree(voices, {2, 7}).status.message,
            "'layer1.weight': tensor differs between ranks: float32[3] on rank 2, float32[4] on rank 7");
}

TEST(Agree, AVoiceOfManyCountsForEachOfThem) {
  std::vector<int> members(10000);
  std::iota(members.begin(), members.end(), 0);
  const auto usual = std::make_shared<Request>(shaped({3}, Operation::allgather));
  const auto other = std::make_shared<Request>(shaped({5}, Operation::allgather));
  RankSet most(0, 7);
  most.add(RankSet(8, 10000));
  const auto decision = agree(std::vector<Voice>{{most, usual}, {RankSet(7), other}}, members);
  EXPECT_EQ(decision.request.shape.front(), 3 * 9999 + 5);
  EXPECT_EQ(decision.rows.size(), 10000u);
  EXPECT_EQ(decision.rows[7], 5);
  EXPECT_EQ(decision.divisor, 10000);
  const auto wrong = std::make_shared<Request>(shaped({3, 1}, Operation::allgather));
  EXPECT_EQ(agree(std::vector<Voice>{{most, usual}, {RankSet(7), wrong}}, members).status.message,
            "'layer1.weight': tensor differs between ranks: float32[3] on ranks 0-6, 8-9999, float32[3,1] on "
            "rank 7");
}

TEST(Agree, AnAlltoallSaysWhoSendsHowManyRowsToWhom) {
  auto even = shaped({4, 2}, Operation::alltoall);
  auto uneven = shaped({5, 2}, Operation::alltoall);
  uneven.splits = {0, 3};
  EXPECT_EQ(agree_on({even, uneven}).rows, (std::vector<std::int64_t>{2, 2, 0, 3}));
}

TEST(Agree, AScatterGoesByTheRootsRowsAndSplits) {
  auto root = shaped({5, 2}, Operation::scatter);
  auto other = shaped({0, 2}, Operation::scatter);
  root.root = other.root = 1;
  EXPECT_EQ(agree_on({other, root, other}).rows, (std::vector<std::int64_t>{2, 2, 1}));
  EXPECT_EQ(agree_on({other, root, other}).request.shape, (std::vector<std::int64_t>{5, 2}));
  root.splits = {0, 4, 1};
  EXPECT_EQ(agree_on({other, root, other}).rows, root.splits);
  root.splits = {5};
  EXPECT_THROW(agree_on({other, root, other}), Error) << "no rank would send that";
}

TEST(Agree, AGatherHasTheRowsOfAll) {
  EXPECT_EQ(agree_on({shaped({4, 2}, Operation::gather), shaped({0, 2}, Operation::gather)}).rows,
            (std::vector<std::int64_t>{4, 0}));
}

TEST(Agree, NamesGroupsOfOperationsThatDiffer) {
  auto other = shaped({3});
  other.bundle = "a";
  EXPECT_NE(agree_on({shaped({3}), other})
                .status.message.find(
                    "group of operations differs between ranks: none on rank 0, that of 'a' on rank 1"),
            std::string::npos);
}

TEST(AgreeWithout, MembersThatHaveJoinedTakePartInAReduction) {
  const auto request = std::make_shared<Request>(shaped({3}));
  for (const bool by_initial_size : {true, false}) {
    const auto decision =
        agree_without({{RankSet(0), request}, {RankSet(2), request}}, RankSet(1), by_initial_size, {4, 5, 6});
    EXPECT_TRUE(decision.status.ok());
    EXPECT_EQ(decision.request, *request);
    EXPECT_EQ(decision.joined, std::vector<int>{1});
    EXPECT_EQ(decision.divisor, by_initial_size ? 3 : 2);
  }
}

TEST(AgreeWithout, AnAllgatherGetsNoRowsOfThem) {
  const auto request = std::make_shared<Request>(shaped({3}, Operation::allgather));
  EXPECT_EQ(agree_without({{RankSet(1), request}}, RankSet(0), true, {0, 1}).rows,
            (std::vector<std::int64_t>{0, 3}));
}

TEST(AgreeWithout, FailsWhereDataOfAllIsNeededUnlessARankHasFailed) {
  const auto gather = std::make_shared<Request>(shaped({3}, Operation::alltoall));
  EXPECT_EQ(agree_without({{RankSet(0), gather}}, RankSet(1), true, {0, 1}).status,
            (Status{Code::mismatch,
                    "'layer1.weight': alltoall is not supported with join, and rank 1 joined already"}));
  const auto failing = std::make_shared<Request>(*gather);
  failing->failed_with = "backward() failed";
  EXPECT_EQ(agree_without({{RankSet(0), failing}}, RankSet(1), true, {0, 1}).status.code, Code::rank_failed);
}

TEST(StandIn, LiesElsewhere) {
  auto like = shaped({3});
  like.symmetric_address = 128;
  EXPECT_EQ(stand_in(like)->symmetric_address, 0u);
  EXPECT_EQ(agree_on({like, *stand_in(like)}).request.symmetric_address, 0u) << "so all pack";
}

TEST(StandIn, IsAbsentFromReductionsAndBringsNoRows) {
  EXPECT_TRUE(stand_in(shaped({3}))->absent);
  EXPECT_EQ(stand_in(shaped({3, 2}, Operation::allgather))->shape, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(stand_in(shaped({3}, Operation::alltoall)), std::nullopt);
  auto scaled = shaped({3});
  scaled.op = ReduceOp::product;
  scaled.prescale = 0.5;
  EXPECT_EQ(stand_in(scaled), std::nullopt) << "1 would not stay 1";
}

}  // namespace
}  // namespace hora
