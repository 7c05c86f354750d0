// SPDX-License-Identifier: Apache-2.0
#include "core/join/job_id.h"

#include "core/join/find_membership.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(JobId, FollowsFromTheSecretOfAJobOfHruns) {
  Secret secret{};
  secret[0] = 1;
  const std::string id = job_id(secret);
  EXPECT_EQ(id.size(), 8u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(job_id(secret), id);
  EXPECT_NE(job_id(Secret{}), id);
  Config config;
  config.secret = secret;
  config.question_fd = 5;
  EXPECT_EQ(job_id(membership_of(config), config), id);
}

TEST(JobId, IsAnotherForEveryJobOfOtherLaunchers) {
  Config config;
  const std::string id = job_id(membership_of(config), config);
  EXPECT_EQ(id.size(), 8u);
  EXPECT_NE(job_id(membership_of(config), config), id) << "once in four milliards it may be the same";
}

}  // namespace
}  // namespace hora
