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
  Initiator initiator(kSecret, {Role::data, 3, 8, 2, 5});
  Responder responder(kSecret, 2);
  const AnswerBytes answer = responder.answer(initiator.hello());
  static_cast<void>(responder.check(initiator.prove(answer).bytes));
  EXPECT_EQ(responder.initiator().role, Role::data);
  EXPECT_EQ(responder.initiator().rank, 3);
  EXPECT_EQ(responder.initiator().size, 8);
  EXPECT_EQ(responder.initiator().to, 2);
  EXPECT_EQ(responder.initiator().stream, 5);
}

TEST(Handshake, LeavesBothSidesWithKeysThatFitEachOther) {
  Initiator initiator(kSecret, {});
  Responder responder(kSecret);
  auto proof = initiator.prove(responder.answer(initiator.hello()));
  SessionKeys at_responder = responder.check(proof.bytes);
  const auto passes = [](Cipher& from, Cipher& to) {
    const std::array<std::byte, 3> text{std::byte{1}, std::byte{2}, std::byte{3}};
    std::array<std::byte, text.size() + kSealBytes> sealed{};
    std::array<std::byte, text.size()> plain{};
    from.seal(text, sealed);
    to.open(sealed, plain);
    return plain == text;
  };
  EXPECT_TRUE(passes(proof.session.sends, at_responder.receives));
  EXPECT_TRUE(passes(at_responder.sends, proof.session.receives));
}

TEST(Handshake, OnlyTheRankThatIsCalledAnswers) {
  const Initiator initiator(kSecret, {Role::data, 3, 8, 2});
  Responder responder(kSecret, 1);
  EXPECT_EQ(thrown([&] { static_cast<void>(responder.answer(initiator.hello())); }).message,
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
  const Initiator initiator(kOther, {});
  Responder responder(kSecret);
  const Status refused = thrown([&] { static_cast<void>(responder.answer(initiator.hello())); });
  EXPECT_EQ(refused.code, Code::invalid_argument);
  EXPECT_THAT(refused.message, HasSubstr("does not know this job's secret"));
}

TEST(Handshake, TheGuestNoticesAHostThatDoesNotKnowTheSecret) {
  Initiator initiator(kSecret, {});
  const Initiator unknown(kOther, {});
  AnswerBytes answer{};
  std::copy_n(unknown.hello().begin(), answer.size(), answer.begin());
  EXPECT_THAT(thrown([&] { static_cast<void>(initiator.prove(answer)); }).message,
              HasSubstr("does not know this job's secret"));
}

TEST(Handshake, AHelloThatIsPlayedAgainIsAnsweredButNobodyHasCome) {
  Initiator initiator(kSecret, {});
  Responder first(kSecret);
  const AnswerBytes answer = first.answer(initiator.hello());
  const auto proof = initiator.prove(answer);
  Responder second(kSecret);
  EXPECT_NE(second.answer(initiator.hello()), answer);
  EXPECT_EQ(thrown([&] { static_cast<void>(second.check(proof.bytes)); }).code, Code::invalid_argument)
      << "the recorded proof is of other keys";
}

TEST(Handshake, AnAnswerThatIsPlayedAgainProvesNothing) {
  Initiator initiator(kSecret, {});
  Responder responder(kSecret);
  const AnswerBytes recorded = responder.answer(initiator.hello());
  Initiator later(kSecret, {});
  EXPECT_EQ(thrown([&] { static_cast<void>(later.prove(recorded)); }).code, Code::invalid_argument);
}

TEST(Handshake, NoBitOfAnyMessageCanBeChanged) {
  Initiator initiator(kSecret, {Role::control, 1, 4});
  with_each_bit_flipped<HelloBytes>(initiator.hello(), [](const HelloBytes& changed) {
    Responder responder(kSecret);
    EXPECT_FALSE(thrown([&] { static_cast<void>(responder.answer(changed)); }).ok());
  });
  for (std::size_t bit = 0; bit < kAnswerBytes * 8; ++bit) {
    Initiator other(kSecret, {Role::control, 1, 4});
    AnswerBytes changed = Responder(kSecret).answer(other.hello());
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(thrown([&] { static_cast<void>(other.prove(changed)); }).ok()) << bit;
  }
  Responder responder(kSecret);
  const AnswerBytes answer = responder.answer(initiator.hello());
  const auto proof = initiator.prove(answer);
  with_each_bit_flipped<ProofBytes>(proof.bytes, [&](const ProofBytes& changed) {
    EXPECT_FALSE(thrown([&] { static_cast<void>(responder.check(changed)); }).ok());
  });
}

TEST(Handshake, TellsUnknownProcessesAndOtherVersionsApart) {
  EXPECT_EQ(thrown([] { static_cast<void>(Responder(kSecret).answer({})); }).message,
            "the other side is not a rank of Hora");
  HelloBytes hello = Initiator(kSecret, {}).hello();
  hello[4] = std::byte{77};
  EXPECT_THAT(thrown([&] { static_cast<void>(Responder(kSecret).answer(hello)); }).message,
              HasSubstr("version 77"));
}

TEST(Handshake, RefusesAHelloThatMakesNoSense) {
  const Initiator initiator(kSecret, {Role::data, 9, 8, 0});
  EXPECT_EQ(thrown([&] { static_cast<void>(Responder(kSecret).answer(initiator.hello())); }).code,
            Code::unavailable);
}

TEST(Handshake, RunsOverASocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Descriptor initiator(ends[0]);
  const Descriptor responder(ends[1]);
  auto welcomed = std::async(std::launch::async,
                             [&] { return welcome(responder.fd(), kSecret, TimePoint::max()).hello; });
  greet(initiator.fd(), kSecret, {Role::arena, 1, 2}, TimePoint::max());
  EXPECT_EQ(welcomed.get().rank, 1);
}

TEST(Handshake, EndsWhereAMessageEnds) {
  // A message that was cut is one that does not come: nothing is done before it is whole.
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kHelloBytes - 1}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    Descriptor initiator(ends[0]);
    const Descriptor responder(ends[1]);
    write_all(initiator.fd(), std::span(Initiator(kSecret, {}).hello()).first(size), TimePoint::max());
    initiator = Descriptor();
    EXPECT_EQ(thrown([&] { static_cast<void>(welcome(responder.fd(), kSecret, TimePoint::max())); }).code,
              Code::unavailable);
  }
}

}  // namespace
}  // namespace hora
