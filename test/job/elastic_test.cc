// SPDX-License-Identifier: Apache-2.0
// Elastic jobs: hrun, real ranks that train, and ranks that are killed, stopped, or fail.
#include "test/job/shell.h"
#include "test/support/files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace hora {
namespace {

using testing::HasSubstr;

/// A job of elastic_worker, and what its ranks write down.
class ElasticJob {
 public:
  ElasticJob(int ranks, int least, int steps, const std::vector<std::string>& options = {})
      : folder_(make_folder()), job_(command(ranks, least, steps, options)) {
    // A rank's file is there when it has joined; its name is its process.
    while (static_cast<int>(pids().size()) < ranks) std::this_thread::yield();
    pids_ = pids();
  }
  ~ElasticJob() { std::filesystem::remove_all(folder_); }
  ElasticJob(const ElasticJob&) = delete;
  ElasticJob& operator=(const ElasticJob&) = delete;

  /// The process that was started as this rank.
  [[nodiscard]] int process(int rank) const { return pids_.at(static_cast<std::size_t>(rank)); }
  /// Waits until the rank has made so many steps.
  void await_steps(int rank, std::size_t steps) const {
    while (lines(rank) < steps) std::this_thread::yield();
  }
  Launched& job() { return job_; }

 private:
  static std::filesystem::path make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "elastic.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder");
    return name;
  }
  std::vector<std::string> command(int ranks, int least, int steps,
                                   const std::vector<std::string>& options) const {
    std::vector<std::string> words{
        "-np", std::to_string(ranks), "--min-np", std::to_string(least), "--max-replacements", "0"};
    words.insert(words.end(), options.begin(), options.end());
    for (const auto& word : {std::string(HORA_ELASTIC_WORKER), std::to_string(steps), std::string("1"),
                             std::string("500"), folder_.string()})
      words.push_back(word);
    return words;
  }
  /// In the order in which they were started.
  [[nodiscard]] std::vector<int> pids() const {
    std::vector<int> pids;
    for (const auto& file : std::filesystem::directory_iterator(folder_))
      pids.push_back(std::stoi(file.path().filename().string()));
    std::sort(pids.begin(), pids.end());
    return pids;
  }
  [[nodiscard]] std::size_t lines(int rank) const {
    std::ifstream file(folder_ / std::to_string(process(rank)));
    return static_cast<std::size_t>(
        std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
  }

  const std::filesystem::path folder_;
  Launched job_;
  std::vector<int> pids_;
};

/// The line of a rank that has trained to the last of `steps` steps.
std::string trained(int steps, int rank, int ranks) {
  return fmt::format("model {:g} on rank {} of {}", steps * (steps + 1) / 2.0, rank, ranks);
}

TEST(ElasticJob, GoesOnWhicheverRankIsKilled) {
  for (int rank = 0; rank < 3; ++rank) {
    ElasticJob elastic(3, 1, 200);
    elastic.await_steps(rank, 20);
    ::kill(elastic.process(rank), SIGKILL);
    const Outcome outcome = elastic.job().wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr(trained(200, 0, 2)));
    EXPECT_THAT(outcome.output, HasSubstr(trained(200, 1, 2)));
    EXPECT_THAT(outcome.errors,
                HasSubstr(fmt::format("rank {} (pid {}) was killed by signal 9 (Killed); the job goes on "
                                      "with 2 of 3 ranks (generation 2)",
                                      rank, elastic.process(rank))));
    EXPECT_TRUE(elastic.job().all_gone());
  }
}

TEST(ElasticJob, GoesOnWhenARankIsStopped) {
  ElasticJob elastic(3, 2, 200);
  elastic.await_steps(0, 20);
  ::kill(elastic.process(1), SIGSTOP);
  const Outcome outcome = elastic.job().wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr(trained(200, 1, 2)));
  EXPECT_LT(outcome.seconds, 5);
  EXPECT_TRUE(elastic.job().all_gone());
}

TEST(ElasticJob, GoesOnToTheLastRank) {
  ElasticJob elastic(4, 1, 400);
  for (const int rank : {0, 2, 3}) {
    elastic.await_steps(1, 50 + 50 * static_cast<std::size_t>(rank));
    ::kill(elastic.process(rank), SIGKILL);
  }
  const Outcome outcome = elastic.job().wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr(trained(400, 0, 1)));
}

TEST(ElasticJob, GoesOnWhereverInATreeOfRanksOneIsKilled) {
  ElasticJob elastic(7, 1, 500, {"-x", "HORA_CPU_OPERATIONS=tcp", "-x", "HORA_TREE=2"});
  std::size_t steps = 0;
  for (const int rank : {0, 2, 6}) {  // the root, then ranks with and without children
    elastic.await_steps(4, steps += 50);
    ::kill(elastic.process(rank), SIGKILL);
  }
  const Outcome outcome = elastic.job().wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(outcome.output, HasSubstr(trained(500, rank, 4)));
  EXPECT_THAT(outcome.errors, HasSubstr("the job goes on with 4 of 7 ranks (generation 4)"));
}

TEST(ElasticJob, GoesOnWhenTwoRanksDieAtOnce) {
  ElasticJob elastic(4, 2, 200);
  elastic.await_steps(0, 20);
  ::kill(elastic.process(0), SIGKILL);
  ::kill(elastic.process(3), SIGKILL);
  const Outcome outcome = elastic.job().wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr(trained(200, 0, 2)));
  EXPECT_THAT(outcome.output, HasSubstr(trained(200, 1, 2)));
}

TEST(ElasticJob, EndsWhenItHasHadTooFewRanksForTooLong) {
  ElasticJob elastic(2, 2, 100'000, {"--elastic-timeout", "0.3"});
  elastic.await_steps(0, 20);
  ::kill(elastic.process(0), SIGKILL);
  const Outcome outcome = elastic.job().wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("it has had fewer than 2 ranks for 0.3 s"));
  EXPECT_TRUE(elastic.job().all_gone());
}

TEST(ElasticJob, EndsWhenTheStateIsLost) {
  ElasticJob elastic(2, 1, 100'000);
  elastic.await_steps(0, 20);
  for (const int rank : {0, 1}) ::kill(elastic.process(rank), SIGKILL);
  const Outcome outcome = elastic.job().wait();
  EXPECT_EQ(outcome.exit_code, 74) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("the state of the training is lost"));
}

}  // namespace
}  // namespace hora
