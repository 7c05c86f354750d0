// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/process.h"

#include <hora/status.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace hora::hrun {
namespace {

/// The bits of CPUs as the system takes them; empty for no CPUs.
std::vector<unsigned long> mask_of(const std::vector<int>& cpus) {
  constexpr std::size_t kBits = sizeof(unsigned long) * 8;
  std::vector<unsigned long> mask;
  for (const int cpu : cpus) {
    const std::size_t word = static_cast<std::size_t>(cpu) / kBits;
    if (mask.size() <= word) mask.resize(word + 1);
    mask[word] |= 1UL << static_cast<std::size_t>(cpu) % kBits;
  }
  return mask;
}

/// The data that the child needs, made before the fork: after it only system calls are safe.
struct Prepared {
  std::vector<char*> command;
  std::vector<char*> environment;
  std::vector<unsigned long> cpus;
  int output;
  int errors;
  int trouble;  // where the child reports that it cannot start; closed by a successful exec
  int parent;
};

/// "device:inode", the same for both ends of a pipe.
std::string identity_of(int file) {
  struct stat state{};
  if (::fstat(file, &state) != 0) fail("cannot look at a pipe");
  return fmt::format("{}:{}", state.st_dev, state.st_ino);
}

[[noreturn]] void become(const ProcessPlan& plan, const Prepared& prepared) {
  if (plan.terminal >= 0) {
    ::setsid();
    ::ioctl(plan.terminal, TIOCSCTTY, 0);
  } else {
    ::setpgid(0, 0);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(1);  // hrun died in between
  const int group = ::getpid();
  if (plan.announce >= 0 && ::write(plan.announce, &group, sizeof group) != sizeof group) ::_exit(1);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGINT, SIG_DFL);  // a Ctrl-C is passed on also where a shell started hrun in the background
  const int given = plan.terminal >= 0 ? plan.terminal : plan.input;
  const int input = given >= 0 ? given : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input == STDIN_FILENO) ::fcntl(input, F_SETFD, 0);
  if (input != STDIN_FILENO) ::dup2(input, STDIN_FILENO);
  ::dup2(prepared.output, STDOUT_FILENO);
  ::dup2(prepared.errors, STDERR_FILENO);
  for (const int fd : plan.inherited) ::fcntl(fd, F_SETFD, 0);
  // As far as it goes: where a CPU has left since hrun looked, the rank runs all the same.
  if (!prepared.cpus.empty()) {
    ::sched_setaffinity(0, prepared.cpus.size() * sizeof(unsigned long),
                        reinterpret_cast<const cpu_set_t*>(prepared.cpus.data()));
  }
  ::execve(prepared.command[0], prepared.command.data(), prepared.environment.data());
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(prepared.trouble, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (const auto& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

void fail(const std::string& what) {
  throw Error(Code::unavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return out + "'";
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot make a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Process start(const ProcessPlan& plan) {
  Pipe output = plan.terminal >= 0 ? Pipe() : make_pipe();
  Pipe errors = make_pipe();
  Pipe trouble = make_pipe();
  std::vector<std::string> environment = plan.environment;
  if (!plan.errors_variable.empty())
    environment.push_back(fmt::format("{}={}", plan.errors_variable, identity_of(errors.read.fd())));
  const Prepared prepared{pointers(plan.command),
                          pointers(environment),
                          mask_of(plan.cpus),
                          plan.terminal >= 0 ? plan.terminal : output.write.fd(),
                          errors.write.fd(),
                          trouble.write.fd(),
                          ::getpid()};
  const pid_t pid = ::fork();
  if (pid == 0) become(plan, prepared);
  if (pid < 0) fail("cannot start a process");
  // Both sides do it, so that it is done whoever runs first; a leader of a group could not begin a session.
  if (plan.terminal < 0) ::setpgid(pid, pid);
  trouble.write = Descriptor();
  int error = 0;
  if (::read(trouble.read.fd(), &error, sizeof error) == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    throw Error(Code::unavailable,
                fmt::format("cannot start '{}': {}", plan.command.front(),
                            error == ENOEXEC ? "it is no binary, and no script that begins with #!"
                                             : std::strerror(error)));
  }
  return {pid, std::move(output.read), std::move(errors.read)};
}

Ending describe_ending(int wait_status) {
  if (WIFEXITED(wait_status)) {
    const int code = WEXITSTATUS(wait_status);
    return {code, fmt::format("exited with code {}", code)};
  }
  const int signal = WTERMSIG(wait_status);
  return {128 + signal,
          fmt::format("was killed by signal {} ({}{})", signal, ::strsignal(signal),
                      WCOREDUMP(wait_status) ? ", core dumped" : ""),
          signal};
}

Ending describe_stop(int signal) {
  return {128 + signal, fmt::format("was stopped by signal {} ({})", signal, ::strsignal(signal)), signal};
}

}  // namespace hora::hrun
