// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/process_job.h"

#include <hora/c.h>
#include <hora/hora.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(ProcessJob, IsOneForAllWhoAskUntilItIsLeft) {
  int joined = 0;
  const auto count = [&] {
    ++joined;
    return Config();
  };
  Runtime first = init(count);
  {
    const Runtime second = init(count);
    ASSERT_EQ(hora_init(), HORA_OK);
    EXPECT_EQ(joined, 1);
  }
  EXPECT_FALSE(first.was_shut_down()) << "two of three owners are left";
  EXPECT_EQ(first.next_number(), 1U);
  EXPECT_EQ(init().next_number(), 2U) << "the same job";
  ASSERT_EQ(hora_shutdown(nullptr), HORA_OK);
  EXPECT_TRUE(first.was_shut_down());
  EXPECT_EQ(hora_is_initialized(), 0);

  const Runtime next = init(count);
  EXPECT_EQ(joined, 2);
  EXPECT_FALSE(next.was_shut_down());
  EXPECT_TRUE(first.was_shut_down());
}

TEST(ProcessJob, IsThereForCWithoutAnInit) {
  EXPECT_EQ(hora_is_initialized(), 0);
  {
    const Runtime joined = init();
    EXPECT_EQ(hora_rank(), 0);
    EXPECT_EQ(hora_barrier("meet", 0), HORA_OK);
  }
  {
    const Runtime joined = init();
    EXPECT_EQ(hora_shutdown(nullptr), HORA_OK);
    EXPECT_TRUE(joined.was_shut_down());
  }
  EXPECT_EQ(hora_is_initialized(), 0);
  EXPECT_STREQ(hora_last_error(), "Hora is not initialised: call hora_init() first");
}

TEST(ProcessJob, EndsWithItsLastOwner) {
  {
    const Runtime first = init();
  }
  int joined = 0;
  const Runtime second = init([&] {
    ++joined;
    return Config();
  });
  EXPECT_EQ(joined, 1);
}

TEST(ProcessJob, CanBeJoinedAfterAnAttemptThatFailed) {
  EXPECT_THROW(static_cast<void>(init([] { return Config::with_place(2, 2, "", {}); })), Error);
  EXPECT_EQ(init().size(), 1);
}

}  // namespace
}  // namespace hora
