// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/batch_sizer.h"

#include "core/backend/local/local_group.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <memory>

namespace hora {
namespace {

/// A rank whose ranks share no memory, so that the network's pace is to be learnt.
class SizerOfARank {
 public:
  SizerOfARank(local::LocalGroup& group, int rank, int ranks) : world_(group.join(rank)) {
    world_.vote = nullptr;
    for (int i = 0; i < ranks; ++i) all_.push_back(i);
    groups_ = std::make_unique<Groups>(world_, config_, all_, table_, recorder_, tracer_, aborter_, gpu_,
                                       FlightNotices{[](const Status&) {}});
    negotiator_ = std::make_unique<Negotiator>(*world_.control);
    sizer_ = std::make_unique<BatchSizer>(world_, config_, *groups_, *negotiator_);
  }
  BatchSizer& sizer() { return *sizer_; }
  World& world() { return world_; }
  BatchSizer make(const Config& config) { return {world_, config, *groups_, *negotiator_}; }
  Negotiator& negotiator() { return *negotiator_; }

 private:
  World world_;
  Config config_;
  std::vector<int> all_;
  TensorTable table_;
  Recorder recorder_{0};
  Tracer tracer_;
  AbortBroadcaster aborter_;
  OwnGpu gpu_{0};
  std::unique_ptr<Groups> groups_;
  std::unique_ptr<Negotiator> negotiator_;
  std::unique_ptr<BatchSizer> sizer_;
};

TEST(BatchSizer, MeasuresTheAllreducesOfTheWorldOnRank0OfSeveral) {
  Request allreduce;
  Request other;
  other.operation = Operation::allgather;
  local::LocalGroup group(2);
  SizerOfARank first(group, 0, 2);
  SizerOfARank second(group, 1, 2);
  local::LocalGroup one(1);
  SizerOfARank alone(one, 0, 1);
  EXPECT_TRUE(first.sizer().measures(allreduce, kWorld));
  EXPECT_FALSE(first.sizer().measures(allreduce, 1));
  EXPECT_FALSE(first.sizer().measures(other, kWorld));
  for (SizerOfARank* rank : {&second, &alone}) {
    EXPECT_FALSE(rank->sizer().measures(allreduce, kWorld));
    rank->sizer().end_step(Clock::now());  // which does nothing
  }
}

TEST(BatchSizer, TellsTheOtherRanksThatItCannotWriteItsLog) {
  local::LocalGroup group(2);
  SizerOfARank first(group, 0, 2);
  SizerOfARank second(group, 1, 2);
  Config config;
  config.autotune = true;
  config.autotune_log = "/there/is/no/such/directory/log";
  const Status why = thrown([&] { (void)first.make(config); });
  EXPECT_EQ(why.code, Code::invalid_argument);
  EXPECT_EQ(thrown([&] { second.negotiator().hear(Clock::now(), false); }).message,
            "rank 0 failed: " + why.message);
}

}  // namespace
}  // namespace hora
