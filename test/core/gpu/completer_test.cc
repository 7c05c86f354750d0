// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/completer.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>

namespace hora {
namespace {

using std::chrono::milliseconds;

/// A point that is reached when the test says so.
class Switch final : public Event {
 public:
  [[nodiscard]] bool reached() const override {
    if (broken_) throw Error(Code::internal, "an illegal address");
    return on_;
  }
  void hold_up(void* /*stream*/) const override {}
  void turn_on() { on_ = true; }
  void break_it() { broken_ = true; }

 private:
  std::atomic<bool> on_ = false;
  std::atomic<bool> broken_ = false;
};

/// A flight, and what its finish was told.
struct Trip {
  std::shared_ptr<Switch> input = std::make_shared<Switch>();
  std::shared_ptr<Switch> end = std::make_shared<Switch>();
  std::promise<std::pair<Status, bool>> told;
  std::future<std::pair<Status, bool>> outcome = told.get_future();

  Flight flight(const std::string& what = "allreduce of 'x'") {
    return {
        what, {input}, end, [this](const Status& status, bool ended) { told.set_value({status, ended}); }};
  }
};

class CompleterTest : public testing::Test {
 protected:
  /// The status that `on_failure` was called with.
  Status failure() {
    auto told = failure_.get_future();
    return told.get();
  }
  std::promise<Status> failure_;
  std::function<void(const Status&)> on_failure_ = [this](const Status& why) { failure_.set_value(why); };
};

TEST_F(CompleterTest, FinishesFlightsInTheirOrderWhenTheyEnd) {
  Completer completer(milliseconds(0), {on_failure_});
  Trip first;
  Trip second;
  completer.add(first.flight());
  completer.add(second.flight());
  EXPECT_EQ(completer.flights(), 2u);
  second.end->turn_on();
  first.end->turn_on();
  EXPECT_EQ(first.outcome.get(), std::pair(Status{}, true));
  EXPECT_EQ(second.outcome.get(), std::pair(Status{}, true));
  EXPECT_EQ(completer.drain(), Status{});
  EXPECT_EQ(completer.flights(), 0u);
}

TEST_F(CompleterTest, TellsOfAFlightThatHasEndedWhenItIsNoLongerCounted) {
  Trip trip;
  std::promise<std::size_t> left;
  Completer* counted = nullptr;
  Completer completer(milliseconds(0), {on_failure_, [&] { left.set_value(counted->flights()); }});
  counted = &completer;
  completer.add(trip.flight());
  trip.end->turn_on();
  EXPECT_EQ(left.get_future().get(), 0u);
}

TEST_F(CompleterTest, TellsOfWhatDoesNotEndInTimeOnceItsInputsAreThere) {
  Completer completer(milliseconds(20), {on_failure_});
  Trip trip;
  completer.add(trip.flight("allreduce of 'x' and 2 more tensors"));
  trip.input->turn_on();
  const Status why = failure();
  EXPECT_EQ(why.code, Code::timeout);
  EXPECT_THAT(why.message,
              testing::StartsWith("allreduce of 'x' and 2 more tensors has been under way on the GPU "
                                  "for 0.02 s"));
  trip.end->turn_on();
  trip.outcome.get();
}

TEST_F(CompleterTest, TellsOfAGpuThatFailedAndOfWhatItWasDoing) {
  Completer completer(milliseconds(0), {on_failure_});
  Trip trip;
  completer.add(trip.flight());
  trip.end->break_it();
  EXPECT_EQ(failure(), (Status{Code::aborted, "allreduce of 'x' failed on the GPU: an illegal address"}));
  completer.fail({Code::aborted, "so it is"});
  EXPECT_FALSE(completer.end(milliseconds(1)));
  EXPECT_FALSE(trip.outcome.get().second);
}

TEST_F(CompleterTest, EndsFlightsWithTheStatusOfAFailureWhenTheGpuHasLetGo) {
  Completer completer(milliseconds(0), {on_failure_});
  Trip trip;
  completer.add(trip.flight());
  const Status lost{Code::aborted, "rank 1 is gone"};
  completer.fail(lost);
  trip.end->turn_on();  // it is aborted
  EXPECT_TRUE(completer.end(std::chrono::minutes(5)));
  EXPECT_EQ(trip.outcome.get(), std::pair(lost, true));
  EXPECT_EQ(completer.drain(), lost);
  EXPECT_THROW(completer.make_room(), Error);
}

TEST_F(CompleterTest, GivesUpOnAGpuThatDoesNotLetGo) {
  Completer completer(milliseconds(0), {on_failure_});
  Trip trips[2];
  for (auto& trip : trips) completer.add(trip.flight());
  const Status lost{Code::aborted, "rank 1 is gone"};
  completer.fail(lost);
  EXPECT_FALSE(completer.end(milliseconds(1)));
  for (auto& trip : trips) EXPECT_EQ(trip.outcome.get(), std::pair(lost, false));
}

TEST_F(CompleterTest, BoundsWhatIsUnderWayUntilItIsInterrupted) {
  Completer completer(milliseconds(0), {on_failure_});
  const auto end = std::make_shared<Switch>();
  for (int i = 0; i < 128; ++i) {
    completer.make_room();
    completer.add({"x", {}, end, [](const Status&, bool) {}});
  }
  const Status lost{Code::aborted, "rank 1 is gone"};
  std::thread aborter([&] { completer.interrupt(lost); });
  EXPECT_THROW(completer.make_room(), Error) << "the 129th waits, and there is nobody whom it waits for";
  aborter.join();
  end->turn_on();
  completer.fail(lost);
  EXPECT_TRUE(completer.end(std::chrono::minutes(5)));
}

}  // namespace
}  // namespace hora
