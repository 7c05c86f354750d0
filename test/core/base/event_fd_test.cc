// SPDX-License-Identifier: Apache-2.0
#include "core/base/event_fd.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

bool rings(const EventFd& event_fd) {
  pollfd event = event_fd.event();
  return ::poll(&event, 1, 0) == 1;
}

TEST(EventFd, RingsUntilItIsSilenced) {
  const EventFd event_fd;
  EXPECT_FALSE(rings(event_fd));
  event_fd.ring();
  event_fd.ring();
  EXPECT_TRUE(rings(event_fd));
  event_fd.silence();
  EXPECT_FALSE(rings(event_fd));
  event_fd.silence();
  EXPECT_FALSE(rings(event_fd));
}

}  // namespace
}  // namespace hora
