// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/http_server.h"

#include "core/join/listener.h"
#include "runner/observe/job_socket.h"
#include "test/runner/own_process.h"

#include <hora/status.h>

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>

namespace hora::hrun {
namespace {

using std::chrono::seconds;

Descriptor listener() {
  Descriptor socket = listen_on_loopback();
  ::fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
  return socket;
}

/// A server at a port, whose time only goes on when it is told to.
class RunningServer {
 public:
  RunningServer() : RunningServer(listener()) {}

  [[nodiscard]] Descriptor visitor() const {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return socket;
  }
  /// The visits of the server's next turn, as soon as there is something to do for it.
  std::vector<HttpServer::Visit> turn() {
    std::vector<pollfd> events;
    server.watch(events);
    ::poll(events.data(), events.size(), 1000);
    return server.turn(now);
  }
  std::vector<HttpServer::Visit> until_visited() {
    for (;;) {
      auto visits = turn();
      if (!visits.empty()) return visits;
    }
  }

  TimePoint now = TimePoint() + seconds(1000);
  HttpServer server;

 private:
  explicit RunningServer(Descriptor socket)
      : server(Descriptor(), HttpServer::For::everybody), port_(port_of(socket)) {
    server = HttpServer(std::move(socket), HttpServer::For::everybody);
  }
  std::uint16_t port_;
};

void write(const Descriptor& socket, const std::string& text) {
  write_all(socket.fd(), std::as_bytes(std::span(text)), TimePoint::max());
}

std::string read_to_the_end(const Descriptor& socket) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (auto got = ::read(socket.fd(), buffer.data(), buffer.size()); got > 0;
       got = ::read(socket.fd(), buffer.data(), buffer.size()))
    text.append(buffer.data(), static_cast<std::size_t>(got));
  return text;
}

bool has_ended(const Descriptor& socket) {
  char byte = 0;
  return ::recv(socket.fd(), &byte, 1, MSG_DONTWAIT) == 0;
}

TEST(HttpServer, HandsOutARequestAndGivesTheAnswer) {
  RunningServer running;
  const Descriptor visitor = running.visitor();
  write(visitor, "GET /metr");
  running.turn();
  write(visitor, "ics HTTP/1.0\r\n\r\n");
  const auto visits = running.until_visited();
  ASSERT_EQ(visits.size(), 1u);
  EXPECT_EQ(visits.front().request, (HttpRequest{"GET", "/metrics"}));
  running.server.answer(visits.front().visitor, {200, "text/plain", "hora 1\n"}, running.now);
  running.turn();
  EXPECT_EQ(parse_response(read_to_the_end(visitor)).body, "hora 1\n");
}

TEST(HttpServer, TellsWhoAsksNonsenseThatItDoes) {
  RunningServer running;
  const Descriptor visitor = running.visitor();
  write(visitor, "EHLO\r\n\r\n");
  while (!has_ended(visitor)) {
    EXPECT_TRUE(running.turn().empty());
    std::array<char, 512> buffer{};
    const auto got = ::recv(visitor.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0) continue;
    EXPECT_EQ(parse_response({buffer.data(), static_cast<std::size_t>(got)}).status, 400);
  }
}

TEST(HttpServer, SendsAwayWhoIsSlow) {
  RunningServer running;
  const Descriptor visitor = running.visitor();
  write(visitor, "GET /");
  while (running.server.next() == TimePoint::max()) running.turn();
  EXPECT_EQ(running.server.next(), running.now + HttpServer::kIdleTimeout);
  running.now += HttpServer::kIdleTimeout;
  running.server.turn(running.now);
  EXPECT_EQ(running.server.next(), TimePoint::max());
  EXPECT_EQ(read_to_the_end(visitor), "");
}

TEST(HttpServer, LetsNoMoreInThanItHasRoomForUntilTheyAreSentAway) {
  RunningServer running;
  std::vector<Descriptor> idle;
  for (std::size_t i = 0; i < HttpServer::kRoom; ++i) idle.push_back(running.visitor());
  std::vector<pollfd> events;
  while (events.size() != HttpServer::kRoom) {  // nobody waits at the reserved listener any more
    running.turn();
    events.clear();
    running.server.watch(events);
  }
  const Descriptor late = running.visitor();
  write(late, "GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(running.server.turn(running.now).empty());
  running.now += HttpServer::kIdleTimeout;
  running.server.turn(running.now);
  EXPECT_EQ(running.until_visited().size(), 1u);
}

TEST(HttpServer, DoesNotMindWhoLeavesBeforeTheAnswer) {
  RunningServer running;
  {
    const Descriptor visitor = running.visitor();
    write(visitor, "GET / HTTP/1.0\r\n\r\n");
  }
  const auto visits = running.until_visited();
  running.server.answer(visits.front().visitor, {200, "text/plain", std::string(10'000'000, 'x')},
                        running.now);
  running.server.answer(visits.front().visitor + 1, {}, running.now);
  while (running.server.next() != TimePoint::max()) running.turn();
}

TEST(HttpServer, HearsNobodyButItsUserAndRootOnALocalSocket) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const auto folder = std::filesystem::path(testing::TempDir()) / ("hora-http-" + std::to_string(::getpid()));
  JobSocket socket(Folder::private_at(folder), "0123abcd");
  HttpServer server(socket.take(), HttpServer::For::own_user);
  const auto ask = [&] {
    const Descriptor visitor = connect_to_job(socket.path());
    if (visitor) write(visitor, "GET / HTTP/1.0\r\n\r\n");
    return server.turn(Clock::now()).size();
  };
  EXPECT_EQ(ask(), 1u);
  server.turn(Clock::now() + std::chrono::hours(1));
  EXPECT_EQ(server.next(), TimePoint::max()) << "nobody is here";
  // The folder would keep another user out; the server does, too.
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  std::filesystem::permissions(socket.path(), std::filesystem::perms::all);
  const Descriptor other_user_done = [&] {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const pid_t other = ::fork();
    if (other == 0) {
      if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
      const Descriptor visitor = connect_to_job(socket.path());
      const std::string text = "GET / HTTP/1.0\r\n\r\n";
      const bool connected = visitor && ::write(visitor.fd(), text.data(), text.size()) > 0;
      [[maybe_unused]] const auto told = ::write(ends[1], connected ? "y" : "n", 1);
      ::pause();
    }
    ::close(ends[1]);
    char connected = 0;
    EXPECT_EQ(::read(ends[0], &connected, 1), 1);
    EXPECT_EQ(connected, 'y');
    EXPECT_TRUE(server.turn(Clock::now()).empty());
    EXPECT_EQ(server.next(), TimePoint::max()) << "nobody was let in";
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
    return Descriptor(ends[0]);
  }();
}

}  // namespace
}  // namespace hora::hrun
