// SPDX-License-Identifier: Apache-2.0
// Unknown processes at the ports of a job: nothing that they send does anything, and none of them holds
// anybody up.
#include "core/base/socket_io.h"
#include "test/job/shell.h"
#include "test/support/files.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace hora {
namespace {

using testing::HasSubstr;

/// The inodes of the sockets that a process has.
std::set<std::string> sockets_of(int pid) {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    const std::string link = std::filesystem::read_symlink(entry, error).string();
    if (link.starts_with("socket:[")) inodes.insert(link.substr(8, link.size() - 9));
  }
  return inodes;
}

/// The ports of the sockets of these processes that are in a state, in the words of /proc/net/tcp.
std::multiset<std::uint16_t> ports_in_state(const std::vector<int>& pids, const std::string& state) {
  std::set<std::string> inodes;
  for (const int pid : pids) inodes.merge(sockets_of(pid));
  std::multiset<std::uint16_t> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::vector<std::string> columns(10);
      for (auto& column : columns) words >> column;
      const auto colon = columns[1].rfind(':');
      if (columns[3] == state && inodes.contains(columns[9]))
        ports.insert(static_cast<std::uint16_t>(std::stoi(columns[1].substr(colon + 1), nullptr, 16)));
    }
  }
  return ports;
}

/// The ports at which these processes listen.
std::set<std::uint16_t> ports_of(const std::vector<int>& pids) {
  const auto ports = ports_in_state(pids, "0A");
  return {ports.begin(), ports.end()};
}

