// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/status_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>

namespace hora::hrun {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

/// A job of two ranks that has no processes; its time only goes on when it is told to.
class Job {
 public:
  Job() {
    summary.command = {"./train"};
    summary.hosts = {"a"};
    for (int rank = 0; rank < 2; ++rank) {
      RankSummary& one = summary.ranks.emplace_back();
      one.rank = rank;
      one.host = "a";
      one.pid = 100 + rank;
      one.started = std::chrono::system_clock::now();
    }
    status_service.emplace(
        "0123abcd", summary, [this](const Question& question) { asked.push_back(question); }, now);
    JobSocket socket(Folder::private_at(folder_), "0123abcd");
    path_ = socket.path();
    status_service->open(std::move(socket));
  }
  ~Job() { std::filesystem::remove_all(folder_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Somebody who has asked, and has been heard.
  Descriptor visitor(const HttpRequest& request) {
    Descriptor socket = connect_to_job(path_);
    const std::string text = encode(request);
    EXPECT_EQ(::send(socket.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    status_service->turn(now);
    return socket;
  }
  void arrive(int rank) { status_service->take(rank, {0, ReplyKind::arrived}); }
  /// The answer, if it has been given.
  std::optional<HttpResponse> answer(const Descriptor& visitor) {
    status_service->turn(now);
    std::array<char, 64 * 1024> buffer{};
    const auto got = ::recv(visitor.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0) return std::nullopt;
    return parse_response({buffer.data(), static_cast<std::size_t>(got)});
  }
  [[nodiscard]] nlohmann::json json(const Descriptor& visitor) {
    return nlohmann::json::parse(answer(visitor)->body);
  }

  TimePoint now = TimePoint() + seconds(1000);
  JobSummary summary;
  std::vector<Question> asked;
  std::optional<StatusService> status_service;

 private:
  const std::string folder_ =
      (std::filesystem::path(testing::TempDir()) / ("hora-asked-" + std::to_string(::getpid()))).string();
  std::string path_;
};

const HttpRequest kStatus{"GET", "/status.json"};
const HttpRequest kDump{"POST", "/dump"};

Bytes bytes(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

TEST(StatusService, AskTheRanksOnlyWhenSomebodyAsks) {
  Job job;
  job.arrive(0);
  job.arrive(1);
  job.status_service->turn(job.now);
  EXPECT_TRUE(job.asked.empty());
  const Descriptor visitor = job.visitor(kStatus);
  ASSERT_EQ(job.asked.size(), 1u);
  EXPECT_EQ(job.asked.front(), (Question{1, QuestionKind::health}));
  Health health;
  health.finished = 7;
  job.status_service->take(0, {1, ReplyKind::health, encode(health)});
  job.status_service->take(1, {1, ReplyKind::health, encode(health)});
  EXPECT_FALSE(job.answer(visitor)) << "rank 0's engine is still to say how the job is";
  JobHealth all;
  all.steps = 5;
  job.status_service->take(0, {1, ReplyKind::job, encode(all)});
  const auto json = job.json(visitor);
  EXPECT_EQ(json["steps"]["count"], 5);
  EXPECT_EQ(json["ranks"][1]["operations"], 7);
}

TEST(StatusService, WaitForNobodyWhoCannotAnswer) {
  Job job;
  EXPECT_EQ(job.json(job.visitor(kStatus))["ranks"][0]["state"], "before init");
  job.arrive(0);
  job.status_service->take(0, {0, ReplyKind::left});
  job.arrive(1);
  job.summary.ranks[1].ending = Ending{3, "exited with code 3", 0};
  job.now += seconds(1);
  const auto json = job.json(job.visitor(kStatus));
  EXPECT_EQ(json["ranks"][0]["state"], "after shutdown");
  EXPECT_EQ(json["ranks"][1]["state"], "exited with code 3");
}

TEST(StatusService, GiveWhatTheyHaveAfterTwoSeconds) {
  Job job;
  job.arrive(0);
  job.arrive(1);
  const Descriptor visitor = job.visitor(kStatus);
  job.status_service->take(1, {1, ReplyKind::health, encode(Health())});
  EXPECT_EQ(job.status_service->next(), job.now + seconds(2));
  job.now += seconds(2);
  const auto json = job.json(visitor);
  EXPECT_EQ(json["ranks"][0]["state"], "no answer");
  EXPECT_EQ(json["ranks"][1]["answers"], true);
  job.status_service->take(0, {1, ReplyKind::health, encode(Health())});  // too late
  EXPECT_EQ(job.status_service->next(), TimePoint::min()) << "who has been answered is let out at once";
  job.status_service->turn(job.now);
  EXPECT_EQ(job.status_service->next(), TimePoint::max());
}

TEST(StatusService, TakeNonsenseForSilence) {
  Job job;
  job.arrive(0);
  const Descriptor visitor = job.visitor(kStatus);
  job.status_service->take(0, {1, ReplyKind::health, {std::byte{1}}});
  job.status_service->take(0, {1, ReplyKind::job, {std::byte{1}}});
  job.status_service->take(1, {1, ReplyKind::job, encode(JobHealth())});
  EXPECT_FALSE(job.answer(visitor));
  job.now += seconds(2);
  EXPECT_EQ(job.json(visitor)["ranks"][0]["answers"], false);
}

TEST(StatusService, AskOnceForAllWhoWait) {
  Job job;
  job.arrive(0);
  const Descriptor one = job.visitor(kStatus);
  const Descriptor other = job.visitor({"GET", "/status"});
  EXPECT_EQ(job.asked.size(), 1u);
  job.now += seconds(2);
  EXPECT_THAT(job.answer(one)->body, HasSubstr("\"job\""));
  EXPECT_THAT(job.answer(other)->body, HasSubstr("job 0123abcd: 2 ranks"));
}

TEST(StatusService, PauseBetweenQuestionsHoweverOftenTheyAreAsked) {
  Job job;
  EXPECT_TRUE(job.answer(job.visitor(kStatus)));
  const Descriptor impatient = job.visitor(kStatus);
  EXPECT_FALSE(job.answer(impatient));
  job.now = job.status_service->next();
  EXPECT_TRUE(job.answer(impatient));
  EXPECT_EQ(job.asked.size(), 2u);
}

TEST(StatusService, TellWhereRanksHaveWrittenTheirDumpsAndWhoHasNot) {
  Job job;
  job.arrive(0);
  job.arrive(1);
  const Descriptor first = job.visitor(kDump);
  EXPECT_EQ(job.asked.front().kind, QuestionKind::dump);
  job.status_service->take(0, {1, ReplyKind::dumped, bytes("/tmp/x/rank0.json")});
  job.status_service->take(1, {1, ReplyKind::dumped, bytes("/tmp/x/rank1.json")});
  const auto whole = job.answer(first);
  EXPECT_EQ(whole->status, 200);
  EXPECT_THAT(whole->body, HasSubstr("rank 1 on a: /tmp/x/rank1.json\nhrun analyze /tmp/x compares them\n"));

  const Descriptor second = job.visitor(kDump);
  job.status_service->take(0, {2, ReplyKind::failed, bytes("cannot write /tmp/x: No space left on device")});
  job.now += seconds(2);
  const auto partial = job.answer(second);
  EXPECT_EQ(partial->status, 503);
  EXPECT_THAT(partial->body, HasSubstr("rank 0 on a: cannot write /tmp/x: No space left on device\n"));
  EXPECT_THAT(partial->body, HasSubstr("rank 1 (pid 101 on a) does not answer"));
  EXPECT_THAT(partial->body, Not(HasSubstr("analyze")));
}

TEST(StatusService, TellAListWhatItNeedsWithoutAskingRanks) {
  Job job;
  job.arrive(0);
  const auto json = job.json(job.visitor({"GET", "/job"}));
  EXPECT_EQ(json["job"], "0123abcd");
  EXPECT_EQ(json["np"], 2);
  EXPECT_EQ(json["command"], std::vector<std::string>{"./train"});
  EXPECT_TRUE(job.asked.empty());
  EXPECT_EQ(job.answer(job.visitor({"GET", "/"}))->status, 404);
  EXPECT_EQ(job.answer(job.visitor({"GET", "/dump"}))->status, 404);
}

TEST(StatusService, GiveMetricsAndNothingElseWhereMetricsAre) {
  Job job;
  const auto path =
      std::filesystem::path(testing::TempDir()) / ("hora-metrics-of-" + std::to_string(::getpid()));
  job.status_service->open(MetricsAddress{path});
  EXPECT_EQ(job.status_service->metrics_address(), "unix:" + path.string());
  const auto ask = [&](const HttpRequest& request) {
    const Descriptor visitor = connect_to_job(path);
    const std::string text = encode(request);
    EXPECT_EQ(::send(visitor.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    job.now += seconds(1);
    job.status_service->turn(job.now);
    return *job.answer(visitor);
  };
  const auto metrics = ask({"GET", "/metrics"});
  EXPECT_THAT(metrics.body, HasSubstr("\nhora_ranks 2\n"));
  EXPECT_EQ(metrics.type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(ask({"POST", "/dump"}).status, 404);
  EXPECT_EQ(ask({"GET", "/status"}).status, 404);
  EXPECT_EQ(ask({"POST", "/metrics"}).status, 405);
  EXPECT_EQ(job.asked.size(), 1u);
}

TEST(StatusService, TakesCommandsForAnElasticJobAlone) {
  Job job;
  const auto refused = job.answer(job.visitor({"POST", "/resize/3"}));
  EXPECT_EQ(refused->status, 409);
  EXPECT_THAT(refused->body, HasSubstr("the job is not elastic (--min-np)"));
  const Generations generations(place({{"a", 2}}, 2, false), {2}, {}, {}, TimePoint());
  std::vector<JobCommand> commands;
  job.status_service->follow(generations, [&](const JobCommand& command) {
    if (command.kind == JobCommand::Kind::resize && command.ranks == 9)
      throw Error(Code::invalid_argument, "too many");
    commands.push_back(command);
    return std::string("done");
  });
  EXPECT_EQ(job.answer(job.visitor({"POST", "/resize/3"}))->body, "done\n");
  EXPECT_EQ(job.answer(job.visitor({"POST", "/drain/b"}))->status, 200);
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_EQ(commands[0].ranks, 3);
  EXPECT_EQ(commands[1].host, "b");
  const auto wrong = job.answer(job.visitor({"POST", "/resize/9"}));
  EXPECT_EQ(wrong->status, 409);
  EXPECT_EQ(wrong->body, "hrun: too many\n");
  for (const char* path : {"/resize/", "/resize/3x", "/resize/99999999999", "/shrink/3"})
    EXPECT_EQ(job.answer(job.visitor({"POST", path}))->status, 404) << path;
}

}  // namespace
}  // namespace hora::hrun
