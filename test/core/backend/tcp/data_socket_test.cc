// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data_socket.h"

#include "core/comm/control.h"
#include "test/support/sessions.h"
#include "test/support/socket_pair.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <random>

namespace hora::tcp {
namespace {

struct Ends {
  explicit Ends(bool sealed, int bytes = 0) {
    auto [one, other] = socket_pair(bytes);
    auto [keys, same] = make_sessions();
    here = sealed ? DataSocket(std::move(one), std::move(keys)) : DataSocket(std::move(one));
    there = sealed ? DataSocket(std::move(other), std::move(same)) : DataSocket(std::move(other));
  }
  DataSocket here;
  DataSocket there;
};

Bytes noise_of(std::size_t count) {
  Bytes bytes(count);
  std::minstd_rand random(3);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

ssize_t send(DataSocket& socket, std::span<std::byte> bytes) {
  const iovec piece{bytes.data(), bytes.size()};
  return socket.send(std::span(&piece, 1));
}

ssize_t receive(DataSocket& socket, std::span<std::byte> bytes) {
  const iovec piece{bytes.data(), bytes.size()};
  return socket.receive(std::span(&piece, 1));
}

TEST(DataSocket, MovesBytesHoweverTheyAreCut) {
  for (const bool sealed : {false, true}) {
    for (const int room : {0, 8192}) {
      Ends ends(sealed, room);
      Bytes sent = noise_of(1'000'000);
      Bytes got(sent.size());
      std::minstd_rand random(7);
      std::size_t gone = 0;
      std::size_t come = 0;
      while (come < got.size()) {
        if (gone < sent.size()) {
          const std::size_t some = random() % 200'000 + 1;
          const std::span rest = std::span(sent).subspan(gone);
          const std::span first = rest.first(std::min(some / 3, rest.size()));
          const std::span second = rest.subspan(first.size(), std::min(some, rest.size() - first.size()));
          const std::array pieces{iovec{first.data(), first.size()}, iovec{second.data(), second.size()}};
          const auto count = ends.here.send(pieces);
          if (count > 0) gone += static_cast<std::size_t>(count);
        }
        const std::span rest = std::span(got).subspan(come);
        const auto count =
            receive(ends.there, rest.first(std::min<std::size_t>(random() % 100'000 + 1, rest.size())));
        if (count > 0) come += static_cast<std::size_t>(count);
      }
      EXPECT_EQ(sent, got);
      EXPECT_FALSE(ends.there.holds_some());
    }
  }
}

TEST(DataSocket, ShowsNothingOfWhatIsSealed) {
  Ends ends(true);
  Bytes text(1000, std::byte{'x'});
  ASSERT_EQ(send(ends.here, text), 1000);
  Bytes wire(2000);
  const auto got = ::recv(ends.there.fd(), wire.data(), wire.size(), 0);
  ASSERT_EQ(got, 4 + 1000 + static_cast<ssize_t>(kSealBytes));
  const Bytes shown(8, std::byte{'x'});
  EXPECT_EQ(std::search(wire.begin(), wire.end(), shown.begin(), shown.end()), wire.end());
}

TEST(DataSocket, SaysThatItHoldsWhatPollDoesNotKnowOf) {
  Ends ends(true);
  Bytes text = noise_of(100);
  ASSERT_EQ(send(ends.here, text), 100);
  ASSERT_EQ(send(ends.here, text), 100);
  Bytes got(10);
  ASSERT_EQ(receive(ends.there, got), 10);
  EXPECT_TRUE(ends.there.holds_some());
  Bytes rest(190);
  ASSERT_EQ(receive(ends.there, rest), 190);
  EXPECT_FALSE(ends.there.holds_some());
  EXPECT_EQ(receive(ends.there, got), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(DataSocket, TellsItsEnd) {
  for (const bool sealed : {false, true}) {
    Ends ends(sealed);
    Bytes text = noise_of(5);
    send(ends.here, text);
    ends.here = DataSocket();
    Bytes got(5);
    EXPECT_EQ(receive(ends.there, got), 5);
    EXPECT_EQ(receive(ends.there, got), 0);
  }
}

/// The outcome of two records of 30 bytes if `harm` is done to them on the way.
std::string after(const std::function<void(Bytes&)>& harm) {
  Ends ends(true);
  Bytes text = noise_of(30);
  send(ends.here, text);
  send(ends.here, text);
  Bytes wire(200);
  wire.resize(static_cast<std::size_t>(::recv(ends.there.fd(), wire.data(), wire.size(), 0)));
  harm(wire);
  ::send(ends.here.fd(), wire.data(), wire.size(), 0);
  Bytes got(60);
  return thrown([&] {
           while (receive(ends.there, got) > 0) {
           }
         })
      .message;
}

TEST(DataSocket, RefusesEveryBitThatWasChanged) {
  EXPECT_EQ(after([](Bytes&) {}), "");
  for (std::size_t at = 0; at < 100; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      const auto flip = [&](Bytes& wire) { wire[at] ^= std::byte{1} << bit; };
      // A length that is larger than what has come is waited for; the seal covers it.
      if (at % 50 >= 4) {
        EXPECT_NE(after(flip).find("forged, changed or repeated"), std::string::npos) << at << " " << bit;
      }
    }
  }
  EXPECT_NE(after([](Bytes& wire) { wire[0] ^= std::byte{2}; }).find("forged"), std::string::npos);
  EXPECT_EQ(after([](Bytes& wire) { wire[3] = std::byte{1}; }), "no record has a length of 16777246");
}

TEST(DataSocket, RefusesRecordsThatAreRepeatedOrInAnotherOrder) {
  EXPECT_NE(after([](Bytes& wire) { std::copy_n(wire.begin(), 50, wire.begin() + 50); }).find("repeated"),
            std::string::npos);
  EXPECT_NE(
      after([](Bytes& wire) { std::rotate(wire.begin(), wire.begin() + 50, wire.end()); }).find("repeated"),
      std::string::npos);
  EXPECT_NE(after([](Bytes& wire) { wire.erase(wire.begin(), wire.begin() + 50); }).find("repeated"),
            std::string::npos);
}

}  // namespace
}  // namespace hora::tcp
