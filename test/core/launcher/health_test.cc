// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/health.h"

#include "core/launcher/question.h"

#include <hora/status.h>

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace hora {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Health health() {
  return {1042,     5'000'000'000,
          "grad.6", milliseconds(1500),
          3,        {{"grad.7", "allreduce float32[3,4]", milliseconds(20)}}};
}

JobHealth job_health() {
  JobHealth job{152, 12.5, milliseconds(100), {}, 2, {}};
  job.lateness = {{0, microseconds(0), microseconds(200), 0.25},
                  {1, microseconds(30), microseconds(50'000), 0.75}};
  job.longest = {{{"grad.7", "allreduce float32[3,4]", milliseconds(20)}, 153, {1, 3}, 2}};
  return job;
}

TEST(Health, TravelsAsBytes) {
  EXPECT_EQ(decode_health(encode(health())), health());
  EXPECT_EQ(decode_health(encode(Health())), Health());
  EXPECT_EQ(decode_job_health(encode(job_health())), job_health());
  EXPECT_EQ(decode_job_health(encode(JobHealth())), JobHealth());
}

TEST(Health, IsShortenedUntilItFitsIntoAMessage) {
  const InFlight longest{std::string(5000, 'x'), std::string(5000, 'y'), milliseconds(1)};
  Health own = health();
  own.last = std::string(5000, 'z');
  own.oldest.assign(1000, longest);
  const Health told = decode_health(encode(own));
  EXPECT_EQ(told.oldest.size(), kMostTold);
  EXPECT_LE(told.oldest.front().name.size(), kMostToldName);
  EXPECT_EQ(told.in_flight, own.in_flight);
  EXPECT_LT(encode(own).size(), kMostReplyBytes / 2);

  JobHealth job;
  job.lateness.assign(10'000, {65'000, microseconds(1 << 30), microseconds(1 << 30), 1});
  std::vector<int> ranks(10'000);
  std::iota(ranks.begin(), ranks.end(), 50'000);
  job.longest.assign(100, {longest, 1'000'000, ranks, ranks.size()});
  const JobHealth told_job = decode_job_health(encode(job));
  EXPECT_EQ(told_job.lateness.size(), kMostLate);
  EXPECT_EQ(told_job.longest.front().missing.size(), kMostMissing);
  EXPECT_EQ(told_job.longest.front().all_missing, ranks.size());
  EXPECT_LT(encode(job).size() + 100, kMostReplyBytes);
}

TEST(Health, IsRefusedIfNoRankWouldSendIt) {
  const Bytes own = encode(health());
  for (std::size_t length = 0; length < own.size(); ++length)
    EXPECT_THROW(decode_health(std::span(own).first(length)), Error) << length;
  const Bytes all = encode(job_health());
  for (std::size_t length = 0; length < all.size(); ++length)
    EXPECT_THROW(decode_job_health(std::span(all).first(length)), Error) << length;
  JobHealth job = job_health();
  for (const double rate :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    job.steps_per_second = rate;
    EXPECT_THROW(decode_job_health(encode(job)), Error) << rate;
  }
  job = job_health();
  job.lateness.front().last = 1.5;
  EXPECT_THROW(decode_job_health(encode(job)), Error);
}

}  // namespace
}  // namespace hora
