// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/link_probe.h"

#include "core/base/socket_io.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

namespace hora::hrun {
namespace {

using std::chrono::milliseconds;

struct Ends {
  Ends() {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0) {
      here = Descriptor(fds[0]);
      there = Descriptor(fds[1]);
    }
  }
  Descriptor here;
  Descriptor there;
};

TEST(LinkProbe, MeasuresBothDirections) {
  const Ends ends;
  const TimePoint deadline = Clock::now() + milliseconds(20'000);
  std::thread other([&] { answer_link(ends.there.fd(), milliseconds(5), deadline); });
  const LinkFigures figures = ask_link(ends.here.fd(), milliseconds(5), deadline);
  other.join();
  EXPECT_GT(figures.latency, 0);
  EXPECT_GT(figures.there, 0);
  EXPECT_GT(figures.back, 0);
}

TEST(LinkProbe, EndsWhenTheConnectionDoes) {
  Ends ends;
  ends.there = Descriptor();
  EXPECT_THROW(
      static_cast<void>(ask_link(ends.here.fd(), milliseconds(5), Clock::now() + milliseconds(20'000))),
      Error);
}

}  // namespace
}  // namespace hora::hrun
