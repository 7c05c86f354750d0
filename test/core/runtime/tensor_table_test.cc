// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/tensor_table.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Entry entry(const std::string& name) {
  Entry entry;
  entry.name = name;
  return entry;
}

Request request(const std::string& name) {
  Request request;
  request.name = name;
  return request;
}

TEST(TensorTable, KeepsANameUntilItsTensorIsFinished) {
  TensorTable table;
  const Handle handle = table.put(entry("a"), request("a"), {});
  EXPECT_EQ(table.take_requests().size(), 1u);
  EXPECT_TRUE(table.take_requests().empty());
  auto loan = table.take("a");
  ASSERT_TRUE(loan);
  EXPECT_FALSE(table.take("a"));
  EXPECT_THROW(table.put(entry("a"), request("a"), {}), Error);
  EXPECT_FALSE(handle.poll());
  table.finish(*std::move(loan), {});
  EXPECT_TRUE(handle.poll());
  EXPECT_NO_THROW(table.put(entry("a"), request("a"), {}));
}

TEST(TensorTable, HandsOutEverythingWhenItCloses) {
  TensorTable table;
  const Handle waiting = table.put(entry("a"), request("a"), {});
  const Handle moving = table.put(entry("b"), request("b"), {});
  auto taken = table.take("b");
  const Status why{Code::aborted, "rank 1 is gone"};
  auto loans = table.close(why);
  ASSERT_EQ(loans.size(), 1u);
  EXPECT_EQ(loans.front().entry.name, "a");
  table.finish(std::move(loans.front()), {why, {}, true, {}});
  table.finish(*std::move(taken), {});
  EXPECT_THROW(waiting.wait(), Error);
  EXPECT_NO_THROW(moving.wait());
  try {
    table.put(entry("c"), request("c"), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), (Status{why.code, "'c': rank 1 is gone"}));
  }
}

}  // namespace
}  // namespace hora
