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

/// Ends a send. The first copy that is made of it hears that rank 1 has left: so this happens while the send
/// is being made.
struct HearsLeave {
  HearsLeave(Messenger& messenger, int& ends) : sender(messenger), ended(ends) {}
  HearsLeave(const HearsLeave& other) : sender(other.sender), ended(other.ended) { sender.hear_leave(1); }
  HearsLeave(HearsLeave&&) = default;
  void operator()(const Status& status) const {
    EXPECT_EQ(status.code, Code::aborted);
    ++ended;
  }

  Messenger& sender;
  int& ended;
};

TEST(MessageBoxes, WhatIsSentToARankWhileItsLeaveIsHeardEnds) {
  const auto boxes = std::make_shared<MessageBoxes>(2);
  const auto sender = make_local_messenger(boxes, 0);
  const Numbers large = counting(100'000, 0);
  int ended = 0;
  sender->send({1, {0, 0, DType::int32, {100'000}}, large.data(), HearsLeave(*sender, ended)});
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace hora::local
