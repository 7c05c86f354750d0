// SPDX-License-Identifier: Apache-2.0
#include "core/join/secret_file.h"

#include "core/base/socket_io.h"

#include <hora/status.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace hora {
namespace {

constexpr std::size_t kMostBytes = 4096;
constexpr std::string_view kPurpose = "the secret of a job of Hora: ";

[[noreturn]] void refuse_secret_file(const std::string& path, const std::string& why) {
  throw Error(Code::invalid_argument, fmt::format("HORA_SECRET_FILE='{}': {}", path, why));
}

void check_owner(const std::string& path, const struct stat& file) {
  if (!S_ISREG(file.st_mode)) refuse_secret_file(path, "not a file");
  if (file.st_uid != ::geteuid())
    refuse_secret_file(
        path, fmt::format("belongs to user {}, but this process runs as user {}: make one of your own: {}",
                          file.st_uid, ::geteuid(), how_to_make_a_secret()));
  if ((file.st_mode & 0077) != 0)
    refuse_secret_file(
        path, fmt::format("others may use it, too (mode {:04o}): chmod 600 {}", file.st_mode & 07777, path));
}

std::string read_file(const std::string& path) {
  // Opened before it is looked at, so that both mean the same file; a pipe must not hold us up.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    refuse_secret_file(path, fmt::format("{}; make it: {}", std::strerror(errno), how_to_make_a_secret()));
  struct stat found{};
  if (::fstat(file.fd(), &found) != 0) refuse_secret_file(path, std::strerror(errno));
  check_owner(path, found);
  std::array<char, kMostBytes> bytes{};
  std::size_t size = 0;
  while (size < bytes.size()) {
    const auto got = ::read(file.fd(), &bytes[size], bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_secret_file(path, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  std::string text(bytes.data(), size);
  sodium_memzero(bytes.data(), bytes.size());
  return text;
}

const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

const char* how_to_make_a_secret() {
  return "(umask 077; head -c 32 /dev/urandom > ~/.hora-secret); export HORA_SECRET_FILE=~/.hora-secret";
}

Secret secret_from_file(const std::string& path, const std::string& job) {
  if (::sodium_init() < 0)
    throw Error(Code::unavailable, "libsodium cannot start, so there is no way to use HORA_SECRET_FILE");
  std::string contents = read_file(path);
  Secret key{};
  if (contents.size() < key.size())
    refuse_secret_file(path, fmt::format("has {} bytes, fewer than {}: make it anew: {}", contents.size(),
                                         key.size(), how_to_make_a_secret()));
  crypto_generichash(key.data(), key.size(), raw(contents), contents.size(), nullptr, 0);
  sodium_memzero(contents.data(), contents.size());
  Secret secret{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), secret.size());
  crypto_generichash_update(&state, raw(kPurpose), kPurpose.size());
  crypto_generichash_update(&state, raw(job), job.size());
  crypto_generichash_final(&state, secret.data(), secret.size());
  sodium_memzero(key.data(), key.size());
  return secret;
}

}  // namespace hora
