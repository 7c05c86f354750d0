// SPDX-License-Identifier: Apache-2.0
// Questions about a job while it runs: hrun status, hrun dump, and metrics.
#include "runner/observe/dump_file.h"
#include "runner/observe/http.h"
#include "runner/observe/status_command.h"
#include "test/job/shell.h"

#include "core/base/socket_io.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

namespace hora {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

/// A session of its own, in which no other jobs run.
class Status : public testing::Test {
 protected:
  Status() {
    std::filesystem::create_directories(folder_ + "/session");
    ::setenv("XDG_RUNTIME_DIR", (folder_ + "/session").c_str(), 1);
    if (former_ != nullptr) kept_ = former_;
  }
  ~Status() override {
    former_ == nullptr ? ::unsetenv("XDG_RUNTIME_DIR") : ::setenv("XDG_RUNTIME_DIR", kept_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }

  /// A job of hora ranks that do what the words say.
  [[nodiscard]] std::vector<std::string> job(int ranks, const std::vector<std::string>& words,
                                             const std::vector<std::string>& options = {}) const {
    std::vector<std::string> all{"-np", std::to_string(ranks), "-x", "HORA_DUMP_DIR=" + folder_ + "/dumps"};
    all.insert(all.end(), options.begin(), options.end());
    all.emplace_back(HORA_WORKER);
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  /// How the job of this hrun is.
  static json status_of(const Launched& launched) {
    const Outcome outcome = run_hrun({"status", std::to_string(launched.pid()), "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
    return json::parse(outcome.output);
  }
  [[nodiscard]] std::vector<std::string> sockets() const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/session/hora", none))
      names.push_back(entry.path().filename().string());
    return names;
  }
  void stop() const { std::ofstream(folder_ + "/stop").close(); }

  const std::string folder_ =
      (std::filesystem::path(testing::TempDir()) / ("hora-status-" + std::to_string(::getpid()))).string();

 private:
  const char* former_ = std::getenv("XDG_RUNTIME_DIR");
  std::string kept_;
};

TEST_F(Status, TellsHowAJobGoesOn) {
  Launched launched(job(2, {"until", folder_ + "/stop"}));
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(launched.await_output("step\n"));
  json now = status_of(launched);
  while (now["steps"].is_null()) now = status_of(launched);
  EXPECT_EQ(now["np"], 2);
  EXPECT_EQ(now["hrun"]["pid"], launched.pid());
  EXPECT_GT(now["steps"]["count"], 0);
  EXPECT_LT(now["steps"]["seconds_since_last"], 60);
  double last = 0;
  for (const auto& rank : now["ranks"]) {
    EXPECT_EQ(rank["state"], "running");
    EXPECT_GT(rank["operations"], 0);
    EXPECT_GT(rank["bytes"], 0);
    EXPECT_GE(rank["lateness"]["p99_seconds"], rank["lateness"]["median_seconds"]);
    last += rank["lateness"]["share_of_steps_as_last"].get<double>();
  }
  EXPECT_LE(last, 1.0001);
  const json later = status_of(launched);
  EXPECT_GE(later["ranks"][0]["operations"], now["ranks"][0]["operations"]);
  EXPECT_THAT(run_hrun({"status", now["job"].get<std::string>()}).output, HasSubstr(" steps/s; "));
  EXPECT_EQ(sockets().size(), 1u);
  stop();
  const Outcome outcome = launched.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("hrun"), std::string::npos) << "nobody is told what he has not asked for";
  EXPECT_THAT(sockets(), IsEmpty());
}

TEST_F(Status, TellsWhoIsMissingAndDumpsWhatRanksWereDoing) {
  Launched launched(job(3, {"forget", "1"}));
  ASSERT_TRUE(launched.await_output("[1] up"));
  json now = status_of(launched);
  while (now["waiting"].empty() || now["waiting"][0]["missing"] != 1 ||
         now["ranks"][1]["in_flight"] != json::array())
    now = status_of(launched);
  EXPECT_EQ(now["waiting"][0]["name"], "only");
  EXPECT_EQ(now["waiting"][0]["what"], "allreduce float32[12]");
  EXPECT_EQ(now["waiting"][0]["missing_ranks"], std::vector<int>{1});
  EXPECT_EQ(now["ranks"][0]["in_flight"][0]["name"], "only");
  const Outcome dumped = run_hrun({"dump", std::to_string(launched.pid())});
  EXPECT_EQ(dumped.exit_code, 0) << dumped.errors;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(dumped.output,
                HasSubstr(fmt::format("rank {} on localhost: {}/dumps/rank{}.json\n", rank, folder_, rank)));
  const auto dumps = hrun::read_dumps(folder_ + "/dumps");
  ASSERT_EQ(dumps.size(), 3u);
  EXPECT_EQ(dumps.front().job, now["job"].get<std::string>()) << "the job has one name";
  EXPECT_EQ(dumps.front().message, "hrun dump asks for it");
  EXPECT_THAT(run_hrun({"analyze", folder_ + "/dumps"}).output, HasSubstr("rank 1 never submitted 'only'"));
  launched.signal(SIGTERM);
  EXPECT_EQ(launched.wait().errors.find("dump"), std::string::npos) << "ranks say nothing of it";
  EXPECT_THAT(sockets(), IsEmpty());
}

TEST_F(Status, NamesRanksThatDoNotAnswer) {
  Launched launched(job(2, {"forget", "1"}, {"-x", "HORA_HEARTBEAT_TIMEOUT=0"}));
  ASSERT_TRUE(launched.await_output("[0] up"));
  ASSERT_TRUE(launched.await_output("[1] up"));
  const int stopped = status_of(launched)["ranks"][1]["pid"];
  ::kill(stopped, SIGSTOP);
  const json now = status_of(launched);
  EXPECT_EQ(now["ranks"][1]["state"], "no answer");
  EXPECT_EQ(now["ranks"][1]["running"], true);
  EXPECT_EQ(now["ranks"][0]["state"], "running");
  const Outcome dumped = run_hrun({"dump", std::to_string(launched.pid())});
  EXPECT_EQ(dumped.exit_code, 1);
  EXPECT_THAT(dumped.errors, HasSubstr(fmt::format("rank 1 (pid {} on localhost) does not answer", stopped)));
  EXPECT_THAT(dumped.errors, HasSubstr("/dumps/rank0.json"));
  ::kill(stopped, SIGCONT);
  json again = status_of(launched);
  while (again["ranks"][1]["answers"] != true) again = status_of(launched);
}

TEST_F(Status, KnowsProgramsThatHaveNotCalledInit) {
  Launched launched({"-np", "2", "/bin/sh", "-c", "echo up; exec sleep 60"});
  ASSERT_TRUE(launched.await_output("[0] up"));
  ASSERT_TRUE(launched.await_output("[1] up"));
  const Outcome asked = run_hrun({"status", std::to_string(launched.pid())});
  EXPECT_EQ(asked.exit_code, 0) << asked.errors;
  EXPECT_LT(asked.seconds, 1.5) << "nobody is waited for";
  EXPECT_EQ(status_of(launched)["ranks"][0]["state"], "before init");
  EXPECT_THAT(run_hrun({"dump", std::to_string(launched.pid())}).errors,
              HasSubstr("has not called init yet"));
}

TEST_F(Status, OfAJobWhoseHrunWasKilledIsNone) {
  std::string id;
  {
    Launched launched(job(2, {"until", folder_ + "/stop"}));
    ASSERT_TRUE(launched.await_output("step\n"));
    id = status_of(launched)["job"];
  }
  EXPECT_EQ(sockets().size(), 1u);
  const Outcome asked = run_hrun({"status", id});
  EXPECT_EQ(asked.exit_code, 1);
  EXPECT_THAT(sockets(), IsEmpty());
}

/// A connection with a port of this machine, on which something has been written.
Descriptor written_at(int port, const std::string& text) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  return socket;
}

hrun::HttpResponse response_at(int port, const std::string& request) {
  const Descriptor socket = written_at(port, request);
  std::string text;
  std::array<char, 4096> buffer{};
  for (auto got = ::recv(socket.fd(), buffer.data(), buffer.size(), 0); got > 0;
       got = ::recv(socket.fd(), buffer.data(), buffer.size(), 0))
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return hrun::parse_response(text);
}

TEST_F(Status, ServesMetricsAlsoWhileOthersAskSlowlyOrNonsense) {
  Launched launched(job(2, {"until", folder_ + "/stop"}, {"--metrics", "127.0.0.1:0", "--verbose"}));
  ASSERT_TRUE(launched.await_errors("this is job"));
  std::smatch port_of_metrics;
  const std::string said = launched.errors();
  ASSERT_TRUE(
      std::regex_search(said, port_of_metrics, std::regex("metrics are at 127\\.0\\.0\\.1:([0-9]+)\n")))
      << said;
  const int port = std::stoi(port_of_metrics[1]);
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(launched.await_output("step\n"));
  std::vector<Descriptor> slow;
  for (int i = 0; i < 8; ++i) slow.push_back(written_at(port, "GET /metr"));
  const auto metric = [&](const std::string& name) {
    const std::string body = response_at(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").body;
    std::smatch value;
    return std::regex_search(body, value, std::regex("\n" + name + " ([0-9.]+)\n")) ? std::stod(value[1])
                                                                                    : -1;
  };
  const std::string operations = R"(hora_operations_total\{rank="1",host="localhost"\})";
  double first = metric(operations);
  while (first <= 0) first = metric(operations);
  while (metric(operations) <= first) {  // it goes on
  }
  EXPECT_EQ(response_at(port, "GET /status HTTP/1.0\r\n\r\n").status, 404);
  EXPECT_EQ(response_at(port, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
  EXPECT_EQ(response_at(port, "POST /metrics HTTP/1.0\r\n\r\n").status, 405);
  EXPECT_EQ(response_at(port, "\x16\x03\x01\r\n\r\n").status, 400);
  stop();
  EXPECT_EQ(launched.wait().exit_code, 0);
}

TEST_F(Status, ServesMetricsAtAPathAndTakesItAway) {
  const std::string path = folder_ + "/metrics";
  Launched launched(job(1, {"until", folder_ + "/stop"}, {"--metrics", "unix:" + path}));
  ASSERT_TRUE(launched.await_output("step\n"));
  EXPECT_TRUE(std::filesystem::is_socket(path));
  stop();
  EXPECT_EQ(launched.wait().exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Status, StartsNothingWhereMetricsCannotBeServed) {
  EXPECT_EQ(run_hrun({"-np", "1", "--metrics", "0.0.0.0:9400", "true"}).exit_code, 2);
  const Outcome outcome = run_hrun({"-np", "1", "--metrics", "unix:/proc/x", "echo", "started"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.errors, HasSubstr("--metrics: cannot listen at /proc/x"));
}

TEST_F(Status, IsNoneOfAnotherUsersBusiness) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Launched launched(job(2, {"until", folder_ + "/stop"}));
  ASSERT_TRUE(launched.await_output("step\n"));
  EXPECT_EQ(status_of(launched)["np"], 2);
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(9);
    ::_exit(hrun::answer_about_job({"status", std::to_string(launched.pid())})->exit_code);
  }
  int status = 0;
  ::waitpid(other, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_EQ(sockets().size(), 1u) << "nor can it remove what it cannot see";
}

}  // namespace
}  // namespace hora
