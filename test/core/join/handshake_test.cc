// SPDX-License-Identifier: Apache-2.0
#include "core/join/handshake.h"

#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

namespace hora {
namespace {

using testing::HasSubstr;

const Secret kSecret{1, 2, 3};
const Secret kOther{9};

/// Calls `action` with every version of the bytes that differs in one bit.
template <typename Message>
void with_each_bit_flipped(const Message& message, const std::function<void(const Message&)>& action) {
  for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
    Message changed = message;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    action(changed);
  }
}

TEST(Handshake, RanksOfOneJobRecogniseEachOther) {
  Guest guest(kSecret, {Role::data, 3, 8, 2, 5});
  Host host(kSecret, 2);
  const AnswerBytes answer = host.answer(guest.hello());
  static_cast<void>(host.check(guest.prove(answer).bytes));
  EXPECT_EQ(host.guest().role, Role::data);
  EXPECT_EQ(host.guest().rank, 3);
  EXPECT_EQ(host.guest().size, 8);
  EXPECT_EQ(host.guest().to, 2);
  EXPECT_EQ(host.guest().stream, 5);
}

TEST(Handshake, LeavesBothSidesWithKeysThatFitEachOther) {
  Guest guest(kSecret, {});
  Host host(kSecret);
  auto proof = guest.prove(host.answer(guest.hello()));
  SessionKeys at_host = host.check(proof.bytes);
  const auto passes = [](Cipher& from, Cipher& to) {
    const std::array<std::byte, 3> text{std::byte{1}, std::byte{2}, std::byte{3}};
    std::array<std::byte, text.size() + kSealBytes> sealed{};
    std::array<std::byte, text.size()> plain{};
    from.seal(text, sealed);
    to.open(sealed, plain);
    return plain == text;
  };
  EXPECT_TRUE(passes(proof.session.sends, at_host.receives));
  EXPECT_TRUE(passes(at_host.sends, proof.session.receives));
}

TEST(Handshake, OnlyTheRankThatIsCalledAnswers) {
  const Guest guest(kSecret, {Role::data, 3, 8, 2});
  Host host(kSecret, 1);
  EXPECT_EQ(thrown([&] { static_cast<void>(host.answer(guest.hello())); }).message,
            "it looks for rank 2, this is rank 1");
}

TEST(Handshake, AnotherServiceIsSeenByItsFirstBytes) {
  const std::string banner = "SSH-2.0";
  EXPECT_FALSE(may_be_answer(std::as_bytes(std::span(banner))));
  const std::string ours = "HO";
  EXPECT_TRUE(may_be_answer(std::as_bytes(std::span(ours))));
  EXPECT_TRUE(may_be_answer({}));
}

TEST(Handshake, AHostDoesNotAnswerAGuestOfAnotherJob) {
  const Guest guest(kOther, {});
  Host host(kSecret);
  const Status refused = thrown([&] { static_cast<void>(host.answer(guest.hello())); });
  EXPECT_EQ(refused.code, Code::invalid_argument);
  EXPECT_THAT(refused.message, HasSubstr("does not know this job's secret"));
}

TEST(Handshake, TheGuestNoticesAHostThatDoesNotKnowTheSecret) {
  Guest guest(kSecret, {});
  const Guest stranger(kOther, {});
  AnswerBytes answer{};
  std::copy_n(stranger.hello().begin(), answer.size(), answer.begin());
  EXPECT_THAT(thrown([&] { static_cast<void>(guest.prove(answer)); }).message,
              HasSubstr("does not know this job's secret"));
}

TEST(Handshake, AHelloThatIsPlayedAgainIsAnsweredButNobodyHasCome) {
  Guest guest(kSecret, {});
  Host first(kSecret);
  const AnswerBytes answer = first.answer(guest.hello());
  const auto proof = guest.prove(answer);
  Host second(kSecret);
  EXPECT_NE(second.answer(guest.hello()), answer);
  EXPECT_EQ(thrown([&] { static_cast<void>(second.check(proof.bytes)); }).code, Code::invalid_argument)
      << "the recorded proof is of other keys";
}

TEST(Handshake, AnAnswerThatIsPlayedAgainProvesNothing) {
  Guest guest(kSecret, {});
  Host host(kSecret);
  const AnswerBytes recorded = host.answer(guest.hello());
  Guest later(kSecret, {});
  EXPECT_EQ(thrown([&] { static_cast<void>(later.prove(recorded)); }).code, Code::invalid_argument);
}

TEST(Handshake, NoBitOfAnyMessageCanBeChanged) {
  Guest guest(kSecret, {Role::control, 1, 4});
  with_each_bit_flipped<HelloBytes>(guest.hello(), [](const HelloBytes& changed) {
    Host host(kSecret);
    EXPECT_FALSE(thrown([&] { static_cast<void>(host.answer(changed)); }).ok());
  });
  for (std::size_t bit = 0; bit < kAnswerBytes * 8; ++bit) {
    Guest other(kSecret, {Role::control, 1, 4});
    AnswerBytes changed = Host(kSecret).answer(other.hello());
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(thrown([&] { static_cast<void>(other.prove(changed)); }).ok()) << bit;
  }
  Host host(kSecret);
  const AnswerBytes answer = host.answer(guest.hello());
  const auto proof = guest.prove(answer);
  with_each_bit_flipped<ProofBytes>(proof.bytes, [&](const ProofBytes& changed) {
    EXPECT_FALSE(thrown([&] { static_cast<void>(host.check(changed)); }).ok());
  });
}

TEST(Handshake, TellsStrangersAndOtherVersionsApart) {
  EXPECT_EQ(thrown([] { static_cast<void>(Host(kSecret).answer({})); }).message,
            "the other side is not a rank of Hora");
  HelloBytes hello = Guest(kSecret, {}).hello();
  hello[4] = std::byte{77};
  EXPECT_THAT(thrown([&] { static_cast<void>(Host(kSecret).answer(hello)); }).message,
              HasSubstr("version 77"));
}

TEST(Handshake, RefusesAHelloThatMakesNoSense) {
  const Guest guest(kSecret, {Role::data, 9, 8, 0});
  EXPECT_EQ(thrown([&] { static_cast<void>(Host(kSecret).answer(guest.hello())); }).code, Code::unavailable);
}

TEST(Handshake, RunsOverASocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Descriptor guest(ends[0]);
  const Descriptor host(ends[1]);
  auto welcomed =
      std::async(std::launch::async, [&] { return welcome(host.fd(), kSecret, TimePoint::max()).hello; });
  greet(guest.fd(), kSecret, {Role::arena, 1, 2}, TimePoint::max());
  EXPECT_EQ(welcomed.get().rank, 1);
}

TEST(Handshake, EndsWhereAMessageEnds) {
  // A message that was cut is one that does not come: nothing is done before it is whole.
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kHelloBytes - 1}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    Descriptor guest(ends[0]);
    const Descriptor host(ends[1]);
    write_all(guest.fd(), std::span(Guest(kSecret, {}).hello()).first(size), TimePoint::max());
    guest = Descriptor();
    EXPECT_EQ(thrown([&] { static_cast<void>(welcome(host.fd(), kSecret, TimePoint::max())); }).code,
              Code::unavailable);
  }
}

}  // namespace
}  // namespace hora
