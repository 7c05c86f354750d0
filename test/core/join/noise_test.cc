// SPDX-License-Identifier: Apache-2.0
#include "core/join/noise.h"

#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hora {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Secret secret_from_hex(const std::string& hex) {
  const Bytes bytes = from_hex(hex);
  Secret secret{};
  std::transform(bytes.begin(), bytes.end(), secret.begin(),
                 [](std::byte byte) { return std::to_integer<unsigned char>(byte); });
  return secret;
}

struct VectorMessage {
  std::string payload;
  std::string ciphertext;
};

// Noise_NNpsk0_25519_ChaChaPoly_SHA256 of the published vectors in Cacophony's format
// (github.com/mcginty/snow, tests/vectors/cacophony.txt).
const std::string kPrologue = "4a6f686e2047616c74";
const std::string kPsk = "54686973206973206d7920417573747269616e20706572737065637469766521";
const std::string kGuestKey = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
const std::string kHostKey = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
const std::vector<VectorMessage> kMessages{
    {"4c756477696720766f6e204d69736573",
     "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c794479b962b8aff8485742ac32f905ba45369e2465f"
     "b"
     "59e138a93d67a0d1266b6a54"},
    {"4d757272617920526f746862617264",
     "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843d6062704d5a9c422a8e834423f8c1feada7e8d0"
     "d"
     "910a1a2cd030fb584221e3"},
    {"462e20412e20486179656b", "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f"},
    {"4361726c204d656e676572", "64c6bee32ea91c8474bb4c21d7a700109ad45af77b29764ba5eb1e"},
    {"4a65616e2d426170746973746520536179",
     "e2fa0bed0603b62d3ccac2ecabbf3fe33f3e86514909b323361626266cb2471cc8"},
    {"457567656e2042f6686d20766f6e2042617765726b",
     "0c01dc9cec1fe4ddd692e8dd32188aa351088dc91183639a53b57aa4692b5ebdef8b8ca111"},
};

Bytes sealed(Cipher& cipher, const Bytes& plain) {
  Bytes result(plain.size() + kSealBytes);
  cipher.seal(plain, result);
  return result;
}

Bytes opened(Cipher& cipher, const Bytes& sealed) {
  Bytes result(sealed.size() - kSealBytes);
  cipher.open(sealed, result);
  return result;
}

/// Both sides, after a handshake with fresh keys.
std::pair<SessionKeys, SessionKeys> sessions(const Secret& initiator_psk, const Secret& responder_psk) {
  NoiseHandshake initiator(initiator_psk, {});
  NoiseHandshake responder(responder_psk, {});
  Bytes message(NoiseHandshake::kOverhead);
  initiator.write_first(make_key_pair(), {}, message);
  responder.read_first(message, {});
  responder.write_second(make_key_pair(), {}, message);
  initiator.read_second(message, {});
  return {initiator.split(true), responder.split(false)};
}

TEST(Noise, MakesTheMessagesOfThePublishedVector) {
  const Bytes prologue = from_hex(kPrologue);
  NoiseHandshake initiator(secret_from_hex(kPsk), prologue);
  NoiseHandshake responder(secret_from_hex(kPsk), prologue);
  const Bytes first = from_hex(kMessages[0].payload);
  Bytes message(first.size() + NoiseHandshake::kOverhead);
  initiator.write_first(key_pair_of(secret_from_hex(kGuestKey)), first, message);
  EXPECT_EQ(message, from_hex(kMessages[0].ciphertext));
  Bytes payload(first.size());
  responder.read_first(message, payload);
  EXPECT_EQ(payload, first);

  const Bytes second = from_hex(kMessages[1].payload);
  message.resize(second.size() + NoiseHandshake::kOverhead);
  responder.write_second(key_pair_of(secret_from_hex(kHostKey)), second, message);
  EXPECT_EQ(message, from_hex(kMessages[1].ciphertext));
  payload.resize(second.size());
  initiator.read_second(message, payload);
  EXPECT_EQ(payload, second);

  SessionKeys at_initiator = initiator.split(true);
  SessionKeys at_responder = responder.split(false);
  for (std::size_t i = 2; i < kMessages.size(); ++i) {
    SessionKeys& from = i % 2 == 0 ? at_initiator : at_responder;
    SessionKeys& to = i % 2 == 0 ? at_responder : at_initiator;
    const Bytes sent = sealed(from.sends, from_hex(kMessages[i].payload));
    EXPECT_EQ(sent, from_hex(kMessages[i].ciphertext)) << i;
    EXPECT_EQ(opened(to.receives, sent), from_hex(kMessages[i].payload)) << i;
  }
}

