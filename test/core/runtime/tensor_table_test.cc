// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/tensor_table.h"

#include "test/support/thrown.h"

#include <gtest/gtest.h>
#include <malloc.h>

namespace hora {
namespace {

Entry entry(const std::string& name) {
  Entry entry;
  entry.name = name;
  return entry;
}

Asked asked(const std::string& name, int group = kWorld) {
  Asked asked;
  asked.group = group;
  asked.request.name = name;
  return asked;
}

TEST(TensorTable, KeepsANameUntilItsTensorIsFinished) {
  TensorTable table;
  const Handle handle = table.put(entry("a"), asked("a"), {});
  EXPECT_EQ(table.take_requests().size(), 1u);
  EXPECT_TRUE(table.take_requests().empty());
  auto loan = table.take(kWorld, "a");
  ASSERT_TRUE(loan);
  EXPECT_FALSE(table.take(kWorld, "a"));
  EXPECT_THROW(table.put(entry("a"), asked("a"), {}), Error);
  EXPECT_FALSE(handle.poll());
  table.finish(*std::move(loan), {});
  EXPECT_TRUE(handle.poll());
  EXPECT_NO_THROW(table.put(entry("a"), asked("a"), {}));
}

/// A point of a GPU's stream that the test says when it is reached.
class PointOfATest final : public Event {
 public:
  explicit PointOfATest(bool reached) : reached_(reached) {}
  [[nodiscard]] bool reached() const override { return reached_; }
  void hold_up(void* /*stream*/) const override {}
  void reach() { reached_ = true; }

 private:
  bool reached_;
};

class TensorsOnAGpu : public testing::Test {
 protected:
  void put(const std::string& name, const std::shared_ptr<Event>& input) {
    Asked one = asked(name);
    one.request.device = DeviceKind::cuda;
    one.ready.event = input;
    (void)table_.put(entry(name), std::move(one), {});
  }
  std::vector<std::string> take(TakeOnGpu on_gpu) {
    std::vector<std::string> names;
    for (const auto& [group, requests] : table_.take_requests(on_gpu)) {
      for (const auto& request : requests) names.push_back(request.name);
    }
    return names;
  }
  using Names = std::vector<std::string>;
  TensorTable table_;
  const std::shared_ptr<PointOfATest> early_ = std::make_shared<PointOfATest>(true);
  const std::shared_ptr<PointOfATest> late_ = std::make_shared<PointOfATest>(false);
};

TEST_F(TensorsOnAGpu, AreAskedForInTheirOrderTheFirstAndThoseThatAreComputed) {
  put("a", late_);
  put("b", early_);
  put("c", late_);
  put("d", early_);
  EXPECT_EQ(take(TakeOnGpu::none), Names());
  EXPECT_EQ(take(TakeOnGpu::ready), (Names{"a", "b"}));
  put("e", early_);
  EXPECT_EQ(take(TakeOnGpu::ready), (Names{"c", "d", "e"}));
  EXPECT_FALSE(table_.has_requests());
}

TEST_F(TensorsOnAGpu, DoNotWaitIfOneOnTheHostWaitsBehindThem) {
  put("a", late_);
  put("b", late_);
  EXPECT_EQ(take(TakeOnGpu::ready), Names{"a"});
  (void)table_.put(entry("c"), asked("c"), {});
  put("d", late_);
  EXPECT_EQ(take(TakeOnGpu::none), (Names{"b", "c", "d"}));
  put("e", late_);
  EXPECT_EQ(take(TakeOnGpu::none), Names()) << "the one on the host has been taken";
}

TEST_F(TensorsOnAGpu, WaitForTheirInputsAndForNothingElseWhereGraphsAskForThem) {
  table_.take_only_computed();
  table_.add_group(3);
  put("a", late_);
  put("b", early_);
  put("c", nullptr);  // of a graph
  (void)table_.put(entry("d"), asked("d"), {});
  EXPECT_EQ(take(TakeOnGpu::ready), (Names{"b", "c", "d"}));
  put("e", early_);
  EXPECT_EQ(take(TakeOnGpu::none), Names());
  EXPECT_EQ(take(TakeOnGpu::all), Names{"e"});
  EXPECT_EQ(take(TakeOnGpu::all), Names()) << "not even if it is the first";
  EXPECT_TRUE(table_.has_requests());
  late_->reach();
  EXPECT_EQ(take(TakeOnGpu::ready), Names{"a"});
}

TEST_F(TensorsOnAGpu, AreAskedForBeforeTheirProcessSetIsRemovedAlsoWhereTheyWaitForTheirInputs) {
  table_.take_only_computed();
  table_.add_group(3);
  Asked one = asked("a", 3);
  one.request.device = DeviceKind::cuda;
  one.ready.event = late_;
  (void)table_.put(entry("a"), std::move(one), {});
  Asked removal = asked("removal", 3);
  removal.request.operation = Operation::remove_process_set;
  (void)table_.put(entry("removal"), std::move(removal), {});
  EXPECT_EQ(take(TakeOnGpu::all), Names());
  late_->reach();
  EXPECT_EQ(take(TakeOnGpu::all), (Names{"a", "removal"}));
}

TEST_F(TensorsOnAGpu, AreForgottenWithTheirProcessSet) {
  table_.add_group(3);
  (void)table_.put(entry("a"), asked("a", 3), {});
  put("b", late_);
  table_.give_back(table_.remove_group(3), {Code::aborted, "removed"});
  EXPECT_EQ(take(TakeOnGpu::none), Names());
  EXPECT_EQ(take(TakeOnGpu::all), Names{"b"});
}

TEST(TensorTable, HandsOutEverythingWhenItCloses) {
  TensorTable table;
  const Handle waiting = table.put(entry("a"), asked("a"), {});
  const Handle moving = table.put(entry("b"), asked("b"), {});
  auto taken = table.take(kWorld, "b");
  const Status why{Code::aborted, "rank 1 is gone"};
  auto loans = table.close(why);
  ASSERT_EQ(loans.size(), 1u);
  EXPECT_EQ(loans.front().entry->name, "a");
  table.finish(std::move(loans.front()), {why, {}, true, {}});
  table.finish(*std::move(taken), {});
  EXPECT_THROW(waiting.wait(), Error);
  EXPECT_NO_THROW(moving.wait());
  try {
    table.put(entry("c"), asked("c"), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), (Status{why.code, "'c': rank 1 is gone"}));
  }
}

TEST(TensorTable, NamesATensorOnceWhenItIsClosed) {
  TensorTable table;
  const Status why{Code::aborted, "'a' (allreduce float32[1]) has been waited for 3 s"};
  EXPECT_TRUE(table.close(why).empty());
  for (const char* name : {"a", "b"}) {
    try {
      table.put(entry(name), asked(name), {});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), why);
    }
  }
}

