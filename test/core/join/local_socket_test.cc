// SPDX-License-Identifier: Apache-2.0
#include "core/join/local_socket.h"

#include <hora/status.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace hora {
namespace {

std::string some_name() { return "hora-test-" + std::to_string(::getpid()); }
TimePoint soon() { return Clock::now() + std::chrono::seconds(10); }

TEST(LocalSocket, PassesAFile) {
  const Descriptor listener = listen_local(some_name());
  const Descriptor connection = connect_local(some_name());
  const Descriptor host = accept_local(listener, soon());
  const Descriptor file(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.fd(), 12345), 0);
  send_descriptor(host, file, soon());
  const Descriptor received = receive_descriptor(connection, soon());
  struct stat found{};
  ASSERT_EQ(::fstat(received.fd(), &found), 0);
  EXPECT_EQ(found.st_size, 12345);
  EXPECT_NE(::fcntl(received.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(LocalSocket, KnowsWhoConnects) {
  const Descriptor listener = listen_local(some_name());
  const Descriptor connection = connect_local(some_name());
  EXPECT_EQ(user_of(accept_local(listener, soon())), ::geteuid());
}

TEST(LocalSocket, SaysSoWhenNobodyListens) {
  EXPECT_THROW(static_cast<void>(connect_local("hora-test-nobody")), Error);
}

TEST(LocalSocket, WaitsNoLongerThanTheDeadline) {
  const Descriptor listener = listen_local(some_name());
  try {
    static_cast<void>(accept_local(listener, Clock::now()));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
  }
}

TEST(LocalSocket, RefusesAMessageWithoutAFileAndAClosedConnection) {
  const Descriptor listener = listen_local(some_name());
  const Descriptor connection = connect_local(some_name());
  {
    const Descriptor host = accept_local(listener, soon());
    ASSERT_EQ(::write(host.fd(), "x", 1), 1);
    EXPECT_THROW(static_cast<void>(receive_descriptor(connection, soon())), Error);
  }
  EXPECT_THROW(static_cast<void>(receive_descriptor(connection, soon())), Error);
}

}  // namespace
}  // namespace hora
