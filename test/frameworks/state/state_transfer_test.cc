// SPDX-License-Identifier: Apache-2.0
// Real processes that join and are killed: test/python/test_elastic_training.py and
// test/python/test_elastic_libtorch.py.
#include "frameworks/state/state_transfer.h"

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hora::state {
namespace {

using testing::HasSubstr;
using Outcome = StateTransfer::Outcome;

/// Several tensors: an empty one, small ones, and some of several chunks.
using Tensors = std::vector<std::vector<std::byte>>;

Tensors tensors_of(bool has_state) {
  Tensors tensors;
  for (const std::size_t size : {std::size_t{1}, std::size_t{0}, std::size_t{100'000}, std::size_t{5 << 20},
                                 std::size_t{(4 << 20) + 3}}) {
    tensors.emplace_back(size);
    for (std::size_t place = 0; has_state && place < size; ++place)
      tensors.back()[place] = static_cast<std::byte>(place * 7 + place / 251);
  }
  return tensors;
}

/// Each tensor is a unit.
std::vector<StateTransfer::Unit> units_of(Tensors& tensors) {
  std::vector<StateTransfer::Unit> units;
  for (auto& tensor : tensors) units.push_back({tensor});
  return units;
}

/// All ranks wait for the others.
void meet(Runtime& hora) {
  float value = 0;
  Entry entry;
  entry.name = "meet";
  entry.input = entry.output = &value;
  hora.submit(std::move(entry)).wait();
}

TEST(StateTransfer, GivesTheStateToAllRanksThatJoinFromAllThatHaveIt) {
  for (const std::vector<bool>& joins :
       {std::vector{false, true}, std::vector{true, false, false}, std::vector{true, false, true, true},
        std::vector{false, false, true, false}}) {
    run_local_job(static_cast<int>(joins.size()), [&](Runtime& hora) {
      const bool self = joins[static_cast<std::size_t>(hora.rank())];
      Tensors tensors = tensors_of(!self);
      StateTransfer transfer(hora, joins);
      transfer.begin_part(units_of(tensors), false);
      EXPECT_TRUE(transfer.has_last_part()) << "it is small";
      transfer.await_part();
      if (self) {
        EXPECT_EQ(tensors, tensors_of(true)) << "before the ranks confirm it";
      }
      EXPECT_EQ(transfer.confirm(), Outcome::is_complete);
      EXPECT_EQ(tensors, tensors_of(true));
    });
  }
}

TEST(StateTransfer, RefusesARankThatHasAnotherStateThanWasSent) {
  run_local_job(3, [&](Runtime& hora) {
    const bool self = hora.rank() == 2;
    Tensors tensors = tensors_of(!self);
    StateTransfer transfer(hora, {false, false, true});
    transfer.begin_part(units_of(tensors), false);
    transfer.await_part();
    if (self) {
      const Status error = thrown([&] {
        tensors[3][77] ^= std::byte{1};
        static_cast<void>(transfer.confirm());
      });
      EXPECT_EQ(error.code, Code::internal);
      EXPECT_THAT(error.message,
                  HasSubstr("this process cannot join the job: it has another state than rank"));
    } else {
      EXPECT_EQ(transfer.confirm(), Outcome::is_complete);
    }
  });
}

TEST(StateTransfer, AllowsEqualChangesWithinAStep) {
  run_local_job(3, [&](Runtime& hora) {
    Tensors tensors = tensors_of(hora.rank() != 1);
    StateTransfer transfer(hora, {false, true, false});
    transfer.begin_part(units_of(tensors), false);
    transfer.await_part();
    meet(hora);
    for (auto& tensor : tensors) {
      for (std::byte& byte : tensor) byte ^= std::byte{1};
    }
    EXPECT_EQ(transfer.confirm(), Outcome::is_complete);
    EXPECT_NE(tensors, tensors_of(true));
  });
}

TEST(StateTransfer, LeavesTheMessagesOfTheProgramAlone) {
  run_local_job(2, [&](Runtime& hora) {
    Tensors tensors = tensors_of(hora.rank() == 0);
    float value = 3;
    Message message;
    message.peer = hora.rank() == 0 ? 1 : kAnySource;
    message.tag = hora.rank() == 0 ? 5 : kAnyTag;
    message.input = hora.rank() == 0 ? &value : nullptr;
    message.output = hora.rank() == 1 ? &value : nullptr;
    const auto transit = [&] { return hora.rank() == 0 ? hora.send(message) : hora.receive(message); };
    std::optional<Handle> early;
    if (hora.rank() == 1) {
      value = 0;
      early = transit();
    }
    StateTransfer transfer(hora, {false, true});
    transfer.begin_part(units_of(tensors), false);
    if (hora.rank() == 0) early = transit();
    EXPECT_EQ(transfer.confirm(), Outcome::is_complete);
    EXPECT_EQ(early->wait().tag, hora.rank() == 0 ? kAnyTag : 5);
    EXPECT_EQ(value, 3);
    EXPECT_EQ(tensors, tensors_of(true));
  });
}

/// A training whose state is 56 MiB, and whose optimizer adds the same number to many elements in each step.
class LargeTraining {
 public:
  explicit LargeTraining(bool has_state) {
    for (int i = 0; i < 7; ++i) parameters_.emplace_back(std::size_t{1} << 20, has_state ? i : -1);
  }

  void step() {
    ++steps_;
    for (auto& parameter : parameters_)
      for (std::size_t place = 0; place < parameter.size(); place += 100) parameter[place] += steps_;
  }

  std::vector<StateTransfer::Unit> units() {
    std::vector<StateTransfer::Unit> units;
    for (auto& parameter : parameters_) {
      const auto memory = std::as_writable_bytes(std::span(parameter));
      units.push_back({memory.first(1 << 20), memory.subspan(1 << 20)});
    }
    return units;
  }

  std::vector<std::vector<double>>& parameters() { return parameters_; }
  bool operator==(const LargeTraining&) const = default;

 private:
  std::vector<std::vector<double>> parameters_;
  double steps_ = 0;
};

TEST(StateTransfer, GivesALargeStateInPartsDuringSteps) {
  run_local_job(3, [](Runtime& hora) {
    const bool self = hora.rank() == 1;
    LargeTraining training(!self);
    LargeTraining expected(true);
    StateTransfer transfer(hora, {false, true, false});
    std::vector<std::size_t> sent;
    Outcome outcome = Outcome::more_follows;
    for (; outcome == Outcome::more_follows; training.step(), expected.step()) {
      sent.push_back(transfer.begin_part(training.units(), false));
      outcome = transfer.confirm();
      EXPECT_EQ(outcome == Outcome::more_follows, sent.back() < 7);
      if (sent.size() > 40) return;  // a part has a unit at least
    }
    EXPECT_EQ(outcome, Outcome::is_complete);
    EXPECT_EQ(sent.front(), 4) << "of 8 MiB";
    EXPECT_GE(sent.size(), 2);
    EXPECT_EQ(training, expected);
  });
}

TEST(StateTransfer, GivesTheRestAtOnceIfItIsToldTo) {
  run_local_job(2, [](Runtime& hora) {
    LargeTraining training(hora.rank() == 0);
    StateTransfer transfer(hora, {false, true});
    transfer.begin_part(training.units(), false);
    EXPECT_EQ(transfer.confirm(), Outcome::more_follows);
    EXPECT_EQ(transfer.begin_part(training.units(), true), 7);
    EXPECT_TRUE(transfer.has_last_part());
    transfer.await_part();
    EXPECT_EQ(transfer.confirm(), Outcome::is_complete);
    EXPECT_EQ(training, LargeTraining(true));
  });
}

TEST(StateTransfer, TellsAllRanksIfOneThatJoinsDidNotKeepUp) {
  run_local_job(3, [](Runtime& hora) {
    const bool self = hora.rank() == 1;
    LargeTraining training(!self);
    StateTransfer transfer(hora, {false, true, false});
    transfer.begin_part(training.units(), false);
    EXPECT_EQ(transfer.confirm(), Outcome::more_follows);
    training.step();
    if (self) training.parameters()[2][7] += 1;
    transfer.begin_part(training.units(), true);
    EXPECT_EQ(transfer.confirm(), Outcome::differs);
  });
}

}  // namespace
}  // namespace hora::state
