// SPDX-License-Identifier: Apache-2.0
// The contract of all messengers is tested in test/conformance/messenger_suite.cc.
#include "core/backend/local/message_boxes.h"

#include "test/support/correspondence.h"

#include <gtest/gtest.h>

namespace hora::local {
namespace {

TEST(MessageBoxes, WhatARankHasLentIsNotTouchedAfterItHasClosed) {
  const auto boxes = std::make_shared<MessageBoxes>(2);
  const auto sender = make_local_messenger(boxes, 0);
  const auto receiver = make_local_messenger(boxes, 1);
  const PendingTransfer large = start_send(*sender, 1, 0, counting(100'000, 0));
  EXPECT_TRUE(send(*sender, 1, 1, {4}).ok());
  sender->abort({Code::aborted, "over"});
  EXPECT_EQ(large->outcome.wait().message, "over");
  EXPECT_EQ(receiver->probe({0, 0}), std::nullopt);
  EXPECT_EQ(receive(*receiver, 0, 1), Numbers{4});
}

TEST(MessageBoxes, WhatIsSentToARankThatHasClosedEndsWithItsSender) {
  const auto boxes = std::make_shared<MessageBoxes>(2);
  const auto sender = make_local_messenger(boxes, 0);
  make_local_messenger(boxes, 1).reset();
  EXPECT_TRUE(send(*sender, 1, 0, {1}).ok());
  const PendingTransfer large = start_send(*sender, 1, 0, counting(100'000, 0));
  EXPECT_FALSE(large->outcome.told());
  sender->abort({Code::aborted, "over"});
  EXPECT_EQ(large->outcome.wait().message, "over");
}

}  // namespace
}  // namespace hora::local