Descriptor connect_to(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  EXPECT_EQ(::connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

/// The answer of a service, until it closes the connection.
std::string answer_to(std::uint16_t port, const std::string& request) {
  const Descriptor socket = connect_to(port);
  write_all(socket.fd(), std::as_bytes(std::span(request)), Clock::now() + std::chrono::seconds(10));
  std::string answer;
  char byte = 0;
  while (await_events(socket.fd(), POLLIN, Clock::now() + std::chrono::seconds(10)) &&
         ::recv(socket.fd(), &byte, 1, 0) > 0)
    answer += byte;
  return answer;
}

long resident_kilobytes(int pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  }
  return 0;
}

/// A thousand connections to a job's ports: half of them say nothing, and half send a byte now and then.
class Crowd {
 public:
  explicit Crowd(const std::set<std::uint16_t>& ports) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    for (auto port = ports.begin(); sockets_.size() < 1000; ++port) {
      if (port == ports.end()) port = ports.begin();
      sockets_.push_back(connect_to(*port));
    }
    slow_ = std::thread([this] {
      const char byte = 'H';
      while (!over_) {
        for (std::size_t i = 0; i < sockets_.size(); i += 2)
          ::send(sockets_[i].fd(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
    });
  }
  ~Crowd() {
    over_ = true;
    slow_.join();
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  std::vector<Descriptor> sockets_;
  std::atomic<bool> over_ = false;
  std::thread slow_;
};

class UnknownProcesses : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) / fmt::format("hora-unknown-processes-{}", ::getpid());
    std::filesystem::create_directories(folder_);
    ::setenv("HORA_CPU_OPERATIONS", "tcp", 1);  // so that there are listeners for data, too
  }
  void TearDown() override {
    ::unsetenv("HORA_CPU_OPERATIONS");
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void make(const std::string& name) const { std::ofstream(folder_ / name).flush(); }

  /// hrun, its ranks, and what they started.
  static std::vector<int> everybody(const Launched& launched) {
    auto pids = launched.processes();
    pids.push_back(launched.pid());
    return pids;
  }

  std::filesystem::path folder_;
};

TEST_F(UnknownProcesses, CannotPutAPickleAnywhere) {
  Launched job({"-np", "4", HORA_WORKER, "until", path("stop")});
  ASSERT_TRUE(job.await_output("step"));
  const auto ports = ports_of(everybody(job));
  EXPECT_GE(ports.size(), 8U) << "a listener for messages and one for data on each rank, at least";
  const std::string body = fmt::format("cos\nsystem\n(S'touch {}'\ntR.", path("owned"));
  for (const auto port : ports) {
    for (const char* target : {"/worker_addresses/0", "/runfunc_result/0", "/kvstore/key"}) {
      const std::string put = fmt::format("PUT {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}",
                                          target, body.size(), body);
      EXPECT_EQ(answer_to(port, put), "") << port;
      const std::string get = fmt::format("GET {} HTTP/1.1\r\nHost: x\r\nPadding: {:060}\r\n\r\n", target, 0);
      EXPECT_EQ(answer_to(port, get), "") << port;
    }
  }
  make("stop");
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("done"));
  EXPECT_THAT(outcome.errors, HasSubstr("refused a connection from 127.0.0.1:"));
  EXPECT_FALSE(std::filesystem::exists(path("owned")));
}

TEST_F(UnknownProcesses, FindTheSecretInNothingThatAJobShows) {
  // The script writes down the secret that hrun gives the ranks, and passes it on to a program of Hora's.
  const std::string script = fmt::format(
      "head -c 32 <&$HORA_SECRET_FD >{0}/secret$HORA_RANK; exec {{given}}<{0}/secret$HORA_RANK; "
      "HORA_SECRET_FD=$given exec {1} until {0}/stop",
      folder_.string(), HORA_WORKER);
  ::setenv("HORA_DUMP_DIR", path("dumps").c_str(), 1);
  ::setenv("HORA_LOG_LEVEL", "debug", 1);
  Launched job({"-np", "2", "--verbose", "bash", "-c", script});
  ASSERT_TRUE(job.await_output("step"));
  std::string shown;
  int rank = 0;
  for (const int pid : everybody(job)) {
    const std::string command = text_of_file(fmt::format("/proc/{}/cmdline", pid));
    if (command.starts_with(HORA_WORKER)) rank = pid;
    shown += command + text_of_file(fmt::format("/proc/{}/environ", pid));
  }
  ASSERT_NE(rank, 0);
  ::kill(rank, SIGKILL);  // the other one writes down what it knows
  const Outcome outcome = job.wait();
  ::unsetenv("HORA_DUMP_DIR");
  ::unsetenv("HORA_LOG_LEVEL");
  shown += outcome.output + outcome.errors;
  for (const auto& file : std::filesystem::recursive_directory_iterator(path("dumps")))
    shown += file.is_regular_file() ? text_of_file(file.path()) : "";
  const std::string secret = text_of_file(path("secret0"));
  ASSERT_EQ(secret.size(), 32U);
  EXPECT_EQ(text_of_file(path("secret1")), secret);
  std::string hex;
  for (const char byte : secret) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  EXPECT_GT(shown.size(), 1000U);
  EXPECT_EQ(shown.find(secret), std::string::npos);
  EXPECT_EQ(shown.find(hex), std::string::npos);
}

TEST_F(UnknownProcesses, CannotStopARunningJob) {
  Launched job({"-np", "4", HORA_WORKER, "until", path("stop")});
  ASSERT_TRUE(job.await_output("step"));
  const Crowd crowd(ports_of(everybody(job)));
  make("stop");
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("done"));
}

TEST_F(UnknownProcesses, CannotStopARendezvous) {
  const std::string late =
      fmt::format("[ $HORA_RANK = 3 ] && while [ ! -e {} ]; do sleep 0.05; done; echo up; exec {} reduce",
                  path("go"), HORA_WORKER);
  Launched job({"-np", "4", "sh", "-c", late});
  ASSERT_TRUE(job.await_output("[0] up") && job.await_output("[1] up") && job.await_output("[2] up"));
  const auto everyone = everybody(job);
  const auto memory = [&everyone] {
    return std::accumulate(everyone.begin(), everyone.end(), 0L,
                           [](long sum, int pid) { return sum + resident_kilobytes(pid); });
  };
  while (ports_in_state(everyone, "01").size() < 4) std::this_thread::yield();  // three have met
  const long before = memory();
  const Crowd crowd(ports_of(everyone));
  EXPECT_LT(memory() - before, 4096) << "kilobytes, for a thousand connections";
  make("go");
  const TimePoint start = Clock::now();
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("done"));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace hora
