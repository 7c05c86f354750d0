// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/life_mutex.h"

#include "core/base/socket_io.h"
#include "test/support/thrown.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>

namespace hora {
namespace {

/// A child process that does something with the memory of the mutex and then says so.
pid_t child_that(const LifeMutex& mutex, const std::function<void(int)>& act) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const Descriptor read_end(ends[0]);
  const Descriptor write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    act(mutex.file());
    [[maybe_unused]] const auto written = ::write(write_end.fd(), "x", 1);
    ::pause();
  }
  char said = 0;
  EXPECT_EQ(::read(read_end.fd(), &said, 1), 1);
  return child;
}

TEST(LifeMutex, TellsOfAKilledProcessBeforeItIsReaped) {
  LifeMutex mutex;
  const pid_t child = child_that(mutex, [](int memory) { (new LifeMutex(memory))->hold(); });
  ::kill(child, SIGKILL);
  EXPECT_EQ(mutex.await_end(), child);
  ::waitpid(child, nullptr, 0);
}

TEST(LifeMutex, TellsOfNoEndOnceTheProcessHasGivenItUp) {
  LifeMutex mutex;
  const pid_t child = child_that(mutex, [](int memory) { LifeMutex(memory).hold(); });
  EXPECT_EQ(mutex.await_end(), 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(LifeMutex, RefusesWhatNoLauncherHasMade) {
  const Descriptor file(::open("/dev/null", O_RDWR));
  for (const int no_memory : {file.fd(), 1 << 19}) {
    const Status refused = thrown([&] { const LifeMutex mutex(no_memory); });
    EXPECT_EQ(refused.code, Code::invalid_argument);
    EXPECT_NE(refused.message.find("HORA_LIFE_FD"), std::string::npos);
  }
}

}  // namespace
}  // namespace hora
