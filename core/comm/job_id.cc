// SPDX-License-Identifier: Apache-2.0
#include "core/comm/job_id.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <array>
#include <random>
#include <string_view>

namespace hora {

std::string job_id(const Secret& secret) {
  constexpr std::string_view kWhatFor = "the name of a job of Hora";
  constexpr std::size_t kDigits = 8;
  std::array<unsigned char, crypto_generichash_BYTES> digest{};
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(kWhatFor.data()),
                     kWhatFor.size(), secret.data(), secret.size());
  return fmt::format("{:02x}", fmt::join(digest, "")).substr(0, kDigits);
}

std::string job_id(const Config& config) {
  return config.question_fd ? job_id(config.secret) : fmt::format("{:08x}", std::random_device{}());
}

}  // namespace hora