TEST(TensorTable, TakesAllOfAGroupOfOperationsOrNone) {
  TensorTable table;
  const Handle first = table.put(entry("b"), asked("b"), {});
  EXPECT_THROW(table.put({entry("a"), entry("b")}, {asked("a"), asked("b")}, {}), Error);
  EXPECT_THROW(table.put({entry("a"), entry("a")}, {asked("a"), asked("a")}, {}), Error);
  EXPECT_FALSE(table.take(kWorld, "a"));
  EXPECT_EQ(table.put({entry("a"), entry("c")}, {asked("a"), asked("c")}, {}).size(), 2u);
  EXPECT_EQ(table.take_requests().at(kWorld).size(), 3u);
}

TEST(TensorTable, EachProcessSetHasNamesOfItsOwn) {
  TensorTable table;
  table.add_group(1);
  const Handle all = table.put(entry("a"), asked("a"), {});
  const Handle some = table.put(entry("a"), asked("a", 1), {});
  const Handle moving = table.put(entry("b"), asked("b", 1), {});
  auto taken = table.take(1, "b");
  auto loans = table.remove_group(1);
  ASSERT_EQ(loans.size(), 1u);
  const auto refused = [&] { return thrown([&] { table.put(entry("c"), asked("c", 1), {}); }); };
  const Status removed{Code::aborted, "'c': process set 1 was removed"};
  EXPECT_EQ(refused(), removed);
  table.finish(std::move(loans.front()), {process_set_was_removed(1), {}});
  EXPECT_THROW(some.wait(), Error);
  EXPECT_EQ(table.under_way().size(), 2u) << "the entry that was taken, and the one of the other set";
  table.finish(*std::move(taken), {});
  EXPECT_NO_THROW(moving.wait());
  EXPECT_FALSE(all.poll());
  EXPECT_EQ(refused(), removed);
  EXPECT_NO_THROW(table.put(entry("c"), asked("c"), {}));
}

TEST(TensorTable, ForgetsProcessSetsThatWereRemoved) {
  TensorTable table;
  const auto come_and_go = [&](int group) {
    table.add_group(group);
    table.put(entry("a"), asked("a", group), {});
    auto loans = table.remove_group(group);
    table.finish(std::move(loans.front()), {process_set_was_removed(group), {}});
  };
  come_and_go(1);
  const auto before = ::mallinfo2().uordblks;
  for (int group = 2; group < 1000; ++group) come_and_go(group);
  EXPECT_LE(::mallinfo2().uordblks, before + 4096);
}

TEST(TensorTable, KnowsWhatIsUnderWayAlsoOfWhatItHasHandedOut) {
  TensorTable table;
  for (const int i : {2, 1}) {
    Entry entry;
    entry.name = std::to_string(i);
    entry.operation = Operation::broadcast;
    entry.dtype = DType::int32;
    entry.shape = {i, 3};
    Request request;
    request.name = entry.name;
    table.add_group(i);
    table.put(Entry(entry), {i, request}, TimePoint() + std::chrono::seconds(i));
  }
  auto loan = table.take(1, "1");
  ASSERT_TRUE(loan);
  auto removed = table.remove_group(2);
  const auto records = table.under_way();
  ASSERT_EQ(records.size(), 2u);
  for (const int i : {1, 2}) {
    const Record& record = records[static_cast<std::size_t>(i) - 1];
    EXPECT_EQ(record.name, std::to_string(i));
    EXPECT_EQ(record.operation, Operation::broadcast);
    EXPECT_EQ(record.dtype, DType::int32);
    EXPECT_EQ(record.shape, (std::vector<std::int64_t>{i, 3}));
    EXPECT_EQ(record.process_set, i);
    EXPECT_EQ(record.submitted, TimePoint() + std::chrono::seconds(i));
  }
  table.finish(*std::move(loan), {});
  EXPECT_EQ(table.under_way().size(), 1u);
  table.give_back(std::move(removed), process_set_was_removed(2));
  EXPECT_TRUE(table.under_way().empty());
}

}  // namespace
}  // namespace hora
