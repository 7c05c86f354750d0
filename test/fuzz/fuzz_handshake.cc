// SPDX-License-Identifier: Apache-2.0
// The messages of a handshake: nobody who does not know the secret gets in, and no message that was changed
// on its way is taken.
#include "core/join/handshake.h"

#include <algorithm>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

const hora::Secret kSecret{1, 2, 3};

template <typename Message>
Message as_message(std::span<const std::byte> bytes) {
  Message message{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), message.size()), message.begin());
  return message;
}

/// Changes a message by the bytes; whether it is another one then.
template <typename Message>
bool change(Message& message, std::span<const std::byte> bytes) {
  bool changed = false;
  for (std::size_t i = 0; i < std::min(bytes.size(), message.size()); ++i) {
    message[i] ^= bytes[i];
    changed = changed || bytes[i] != std::byte{0};
  }
  return changed;
}

/// `step` must throw if and only if it must.
template <typename Step>
bool passes(const Step& step, bool must) {
  bool passed = true;
  try {
    step();
  } catch (const hora::Error&) {
    passed = false;
  }
  if (passed != must) std::abort();
  return passed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  hora::Initiator initiator(kSecret, {hora::Role::data, 1, 2});
  hora::Responder responder(kSecret);
  hora::HelloBytes hello = initiator.hello();
  const int at = data[0] % 5;  // which message is forged or changed
  if (at == 3) hello = as_message<hora::HelloBytes>(bytes);
  const bool greeted = at == 0 ? !change(hello, bytes) : at != 3;
  hora::AnswerBytes answer{};
  if (!passes([&] { answer = responder.answer(hello); }, greeted)) return 0;
  if (at == 4) answer = as_message<hora::AnswerBytes>(bytes);
  const bool answered = at == 1 ? !change(answer, bytes) : at != 4;
  hora::ProofBytes proof{};
  if (!passes([&] { proof = initiator.prove(answer).bytes; }, answered)) return 0;
  const bool proved = at == 2 ? !change(proof, bytes) : true;
  passes([&] { static_cast<void>(responder.check(proof)); }, proved);
  return 0;
}
