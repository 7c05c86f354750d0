// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/news.h"

#include "core/base/bytes.h"

#include <hora/status.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace hora {
namespace {

constexpr std::size_t kMostNewsBytes = 1024;
constexpr std::size_t kMostHow = 200;
constexpr std::size_t kMostEnds = 64;  // one is the cause; the others follow from it
constexpr std::uint64_t kRankBound = 1 << 20;

}  // namespace

Bytes encode(const RankEnd& end) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(end.rank)).u8(end.killed ? 1 : 0);
  out.string(end.how.substr(0, kMostHow)).string(end.last_line.substr(0, kMostLastLine));
  return out.take();
}

RankEnd decode_rank_end(std::span<const std::byte> bytes) {
  Reader in(bytes);
  RankEnd end;
  end.rank = static_cast<int>(in.below(kRankBound, "a rank"));
  end.killed = in.boolean();
  end.how = in.string(kMostHow);
  end.last_line = in.string(kMostLastLine);
  in.finish();
  return end;
}

std::string describe(const RankEnd& end) {
  return fmt::format("{}{}{}{}", end.how, end.killed ? "" : " without shutdown",
                     end.last_line.empty() ? "" : "; its last words: ", end.last_line);
}

std::string describe_after(const std::string& reason, const RankEnd& end) {
  const bool known = end.killed || end.last_line.empty() || reason.find(end.last_line) != std::string::npos;
  const bool says_how = reason.find("it " + end.how) != std::string::npos;
  const std::string how = says_how ? "" : "; it " + end.how;
  return fmt::format("{}{}{}", how, known ? "" : "; its last words: ", known ? "" : end.last_line);
}

LauncherNews::LauncherNews(std::optional<int> socket) : socket_(socket.value_or(-1)) {
  if (socket_ >= 0 && ::fcntl(socket_, F_SETFD, FD_CLOEXEC) != 0) socket_ = -1;
}

void LauncherNews::watch(std::vector<pollfd>& events) const {
  if (open()) events.push_back({socket_, POLLIN, 0});
}

void LauncherNews::read() {
  while (open()) {
    std::array<std::byte, kMostNewsBytes> buffer;
    const auto got = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    try {
      const RankEnd end =
          decode_rank_end(std::span(buffer).first(got > 0 ? static_cast<std::size_t>(got) : 0));
      if (ends_.empty()) first_ = end.rank;
      if (ends_.size() < kMostEnds) ends_.emplace(end.rank, end);
    } catch (const Error&) {
      socket_ = -1;
    }
  }
}

const RankEnd* LauncherNews::end_of(int rank) const {
  const auto found = ends_.find(rank);
  return found == ends_.end() ? nullptr : &found->second;
}

const RankEnd* LauncherNews::first() const { return end_of(first_); }

}  // namespace hora
