// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/answering.h"

#include <hora/status.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace hora {
namespace {

/// The launcher's end of a line, and the rank's.
class Line {
 public:
  Line() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::runtime_error("no pair of sockets");
    ours_ = Descriptor(ends[0]);
    theirs_ = Descriptor(ends[1]);
  }

  [[nodiscard]] int theirs() const { return theirs_.fd(); }
  void ask(const Question& question) const { say(ours_.fd(), encode(question)); }
  void write(const Bytes& bytes) const { say(ours_.fd(), bytes); }
  [[nodiscard]] Reply hear() const {
    std::array<std::byte, 1024> buffer;
    const auto got = ::recv(ours_.fd(), buffer.data(), buffer.size(), 0);
    return decode_reply(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
  void hang_up() { ours_ = Descriptor(); }

 private:
  Descriptor ours_;
  Descriptor theirs_;
};

Reply echo(const Question& question) { return {question.number, ReplyKind::failed, {std::byte{'x'}}}; }

TEST(Answering, TellsWhenItBeginsAnswersAndTellsWhenItEnds) {
  const Line line;
  {
    const Answering answering(line.theirs(), echo);
    EXPECT_EQ(line.hear(), (Reply{0, ReplyKind::arrived}));
    for (std::uint64_t number = 1; number < 4; ++number) {
      line.ask({number, QuestionKind::health});
      EXPECT_EQ(line.hear(), echo({number, QuestionKind::health}));
    }
    EXPECT_NE(::fcntl(line.theirs(), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(line.hear(), (Reply{0, ReplyKind::left}));
}

TEST(Answering, EndsWithTheLauncherAndBearsWhatIsNoQuestion) {
  Line line;
  const Answering answering(line.theirs(), echo);
  static_cast<void>(line.hear());
  line.write({std::byte{1}, std::byte{99}});
  Line other;
  const Answering orphan(other.theirs(), echo);
  other.hang_up();
}

TEST(Answering, BearsAnAnswerThatFails) {
  const Line line;
  const Answering answering(line.theirs(),
                            [](const Question&) -> Reply { throw std::runtime_error("no memory"); });
  static_cast<void>(line.hear());
  line.ask({1, QuestionKind::dump});
}

TEST(Answering, DoesNothingWhereNobodyAsks) { const Answering answering(std::nullopt, echo); }

}  // namespace
}  // namespace hora
