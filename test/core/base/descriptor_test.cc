// SPDX-License-Identifier: Apache-2.0
#include "core/base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace hora {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Descriptor, ClosesItselfOnceUnlessItIsGivenAway) {
  int number = -1;
  {
    Descriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = first.fd();
    const Descriptor second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(second.fd(), number);
  }
  EXPECT_FALSE(is_open(number));
  Descriptor kept(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  number = kept.release();
  EXPECT_FALSE(kept);
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

}  // namespace
}  // namespace hora
