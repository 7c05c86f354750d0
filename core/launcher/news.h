// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct pollfd;

namespace hora {

/// The end of a rank, as the launcher that started it saw it. A value.
struct RankEnd {
  int rank = 0;
  bool killed = false;    ///< by a signal
  std::string how;        ///< "was killed by signal 9 (Killed)", "exited with code 3"
  std::string last_line;  ///< the last line that it wrote to stderr, fit to be quoted; may be empty

  bool operator==(const RankEnd&) const = default;
};

inline constexpr std::size_t kMostLastLine = 300;  ///< bytes

/// The bytes of one, and back. Bytes that do not fit throw Error(internal).
[[nodiscard]] Bytes encode(const RankEnd& end);
[[nodiscard]] RankEnd decode_rank_end(std::span<const std::byte> bytes);

/// "exited with code 3 without shutdown; its last words: no space left": the text about a rank that the
/// others lost.
[[nodiscard]] std::string describe(const RankEnd& end);
/// "; it exited with code 3; its last words: no space left": the text that is added to the reason of a rank
/// that has told it. The last words are left out where they are known from that, and of a signal, which
/// follows from it; and how it ended, where the reason is just that.
[[nodiscard]] std::string describe_after(const std::string& reason, const RankEnd& end);

/// The launcher's word to this rank of how others ended: a socket (SOCK_SEQPACKET) on which each message is
/// one RankEnd. Its end, or a message of another form, ends the news. Not thread-safe.
class LauncherNews {
 public:
  /// Borrows the socket, which no program that this one starts inherits from now on. None: there is no
  /// launcher that tells anything.
  explicit LauncherNews(std::optional<int> socket);

  /// Whether something may still come.
  [[nodiscard]] bool open() const { return socket_ >= 0; }
  /// Adds what poll() has to wait for.
  void watch(std::vector<pollfd>& events) const;
  /// Takes what has come. Never waits.
  void read();
  /// Null: nothing was said of that rank.
  [[nodiscard]] const RankEnd* end_of(int rank) const;
  /// The first of which something was said; null: of none.
  [[nodiscard]] const RankEnd* first() const;

 private:
  int socket_;
  int first_ = -1;
  std::map<int, RankEnd> ends_;
};

}  // namespace hora
