// SPDX-License-Identifier: Apache-2.0
#include "core/comm/handshake.h"

#include "core/comm/socket_io.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

namespace hora {
namespace {

const Secret kSecret{1, 2, 3};
const Secret kOther{9};

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Handshake, RanksOfOneJobRecogniseEachOther) {
  const Guest guest(kSecret, {Role::data, 3, 8, 2, 5});
  Host host(kSecret, 2);
  const Hello hello = host.check(guest.prove(host.challenge(guest.hello())));
  EXPECT_EQ(hello.role, Role::data);
  EXPECT_EQ(hello.rank, 3);
  EXPECT_EQ(hello.size, 8);
  EXPECT_EQ(hello.to, 2);
  EXPECT_EQ(hello.stream, 5);
}

TEST(Handshake, OnlyTheRankThatIsCalledAnswers) {
  const Guest guest(kSecret, {Role::data, 3, 8, 2});
  Host host(kSecret, 1);
  EXPECT_EQ(refusal([&] { static_cast<void>(host.challenge(guest.hello())); }),
            "it looks for rank 2, this is rank 1");
}

TEST(Handshake, AnotherServiceIsSeenByItsFirstBytes) {
  const std::string banner = "SSH-2.0";
  EXPECT_FALSE(may_be_challenge(std::as_bytes(std::span(banner))));
  const std::string ours = "HO";
  EXPECT_TRUE(may_be_challenge(std::as_bytes(std::span(ours))));
  EXPECT_TRUE(may_be_challenge({}));
}

TEST(Handshake, TheGuestNoticesAHostOfAnotherJob) {
  const Guest guest(kSecret, {});
  Host host(kOther);
  const auto challenge = host.challenge(guest.hello());
  EXPECT_NE(
      refusal([&] { static_cast<void>(guest.prove(challenge)); }).find("does not know this job's secret"),
      std::string::npos);
}

TEST(Handshake, TheHostNoticesAGuestOfAnotherJob) {
  const Guest guest(kOther, {});
  Host host(kSecret);
  static_cast<void>(host.challenge(guest.hello()));
  EXPECT_THROW(static_cast<void>(host.check(ProofBytes{})), Error);
}

TEST(Handshake, NothingThatWasRecordedCanBePlayedAgain) {
  const Guest guest(kSecret, {});
  Host first(kSecret);
  const auto proof = guest.prove(first.challenge(guest.hello()));
  Host second(kSecret);
  static_cast<void>(second.challenge(guest.hello()));
  EXPECT_THROW(static_cast<void>(second.check(proof)), Error);
}

TEST(Handshake, NobodyCanClaimAnotherRankThanTheOneProved) {
  const Guest guest(kSecret, {Role::control, 1, 4});
  HelloBytes hello = guest.hello();
  hello[8] = std::byte{2};
  Host host(kSecret);
  const auto challenge = host.challenge(hello);
  EXPECT_THROW(static_cast<void>(guest.prove(challenge)), Error);
}

TEST(Handshake, TellsStrangersAndOtherVersionsApart) {
  Host host(kSecret);
  EXPECT_EQ(refusal([&] { host.challenge({}); }), "the other side is not a rank of Hora");
  HelloBytes hello = Guest(kSecret, {}).hello();
  hello[4] = std::byte{77};
  EXPECT_NE(refusal([&] { host.challenge(hello); }).find("version 77"), std::string::npos);
}

TEST(Handshake, RunsOverASocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Descriptor guest(ends[0]);
  const Descriptor host(ends[1]);
  auto welcomed =
      std::async(std::launch::async, [&] { return welcome(host.fd(), kSecret, TimePoint::max()); });
  greet(guest.fd(), kSecret, {Role::arena, 1, 2}, TimePoint::max());
  EXPECT_EQ(welcomed.get().rank, 1);
}

}  // namespace
}  // namespace hora
