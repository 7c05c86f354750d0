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

std::vector<StateTransfer::Memory> memory_of(Tensors& tensors) {
  std::vector<StateTransfer::Memory> memory;
  for (auto& tensor : tensors) memory.emplace_back(tensor);
  return memory;
}

TEST(StateTransfer, GivesTheStateToAllRanksThatJoinFromAllThatHaveIt) {
  for (const std::vector<bool>& joins :
       {std::vector{false, true}, std::vector{true, false, false}, std::vector{true, false, true, true},
        std::vector{false, false, true, false}}) {
    run_local_job(static_cast<int>(joins.size()), [&](Runtime& hora) {
      const bool self = joins[static_cast<std::size_t>(hora.rank())];
      Tensors tensors = tensors_of(!self);
      StateTransfer transfer(hora, joins, memory_of(tensors));
      transfer.await_state();
      if (self) {
        EXPECT_EQ(tensors, tensors_of(true)) << "before the ranks confirm it";
      }
      transfer.confirm();
      EXPECT_EQ(tensors, tensors_of(true));
    });
  }
}

TEST(StateTransfer, RefusesARankThatHasAnotherStateThanWasSent) {
  run_local_job(3, [&](Runtime& hora) {
    const bool self = hora.rank() == 2;
    Tensors tensors = tensors_of(!self);
    StateTransfer transfer(hora, {false, false, true}, memory_of(tensors));
    transfer.await_state();
    if (self) {
      const Status error = thrown([&] {
        tensors[3][77] ^= std::byte{1};
        transfer.confirm();
      });
      EXPECT_EQ(error.code, Code::internal);
      EXPECT_THAT(error.message,
                  HasSubstr("this process cannot join the job: it has another state than rank"));
    } else {
      transfer.confirm();
    }
  });
}

TEST(StateTransfer, AllowsEqualChangesWithinAStep) {
  run_local_job(3, [&](Runtime& hora) {
    Tensors tensors = tensors_of(hora.rank() != 1);
    StateTransfer transfer(hora, {false, true, false}, memory_of(tensors));
    transfer.await_state();
    float all_have_it = 0;
    Entry entry;
    entry.name = "all have it";
    entry.input = entry.output = &all_have_it;
    hora.submit(std::move(entry)).wait();
    for (auto& tensor : tensors) {
      for (std::byte& byte : tensor) byte ^= std::byte{1};
    }
    transfer.confirm();
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
    StateTransfer transfer(hora, {false, true}, memory_of(tensors));
    if (hora.rank() == 0) early = transit();
    transfer.confirm();
    EXPECT_EQ(early->wait().tag, hora.rank() == 0 ? kAnyTag : 5);
    EXPECT_EQ(value, 3);
    EXPECT_EQ(tensors, tensors_of(true));
  });
}

}  // namespace
}  // namespace hora::state
