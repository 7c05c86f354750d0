// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/news.h"

#include "core/base/socket_io.h"

#include <hora/status.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

namespace hora {
namespace {

const RankEnd kKilled{2, true, "was killed by signal 9 (Killed)", ""};
const RankEnd kExited{3, false, "exited with code 3", "no space left"};

/// The launcher's end and the rank's.
struct NewsLine {
  NewsLine() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    launcher = Descriptor(ends[0]);
    rank = Descriptor(ends[1]);
  }
  void send(const Bytes& bytes) const {
    EXPECT_EQ(::send(launcher.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  Descriptor launcher;
  Descriptor rank;
};

TEST(RankEnd, TravelsWhole) {
  for (const auto& end : {kKilled, kExited, RankEnd{}}) EXPECT_EQ(decode_rank_end(encode(end)), end);
}

TEST(RankEnd, IsCutToWhatAMessageHolds) {
  const RankEnd decoded = decode_rank_end(encode({1, false, std::string(5000, 'h'), std::string(5000, 'w')}));
  EXPECT_EQ(decoded.last_line, std::string(kMostLastLine, 'w'));
  EXPECT_LT(decoded.how.size(), 500u);
}

TEST(RankEnd, IsRefusedWhereItIsNone) {
  Bytes bytes = encode(kExited);
  bytes.pop_back();
  EXPECT_THROW(decode_rank_end(bytes), Error);
  EXPECT_THROW(decode_rank_end({}), Error);
}

TEST(RankEnd, IsDescribedWithWhatItLastSaid) {
  EXPECT_EQ(describe(kKilled), "was killed by signal 9 (Killed)");
  EXPECT_EQ(describe(kExited), "exited with code 3 without shutdown; its last words: no space left");
}

TEST(RankEnd, IsDescribedAfterTheReasonThatTheRankGave) {
  EXPECT_EQ(describe_after("an exception ended it", kExited),
            "; it exited with code 3; its last words: no space left");
  EXPECT_EQ(describe_after("rank 2 failed: it exited with code 3", kExited),
            "; its last words: no space left");
  EXPECT_EQ(describe_after("it exited with code 3; the first operation that failed there was 'a'", kExited),
            "; its last words: no space left");
  EXPECT_EQ(describe_after("OSError: no space left (train.py:3)", kExited), "; it exited with code 3");
  EXPECT_EQ(
      describe_after("out of luck", {2, true, "was killed by signal 6 (Aborted)", "what(): out of luck"}),
      "; it was killed by signal 6 (Aborted)");
}

TEST(LauncherNews, TellsOfEachRankWhatCameFirst) {
  const NewsLine line;
  LauncherNews news(line.rank.fd());
  news.read();
  EXPECT_EQ(news.end_of(2), nullptr);
  EXPECT_EQ(news.first(), nullptr);
  line.send(encode(kKilled));
  line.send(encode(kExited));
  line.send(encode(RankEnd{2, false, "exited with code 0", ""}));
  news.read();
  ASSERT_NE(news.end_of(2), nullptr);
  EXPECT_EQ(*news.end_of(2), kKilled);
  EXPECT_EQ(*news.end_of(3), kExited);
  ASSERT_NE(news.first(), nullptr);
  EXPECT_EQ(*news.first(), kKilled);
  EXPECT_TRUE(news.open());
  std::vector<pollfd> events;
  news.watch(events);
  EXPECT_EQ(events.size(), 1u);
}

TEST(LauncherNews, IsNotForProgramsThatTheRankStarts) {
  const NewsLine line;
  const LauncherNews news(line.rank.fd());
  EXPECT_EQ(::fcntl(line.rank.fd(), F_GETFD), FD_CLOEXEC);
}

TEST(LauncherNews, EndsWithItsLauncherAndWithNonsense) {
  NewsLine line;
  LauncherNews news(line.rank.fd());
  line.send(encode(kExited));
  line.launcher = Descriptor();
  news.read();
  EXPECT_FALSE(news.open());
  EXPECT_NE(news.end_of(3), nullptr);

  const NewsLine other;
  LauncherNews garbled(other.rank.fd());
  other.send(Bytes(7, std::byte{0xFF}));
  other.send(encode(kExited));
  garbled.read();
  EXPECT_FALSE(garbled.open());
  std::vector<pollfd> events;
  garbled.watch(events);
  EXPECT_TRUE(events.empty());
}

TEST(LauncherNews, IsClosedWhereThereIsNoLauncher) {
  LauncherNews none(std::nullopt);
  none.read();
  EXPECT_FALSE(none.open());
  EXPECT_FALSE(LauncherNews(1 << 20).open()) << "no such descriptor";
}

}  // namespace
}  // namespace hora
