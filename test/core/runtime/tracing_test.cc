// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/tracing.h"

#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace hora {
namespace {

/// Two ranks in one thread: what rank 0's user wishes for, and what both do then.
class TracingTest : public testing::Test {
 protected:
  ~TracingTest() override { std::filesystem::remove(path_); }

  /// Both hear what rank 0 has announced, and follow it.
  void hear() {
    const TimePoint now = Clock::now();
    for (const auto& heard : first_.hear(now, false)) ours_.follow(heard.trace);
    for (const auto& heard : second_.hear(now, false)) theirs_.follow(heard.trace);
    first_.hear(now, false);
    for (const auto& told : first_.take_reports()) ours_.take(told.rank, decode_trace(told.content));
  }
  [[nodiscard]] nlohmann::json events() const { return nlohmann::json::parse(std::ifstream(path_)); }

  const std::string path_ = testing::TempDir() + "hora-tracing-" + std::to_string(::getpid()) + ".json";
  local::LocalGroup group_{2};
  World worlds_[2] = {group_.join(0), group_.join(1)};
  Negotiator first_{*worlds_[0].control};
  Negotiator second_{*worlds_[1].control};
  Timeline timeline_{2};
  Timeline unused_{2};
  Tracing ours_{timeline_, first_, 0};
  Tracing theirs_{unused_, second_, 1};
};

TEST_F(TracingTest, BeginsAndEndsOnAllRanksAndPutsAllIntoOneFile) {
  ours_.announce();
  hear();
  EXPECT_FALSE(theirs_.tracer().on()) << "nobody has wished for it";
  timeline_.start(path_, true, worlds_[0].members, 0);
  ours_.announce();
  hear();
  EXPECT_TRUE(ours_.tracer().on());
  EXPECT_TRUE(theirs_.tracer().on());
  theirs_.tracer().mark_cycle(Clock::now());
  ASSERT_TRUE(timeline_.stop());
  ours_.announce();
  hear();
  EXPECT_FALSE(theirs_.tracer().on());
  timeline_.await_end();
  EXPECT_NE(events().dump().find("\"pid\":1"), std::string::npos) << events().dump();
}

TEST_F(TracingTest, FinishesTheFileWhenTheJobEndsFirst) {
  timeline_.start(path_, false, worlds_[0].members, 0);
  ours_.announce();
  hear();
  ours_.stop();
  ours_.finish();
  timeline_.await_end();
  EXPECT_TRUE(events().is_array());
}

}  // namespace
}  // namespace hora
