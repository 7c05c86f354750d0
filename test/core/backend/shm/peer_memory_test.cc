// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/peer_memory.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sys/mman.h>
#include <sys/wait.h>

namespace hora::shm {
namespace {

std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uint64_t>(data); }

TEST(ProcessMemory, ReadsAndWritesAnotherProcess) {
  std::uint64_t probe = kProbe;
  std::array<int, 1000> data{};
  data[999] = 5;
  int wake[2];
  ASSERT_EQ(::pipe(wake), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool woken = ::read(wake[0], &byte, 1) == 1;
    ::_exit(woken && data[0] == 7 && probe == kProbe ? 0 : 1);
  }
  auto memory = make_process_memory({child}, {address_of(&probe)});
  if (memory) {
    std::array<int, 1000> copy{};
    memory->read(0, copy.data(), address_of(data.data()), sizeof copy);
    EXPECT_EQ(copy[999], 5);
    copy[0] = 7;
    memory->write(0, address_of(data.data()), copy.data(), sizeof copy);
  }
  EXPECT_EQ(data[0], 0);
  EXPECT_TRUE(!memory || !memory->has_ended(0));
  ASSERT_EQ(::write(wake[1], "x", 1), 1);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(!memory || memory->has_ended(0)) << "also before anybody has waited for it";
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::close(wake[0]);
  ::close(wake[1]);
  if (!memory) GTEST_SKIP() << "process_vm_readv is refused here";
  EXPECT_EQ(status, 0);
  EXPECT_THROW(memory->read(0, data.data(), address_of(data.data()), 4), Error);  // it is no more
  EXPECT_TRUE(memory->has_ended(0));
}

TEST(ProcessMemory, IsNotUsedWhenTheProbeIsSomethingElse) {
  std::uint64_t probe = 1;
  EXPECT_EQ(make_process_memory({::getpid()}, {address_of(&probe)}), nullptr);
  EXPECT_EQ(make_process_memory({::getpid()}, {8}), nullptr);
}

TEST(ThreadMemory, IsTheSameMemory) {
  const auto memory = make_thread_memory();
  int here = 3;
  int there = 4;
  memory->read(1, &here, address_of(&there), sizeof here);
  EXPECT_EQ(here, 4);
  here = 5;
  memory->write(1, address_of(&there), &here, sizeof here);
  EXPECT_EQ(there, 5);
}

}  // namespace
}  // namespace hora::shm
