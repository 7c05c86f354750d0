// SPDX-License-Identifier: Apache-2.0
// The messages of a handshake: nobody who does not know the secret gets in.
#include "core/comm/handshake.h"

#include <algorithm>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  hora::HelloBytes hello{};
  hora::ProofBytes proof{};
  hora::ChallengeBytes challenge{};
  std::copy_n(bytes, std::min(size, hello.size()), hello.begin());
  std::copy_n(bytes, std::min(size, challenge.size()), challenge.begin());
  if (size > hello.size())
    std::copy_n(bytes + hello.size(), std::min(size - hello.size(), proof.size()), proof.begin());
  const hora::Secret secret{1, 2, 3};
  try {
    hora::Host host(secret);
    static_cast<void>(host.challenge(hello));
    static_cast<void>(host.check(proof));
    std::abort();
  } catch (const hora::Error&) {
  }
  try {
    static_cast<void>(hora::Guest(secret, {}).prove(challenge));
    std::abort();
  } catch (const hora::Error&) {
    return 0;
  }
  return 0;
}
