// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/lent_memory.h"

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>

#include <array>
#include <list>
#include <random>

namespace hora {
namespace {

ByteRange range(std::uintptr_t begin, std::uintptr_t end) { return {begin, end}; }

bool is_refused(LentMemory& lent, const MemoryUse& use, const std::string& name) {
  try {
    lent.lend(use, name);
  } catch (const Error&) {
    return true;
  }
  return false;
}

TEST(LentMemory, IsReadByManyAndWrittenByOne) {
  const std::string first = "first";
  const std::string second = "second";
  const MemoryUse read{range(100, 200), {}};
  const MemoryUse written{{}, range(100, 200)};
  const MemoryUse beside{range(0, 100), range(200, 300)};
  const MemoryUse itself{range(0, 100), range(99, 199)};
  for (const auto& [held, asked, refused] : {std::tuple(read, read, false),
                                             {read, written, true},
                                             {written, read, true},
                                             {written, written, true},
                                             {read, beside, false},
                                             {written, beside, false},
                                             {MemoryUse{}, itself, true}}) {
    LentMemory lent;
    lent.lend(held, first);
    EXPECT_EQ(is_refused(lent, asked, second), refused);
    if (!refused) lent.give_back(asked, second);
    lent.give_back(held, first);
    EXPECT_NO_THROW(lent.lend(written, second));
  }
}

TEST(LentMemory, RefusesExactlyWhatWouldBeSharedWithAWriter) {
  std::mt19937 random(7);
  const auto below = [&](unsigned bound) { return static_cast<std::uintptr_t>(random() % bound); };
  const auto any = [&] {
    const auto begin = below(60);
    return below(3) == 0 ? ByteRange{} : range(begin, begin + 1 + below(12));
  };
  LentMemory lent;
  std::list<std::pair<MemoryUse, std::string>> held;
  for (int i = 0; i < 50'000; ++i) {
    if (held.size() > 6 || (!held.empty() && below(3) == 0)) {
      const auto one =
          std::next(held.begin(), static_cast<std::ptrdiff_t>(below(static_cast<unsigned>(held.size()))));
      lent.give_back(one->first, one->second);
      held.erase(one);
      continue;
    }
    held.emplace_back(MemoryUse{any(), any()}, "operation " + std::to_string(i));
    const auto& [use, name] = held.back();
    bool expected = use.read.overlaps(use.written);
    for (const auto& [other, of] : held) {
      if (&of == &name) continue;
      expected |= use.written.overlaps(other.written) || use.written.overlaps(other.read) ||
                  use.read.overlaps(other.written);
    }
    ASSERT_EQ(is_refused(lent, use, name), expected) << i;
    if (expected) held.pop_back();
  }
}

TEST(LentMemory, OperationsThatWouldMixTheirResultsAreRefusedByName) {
  run_local_job(2, [](Runtime& hora) {
    std::vector<float> data(100, 1.0F);
    std::vector<float> other(100);
    const auto over = [&](const char* name, const float* input, float* output) {
      Entry entry = in_place(Operation::allreduce, name, DType::float32, data);
      entry.shape = {60};
      entry.input = input;
      entry.output = output;
      return entry;
    };
    const auto refused = [&](const Entry& entry) { return thrown([&] { hora.submit(entry); }).message; };
    float* const at = data.data();
    Entry barrier;
    barrier.operation = Operation::barrier;
    barrier.name = "start";
    hora.run(barrier);
    if (hora.rank() == 0) {  // rank 1 keeps it under way
      const Handle first = hora.submit(over("first", at, at));
      EXPECT_THAT(refused(over("second", at + 30, at + 30)),
                  testing::AllOf(testing::HasSubstr("'second'"), testing::HasSubstr("'first'")));
      EXPECT_THAT(refused(over("reads", at + 59, other.data())), testing::HasSubstr("its input"));
      EXPECT_THAT(refused(over("writes", other.data(), at + 40)), testing::HasSubstr("its output"));
      EXPECT_THAT(refused(over("itself", other.data(), other.data() + 1)), testing::HasSubstr("overlap"));
      EXPECT_THAT(
          thrown([&] {
            hora.submit({over("a", other.data(), other.data()), over("b", other.data(), other.data())});
          }).message,
          testing::HasSubstr("'a'"));
      Message wanted;
      wanted.peer = 1;
      wanted.shape = {10};
      wanted.output = at;
      EXPECT_THAT(thrown([&] { hora.receive(wanted); }).message, testing::HasSubstr("a message from rank 1"));
      barrier.name = "end";
      hora.run(barrier);
      first.wait();
    } else {
      barrier.name = "end";
      hora.run(barrier);
      hora.submit(over("first", at, at)).wait();
    }
    EXPECT_EQ(data[59], 2.0F);
    hora.submit(over("second", at + 30, at + 30)).wait();
  });
}

}  // namespace
}  // namespace hora
