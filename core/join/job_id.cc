// SPDX-License-Identifier: Apache-2.0
#include "core/join/job_id.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <array>
#include <random>

namespace hora {

std::string digits_of(const Secret& secret, std::string_view purpose, std::size_t digits) {
  std::array<unsigned char, crypto_generichash_BYTES> digest{};
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(purpose.data()),
                     purpose.size(), secret.data(), secret.size());
  return fmt::format("{:02x}", fmt::join(digest, "")).substr(0, digits);
}

std::string job_id(const Secret& secret) {
  constexpr std::size_t kDigits = 8;
  return digits_of(secret, "the name of a job of Hora", kDigits);
}

std::string job_id(const Membership& membership, const Config& config) {
  if (!membership.job.empty()) return membership.job;
  return config.question_fd ? job_id(membership.secret) : fmt::format("{:08x}", std::random_device{}());
}

}  // namespace hora