TEST(Noise, WhoHasAnotherSecretOrPrologueDoesNotOpenTheFirstMessage) {
  const Bytes prologue(8, std::byte{1});
  NoiseHandshake initiator({1}, prologue);
  Bytes message(NoiseHandshake::kOverhead);
  initiator.write_first(make_key_pair(), {}, message);
  NoiseHandshake other_secret({2}, prologue);
  EXPECT_EQ(thrown([&] { other_secret.read_first(message, {}); }).code, Code::internal);
  NoiseHandshake other_prologue({1}, {});
  EXPECT_EQ(thrown([&] { other_prologue.read_first(message, {}); }).code, Code::internal);
  NoiseHandshake responder({1}, prologue);
  responder.read_first(message, {});
}

TEST(Noise, RefusesAPublicKeyThatMakesNoSecret) {
  NoiseHandshake initiator({1}, {});
  NoiseHandshake responder({1}, {});
  Bytes message(NoiseHandshake::kOverhead);
  KeyPair weak = make_key_pair();
  weak.point = {};  // of small order: what it agrees on is zero, whatever the other key is
  initiator.write_first(weak, {}, message);
  responder.read_first(message, {});
  EXPECT_EQ(thrown([&] { responder.write_second(make_key_pair(), {}, message); }).message,
            "the other side sent a public key that is none");
}

TEST(Noise, EachHandshakeHasItsOwnKeysAndEachDirectionToo) {
  auto [initiator, responder] = sessions({1}, {1});
  auto [other_initiator, other_responder] = sessions({1}, {1});
  const Bytes text(5, std::byte{7});
  const Bytes sent = sealed(initiator.sends, text);
  EXPECT_NE(sent, sealed(other_initiator.sends, text));
  EXPECT_NE(sent, sealed(responder.sends, text));
  const auto refuses = [&sent](Cipher& reader) {
    return thrown([&] { opened(reader, sent); }).code == Code::internal;
  };
  EXPECT_TRUE(refuses(other_responder.receives)) << "spliced";
  EXPECT_TRUE(refuses(initiator.receives)) << "sent back";
}

TEST(Cipher, OpensWhatWasSealedOnceInOrderAndUnchanged) {
  const Secret key{3};
  const Bytes text(9, std::byte{42});
  Cipher writer(key);
  const Bytes first = sealed(writer, text);
  const Bytes second = sealed(writer, text);
  EXPECT_NE(first, second);
  Cipher out_of_order(key);
  EXPECT_EQ(thrown([&] { opened(out_of_order, second); }).code, Code::internal);
  Cipher twice(key);
  EXPECT_EQ(opened(twice, first), text);
  EXPECT_EQ(thrown([&] { opened(twice, first); }).code, Code::internal);
  for (std::size_t bit = 0; bit < first.size() * 8; ++bit) {
    Bytes changed = first;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    Cipher reader(key);
    EXPECT_EQ(thrown([&] { opened(reader, changed); }).code, Code::internal) << bit;
  }
  for (std::size_t size = kSealBytes; size < first.size(); ++size) {
    Cipher reader(key);
    const Bytes cut(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(thrown([&] { opened(reader, cut); }).code, Code::internal) << size;
  }
}

TEST(Cipher, MakesTheSameOtherKeyAtBothEndsHoweverOftenItWasUsed) {
  const Secret key{5};
  Cipher sends(key);
  Bytes sealed(1 + kSealBytes);
  const Bytes plain(1, std::byte{1});
  sends.seal(plain, sealed);
  Cipher derived = sends.derived();
  derived.seal(plain, sealed);
  Bytes opened(1);
  EXPECT_THROW(Cipher(key).open(sealed, opened), Error);
  Cipher(key).derived().open(sealed, opened);
  EXPECT_EQ(opened, plain);
}

TEST(Cipher, SealsInPlaceAndGoesOnWhereItWasMovedTo) {
  const Secret key{3};
  Bytes text(9, std::byte{42});
  const Bytes plain = text;
  Cipher before(key);
  static_cast<void>(sealed(before, plain));
  Cipher writer = std::move(before);
  text.resize(text.size() + kSealBytes);
  writer.seal(std::span(text).first(plain.size()), text);
  Cipher reader(key);
  EXPECT_EQ(thrown([&] { opened(reader, text); }).code, Code::internal) << "it was the second";
  EXPECT_EQ(opened(reader, text), plain);
}

}  // namespace
}  // namespace hora
