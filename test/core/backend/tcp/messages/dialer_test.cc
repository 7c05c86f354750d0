// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/dialer.h"

#include "core/join/acceptor.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

/// Goes on until there is an answer; `acceptor` is that of rank 1.
Dialer::Answer answer(Dialer& dialer, Acceptor& acceptor, std::vector<Acceptor::Arrival>& arrivals) {
  while (true) {
    for (auto& arrival : acceptor.serve(Clock::now())) arrivals.push_back(std::move(arrival));
    auto answers = dialer.serve(Clock::now());
    if (!answers.empty()) return std::move(answers.front());
    std::vector<pollfd> events;
    dialer.append_to(events);
    acceptor.append_to(events);
    ::poll(events.data(), events.size(),
           milliseconds_until(
               std::min({dialer.next(), acceptor.next(), Clock::now() + std::chrono::seconds(1)})));
  }
}

TEST(Dialer, FindsRanksAndSaysWhichAreOutOfReach) {
  World world;
  world.membership.size = 3;
  world.membership.secret[0] = 7;
  world.members = {{0, 10, "a", ""}, {1, 11, "a", ""}, {2, 12, "b", ""}};
  Descriptor listener = listen_at({"127.0.0.1", "0"});
  const Address here = local_address(listener.fd());
  const Address nobody = local_address(listen_at({"127.0.0.1", "0"}).fd());  // closed again
  Dialer dialer(world, {}, {{}, {here}, {nobody}});
  Acceptor acceptor(std::move(listener), world.membership.secret, 1);
  std::vector<Acceptor::Arrival> arrivals;
  EXPECT_EQ(dialer.next(), TimePoint::max());

  dialer.want(2);
  dialer.want(1);
  dialer.want(1);
  const auto reached = answer(dialer, acceptor, arrivals);
  EXPECT_EQ(reached.rank, 1);
  EXPECT_TRUE(reached.connection);
  const auto failed = answer(dialer, acceptor, arrivals);
  EXPECT_EQ(failed.rank, 2);
  EXPECT_FALSE(failed.connection);
  EXPECT_EQ(failed.failed.code, Code::unavailable);
  EXPECT_NE(failed.failed.message.find("rank 2"), std::string::npos) << failed.failed.message;
  EXPECT_NE(failed.failed.message.find(nobody.port), std::string::npos) << failed.failed.message;
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals.front().hello.role, Role::message);
  EXPECT_EQ(arrivals.front().hello.rank, 0);
  EXPECT_EQ(dialer.next(), TimePoint::max());
}

}  // namespace
}  // namespace hora::tcp
