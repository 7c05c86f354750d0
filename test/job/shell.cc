// SPDX-License-Identifier: Apache-2.0
#include "test/job/shell.h"

#include "test/support/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

namespace hora {
namespace {

constexpr double kMostSeconds = 300;  // that any job of these tests may take
constexpr double kToEndSeconds = 30;  // for hrun to end one that has taken longer

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Launched::Launched(const std::vector<std::string>& arguments, const std::vector<int>& ignored,
                   const std::vector<int>& closed, bool one_pipe)
    : start_(now()), until_(start_ + kMostSeconds) {
  static int number = 0;
  mark_ = fmt::format("HORA_TEST_MARK={}.{}", ::getpid(), ++number);
  int output[2];
  int errors[2];
  if (::pipe(output) != 0 || ::pipe(errors) != 0) throw std::runtime_error("no pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(output[1], 1);
    ::dup2(one_pipe ? output[1] : errors[1], 2);
    for (const int fd : {output[0], output[1], errors[0], errors[1]}) ::close(fd);
    ::putenv(mark_.data());
    ::signal(SIGHUP, SIG_DFL);  // also where the tests run under nohup
    for (const int signal : ignored) ::signal(signal, SIG_IGN);
    for (const int fd : closed) ::close(fd);
    std::vector<char*> words{const_cast<char*>(HORA_HRUN)};
    for (const auto& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    ::_exit(126);
  }
  ::close(output[1]);
  ::close(errors[1]);
  output_ = output[0];
  errors_ = errors[0];
}

Launched::~Launched() {
  if (pid_ > 0) {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {output_, errors_}) {
    if (fd >= 0) ::close(fd);
  }
}

void Launched::signal(int number) const { ::kill(pid_, number); }

void Launched::stop_reading() {
  ::close(output_);
  output_ = -1;
}

void Launched::stop() const {
  signal(SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
}

/// Waits until there is something to read from one of them. A job that goes on for too long is ended, so that
/// its test fails, and what it said so far is seen.
void Launched::await_news(pollfd* events, nfds_t count) {
  while (::poll(events, count, static_cast<int>(std::max(0.0, until_ - now()) * 1000)) == 0) {
    if (std::exchange(overdue_, true)) {
      signal(SIGKILL);
      for (const int pid : processes()) ::kill(pid, SIGKILL);
    } else {
      outcome_.errors += fmt::format("[the test has ended this job after {} s]\n", kMostSeconds);
      signal(SIGTERM);
    }
    until_ = now() + kToEndSeconds;
  }
}

bool Launched::read_some(int& fd, std::string& text) {
  pollfd event{fd, POLLIN, 0};
  await_news(&event, 1);
  char buffer[4096];
  const auto n = ::read(fd, buffer, sizeof buffer);
  if (n > 0) {
    text.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  ::close(fd);
  fd = -1;
  return false;
}

bool Launched::await_output(const std::string& text) {
  while (outcome_.output.find(text) == std::string::npos) {
    if (output_ < 0 || !read_some(output_, outcome_.output)) return false;
  }
  return true;
}

bool Launched::await_errors(const std::string& text) {
  while (outcome_.errors.find(text) == std::string::npos) {
    if (errors_ < 0 || !read_some(errors_, outcome_.errors)) return false;
  }
  return true;
}

bool Launched::await_more_output(std::size_t bytes) {
  while (outcome_.output.size() < bytes) {
    if (output_ < 0 || !read_some(output_, outcome_.output)) return false;
  }
  return true;
}

void Launched::await_full_output() const {
  const int writer = ::open(fmt::format("/proc/self/fd/{}", output_).c_str(), O_WRONLY | O_CLOEXEC);
  pollfd event{writer, POLLOUT, 0};
  while (::poll(&event, 1, 0) == 1) std::this_thread::yield();
  ::close(writer);
}

Outcome Launched::wait_before_reading() {
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  return wait();
}

Outcome Launched::wait() {
  while (output_ >= 0 || errors_ >= 0) {
    pollfd events[] = {{output_, POLLIN, 0}, {errors_, POLLIN, 0}};
    await_news(events, 2);  // poll passes over what is closed
    if (events[0].revents != 0) read_some(output_, outcome_.output);
    if (events[1].revents != 0) read_some(errors_, outcome_.errors);
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = 0;
  outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome_.seconds = now() - start_;
  return outcome_;
}

std::vector<int> Launched::processes() const {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == pid_) continue;
    const std::string environment = text_of_file(entry.path() / "environ");
    if ((environment + '\0').find(mark_ + '\0') != std::string::npos) found.push_back(pid);
  }
  return found;
}

std::vector<int> Launched::processes_of_ranks() const {
  std::vector<int> found;
  for (const int pid : processes()) {
    const std::string environment = text_of_file(fmt::format("/proc/{}/environ", pid));
    if (environment.find("HORA_RANK=") != std::string::npos) found.push_back(pid);
  }
  return found;
}

bool Launched::all_gone() const {
  for (int i = 0; i < 1000; ++i) {
    if (processes().empty()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

Outcome run_hrun(const std::vector<std::string>& arguments, const std::vector<int>& ignored) {
  return Launched(arguments, ignored).wait();
}

std::vector<std::string> worker(int ranks, const std::vector<std::string>& words,
                                const std::vector<std::string>& options) {
  std::vector<std::string> all{"-np", std::to_string(ranks)};
  all.insert(all.end(), options.begin(), options.end());
  all.emplace_back(HORA_WORKER);
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace hora
