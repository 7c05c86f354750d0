// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/process.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace hora::hrun {
namespace {

std::string read_all(const Descriptor& pipe) {
  std::string text;
  char buffer[256];
  for (auto n = ::read(pipe.fd(), buffer, sizeof buffer); n > 0;
       n = ::read(pipe.fd(), buffer, sizeof buffer)) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

TEST(Start, RunsAProgramWithItsEnvironmentAndKeepsOutputsApart) {
  const Process process = start({{"/bin/sh", "-c", "echo $WORD; echo bad >&2; exit 3"}, {"WORD=hello"}, {}});
  EXPECT_EQ(read_all(process.output), "hello\n");
  EXPECT_EQ(read_all(process.errors), "bad\n");
  int status = 0;
  ::waitpid(process.pid, &status, 0);
  EXPECT_EQ(describe_ending(status).exit_code, 3);
  EXPECT_EQ(describe_ending(status).how, "exited with code 3");
}

TEST(Start, TellsAProgramWhichPipeItsStderrIs) {
  ProcessPlan plan{{"/bin/sh", "-c", "echo $PIPE; stat -L -c %d:%i /dev/fd/2"}, {"PATH=/usr/bin:/bin"}, {}};
  plan.errors_variable = "PIPE";
  const Process process = start(plan);
  const std::string text = read_all(process.output);
  const std::string told = text.substr(0, text.find('\n') + 1);
  EXPECT_GT(told.size(), 3U) << text;
  EXPECT_EQ(text, told + told);
  ::waitpid(process.pid, nullptr, 0);
}

TEST(Start, BindsAProgramToCpus) {
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &set)) --last;
  ProcessPlan plan{
      {"/bin/sh", "-c",
       "while read key list; do [ $key != Cpus_allowed_list: ] || echo $list; done < /proc/self/status"},
      {},
      {}};
  plan.cpus = {last};
  const Process process = start(plan);
  EXPECT_EQ(read_all(process.output), std::to_string(last) + "\n");
  ::waitpid(process.pid, nullptr, 0);
}

TEST(Start, TellsWhyAProgramCannotRun) {
  EXPECT_THROW(static_cast<void>(start({{"/etc/hostname"}, {}, {}})), Error);
}

TEST(Start, LetsTheProcessAnnounceItsGroupBeforeItIsTheProgram) {
  const Pipe pipe = make_pipe();
  ProcessPlan plan;
  plan.command = {"/bin/true"};
  plan.announce = pipe.write.fd();
  const Process process = start(plan);
  int group = 0;
  EXPECT_EQ(::read(pipe.read.fd(), &group, sizeof group), static_cast<ssize_t>(sizeof group));
  EXPECT_EQ(group, process.pid);
  ::waitpid(process.pid, nullptr, 0);
}

TEST(DescribeEnding, NamesTheSignal) {
  const Process process = start({{"/bin/sh", "-c", "kill -9 $$"}, {}, {}});
  int status = 0;
  ::waitpid(process.pid, &status, 0);
  EXPECT_EQ(describe_ending(status).exit_code, 128 + SIGKILL);
  EXPECT_EQ(describe_ending(status).how, "was killed by signal 9 (Killed)");
  EXPECT_EQ(describe_ending(status).signal, SIGKILL);
}

TEST(Quoted, IsOneWordForAShell) {
  EXPECT_EQ(shell_quoted("/opt/hora/bin/hrun"), "'/opt/hora/bin/hrun'");
  EXPECT_EQ(shell_quoted("it's $HOME"), R"('it'\''s $HOME')");
}

}  // namespace
}  // namespace hora::hrun
