// SPDX-License-Identifier: Apache-2.0
#include "core/join/connector.h"

#include "core/join/acceptor.h"
#include "core/join/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <thread>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Secret kJobSecret{7};
const Hello kHello{Role::data, 3, 8, 1};

/// A service that sends what it is told to whoever connects, and keeps the connections.
class Service {
 public:
  explicit Service(const std::string& host, std::string says = "")
      : listener_(listen_at({host, "0"})), says_(std::move(says)) {}
  [[nodiscard]] Address address() const { return local_address(listener_.fd()); }
  void serve() {
    while (await_events(listener_.fd(), POLLIN, TimePoint::min())) {
      connections_.emplace_back(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!says_.empty())
        write_all(connections_.back().fd(), std::as_bytes(std::span(says_)), TimePoint::max());
    }
  }
  void hang_up() { connections_.clear(); }

 private:
  Descriptor listener_;
  std::string says_;
  std::vector<Descriptor> connections_;
};

/// An address whose packets are dropped: nobody takes the connections that wait there.
class FullListener {
 public:
  FullListener() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {::htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    EXPECT_EQ(::bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(listener_.fd(), 0), 0);
    first_ = begin_connect(address());
    EXPECT_TRUE(await_events(first_.fd(), POLLOUT, Clock::now() + std::chrono::seconds(10)));
  }
  [[nodiscard]] Address address() const { return local_address(listener_.fd()); }

 private:
  Descriptor listener_;
  Descriptor first_;
};

Address refused() {
  const Descriptor listener = listen_at({"127.0.0.3", "0"});
  return local_address(listener.fd());
}

/// Goes on until `done`; the connection, if it came.
std::optional<Connection> follow(Connector& connector, const std::function<void()>& others,
                                 const std::function<bool()>& done) {
  while (!done()) {
    auto connection = connector.serve(Clock::now());
    if (connection) return connection;
    others();
    std::vector<pollfd> events;
    connector.append_to(events);
    ::poll(events.data(), events.size(), 5);
  }
  return std::nullopt;
}

TEST(Connector, NamesTheLimitWhereThisProcessHasNoDescriptorsLeft) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  Connector connector(kJobSecret, kHello, {{"127.0.0.1", "1"}}, Clock::now());
  ::setrlimit(RLIMIT_NOFILE, &none);
  connector.serve(Clock::now());
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_THAT(connector.failures(), ElementsAre(HasSubstr("raise `ulimit -n`")));
}

TEST(Connector, FindsTheRankBehindWrongAddresses) {
  Service foreign("127.0.0.2", "SSH-2.0-x\r\n");
  Service silent("127.0.0.4");
  Descriptor listener = listen_at({"127.0.0.1", "0"});
  const Address right = local_address(listener.fd());
  Acceptor acceptor(std::move(listener), kJobSecret, 1);
  Connector connector(kJobSecret, kHello, {refused(), silent.address(), foreign.address(), right},
                      Clock::now());
  std::vector<Acceptor::Arrival> arrivals;
  const auto others = [&] {
    foreign.serve();
    silent.serve();
    for (auto& arrival : acceptor.serve(Clock::now())) arrivals.push_back(std::move(arrival));
  };
  const auto found = follow(connector, others, [] { return false; });
  ASSERT_TRUE(found);
  EXPECT_EQ(connector.found(), right);
  while (arrivals.empty()) others();
  EXPECT_EQ(arrivals.front().hello.rank, 3);
  EXPECT_EQ(local_address(found->socket.fd()), remote_address(arrivals.front().connection.socket.fd()));
}

TEST(Connector, TwoWaysToOneRankAreOneArrival) {
  Descriptor listener = listen_everywhere();
  const std::string port = local_address(listener.fd()).port;
  Acceptor acceptor(std::move(listener), kJobSecret, 1);
  testing::internal::CaptureStderr();
  Connector connector(kJobSecret, kHello, {{"127.0.0.1", port}, {"127.0.0.2", port}}, Clock::now());
  // Both wait for an answer before the acceptor serves.
  const TimePoint open = Clock::now() + std::chrono::milliseconds(400);
  ASSERT_FALSE(follow(connector, [] {}, [&] { return Clock::now() >= open; }));
  int arrivals = 0;
  const auto others = [&] { arrivals += static_cast<int>(acceptor.serve(Clock::now()).size()); };
  ASSERT_TRUE(follow(connector, others, [] { return false; }));
  while (acceptor.next() != TimePoint::max() || arrivals == 0) others();
  EXPECT_EQ(arrivals, 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "a rank that tries two ways is not refused";
}

TEST(Connector, DoesNotTakeAnotherRankOfTheJobForTheRightOne) {
  Descriptor listener = listen_at({"127.0.0.1", "0"});
  const Address address = local_address(listener.fd());
  Acceptor acceptor(std::move(listener), kJobSecret, 2);
  Connector connector(kJobSecret, kHello, {address}, Clock::now());
  const TimePoint end = Clock::now() + std::chrono::milliseconds(300);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(follow(
      connector, [&] { EXPECT_TRUE(acceptor.serve(Clock::now()).empty()); },
      [&] { return Clock::now() >= end; }));
  testing::internal::GetCapturedStderr();
  EXPECT_THAT(connector.failures(), ElementsAre(HasSubstr("closed the connection without an answer")));
}

TEST(Connector, SaysHowEachAddressFailsAndWhenThereIsNoHope) {
  Service foreign("127.0.0.2", "HTTP/1.1 400 Bad Request\r\n");
  const Address nobody = refused();
  const TimePoint start = Clock::now();
  Connector connector(kJobSecret, kHello, {nobody, foreign.address()}, start);
  ASSERT_FALSE(follow(connector, [&] { foreign.serve(); }, [&] { return connector.hopeless(Clock::now()); }));
  EXPECT_GE(Clock::now(), start + std::chrono::seconds(2));
  EXPECT_THAT(connector.failures(), ElementsAre(format(nobody) + " refused",
                                                format(foreign.address()) + " another service answered"));
}

TEST(Connector, SilenceIsNoFailure) {
  Service silent("127.0.0.2");
  Connector connector(kJobSecret, kHello, {silent.address()}, Clock::now());
  const TimePoint end = Clock::now() + std::chrono::milliseconds(300);
  ASSERT_FALSE(follow(connector, [&] { silent.serve(); }, [&] { return Clock::now() >= end; }));
  EXPECT_FALSE(connector.hopeless(Clock::now() + std::chrono::hours(1)));
  EXPECT_THAT(connector.failures(),
              ElementsAre(format(silent.address()) + " connected, but does not answer"));
}

TEST(Connector, FindsOutThatPacketsAreDropped) {
  const FullListener full;
  const Address dropped = full.address();
  Service silent("127.0.0.2");
  const TimePoint start = Clock::now();
  Connector alone(kJobSecret, kHello, {dropped, refused()}, start);
  Connector both(kJobSecret, kHello, {dropped, silent.address()}, start);
  const auto goes_on = [&] { static_cast<void>(both.serve(Clock::now())); };
  EXPECT_FALSE(alone.unanswered());
  ASSERT_FALSE(follow(alone, goes_on, [&] { return alone.unanswered(); }));
  EXPECT_GE(Clock::now(), start + std::chrono::seconds(1)) << "Linux sends the first packet again";
  EXPECT_THAT(alone.failures(), ElementsAre(format(dropped) + " timed out", HasSubstr("refused")));
  EXPECT_FALSE(both.unanswered()) << "one address answers";
}

TEST(Connector, TriesAgainWhereNobodyListensYetAndTakesAddressesLate) {
  const Address later = refused();
  Connector connector(kJobSecret, kHello, {}, Clock::now());
  EXPECT_FALSE(connector.serve(Clock::now()));
  EXPECT_EQ(connector.next(), TimePoint::max());
  connector.add(later);
  connector.add(later);
  EXPECT_EQ(connector.failures().size(), 1U);
  const TimePoint open = Clock::now() + std::chrono::milliseconds(100);
  ASSERT_FALSE(follow(connector, [] {}, [&] { return Clock::now() >= open; }));
  Acceptor acceptor(listen_at(later), kJobSecret, 1);
  EXPECT_TRUE(follow(connector, [&] { acceptor.serve(Clock::now()); }, [] { return false; }));
}

TEST(Connector, ARankOfAnotherJobDoesNotAnswer) {
  Descriptor listener = listen_at({"127.0.0.1", "0"});
  const Address address = local_address(listener.fd());
  Acceptor acceptor(std::move(listener), Secret{8}, 1);
  Connector connector(kJobSecret, kHello, {address}, Clock::now());
  testing::internal::CaptureStderr();
  ASSERT_FALSE(follow(
      connector, [&] { EXPECT_TRUE(acceptor.serve(Clock::now()).empty()); },
      [&] { return connector.hopeless(Clock::now()); }));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("does not know this job's secret"));
  EXPECT_THAT(connector.failures(), ElementsAre(HasSubstr("one secret")));
}

}  // namespace
}  // namespace hora
