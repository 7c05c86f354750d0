// SPDX-License-Identifier: Apache-2.0
// hrun's own output is the test's here; test/job has the rest.
#include "runner/streams/relay.h"

#include "runner/launch/process.h"
#include "test/runner/own_process.h"
#include "test/support/files.h"

#include <hora/status.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>

namespace hora::hrun {
namespace {

using testing::ElementsAre;

struct Ends {
  std::shared_ptr<PipeSource> output_source;
  std::shared_ptr<PipeSource> errors_source;
  Descriptor output;
  Descriptor errors;

  Ends() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    output_source = std::make_shared<PipeSource>(Descriptor(ends[0]));
    output = Descriptor(ends[1]);
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    errors_source = std::make_shared<PipeSource>(Descriptor(ends[0]));
    errors = Descriptor(ends[1]);
  }
  static void write(const Descriptor& pipe, std::string_view text) {
    EXPECT_EQ(::write(pipe.fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
};

Options one_rank() {
  Options options;
  options.ranks = 1;
  return options;
}

TEST(Relay, PassesLinesOnWithTheirRank) {
  const Options options = one_rank();
  Ends rank;
  Ends::write(rank.output, "one\ntw");
  testing::internal::CaptureStdout();
  Relay relay(options);
  relay.add(rank.output_source, rank.errors_source);
  EXPECT_TRUE(relay.move());
  Ends::write(rank.output, "o\n");
  EXPECT_TRUE(relay.move());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[0] one\n[0] two\n");
}

TEST(Relay, IsDoneWithWhatThePipesHeldWhenTheRanksEndedThoughSomebodyHoldsThem) {
  const Options options = one_rank();
  Ends rank;
  Ends::write(rank.errors, "last\nwords");
  testing::internal::CaptureStderr();
  Relay relay(options);
  relay.add(rank.output_source, rank.errors_source);
  relay.ranks_have_ended();
  EXPECT_FALSE(relay.errors_read());
  Ends::write(rank.errors, " of another process\n");
  EXPECT_TRUE(relay.move());
  EXPECT_TRUE(relay.errors_read());
  EXPECT_TRUE(relay.done());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[0] last\n[0] words\n");
  EXPECT_THAT(relay.errors(0).lines(), ElementsAre("last", "words"));
}

/// A pipe without a reader that takes anything; full, or with so much room.
Pipe pipe_with_room(std::size_t room) {
  Pipe pipe = make_pipe();
  const int size = ::fcntl(pipe.write.fd(), F_GETPIPE_SZ);
  const std::string filling(static_cast<std::size_t>(size) - room, 'x');
  Ends::write(pipe.write, filling);
  return pipe;
}

TEST(Relay, AbandonsAReaderThatStandsStillAndKeepsFilesWhole) {
  EXPECT_TRUE(in_own_process([] {
    const Pipe pipe = pipe_with_room(0);
    ASSERT_EQ(::dup2(pipe.write.fd(), STDOUT_FILENO), STDOUT_FILENO);
    Options options = one_rank();
    options.prefix = false;
    options.output_directory = testing::TempDir() + "held-up-" + std::to_string(::getpid());
    Ends rank;
    testing::internal::CaptureStderr();
    Relay relay(options);
    relay.add(rank.output_source, rank.errors_source);
    Ends::write(rank.output, "one\n");
    EXPECT_TRUE(relay.move());
    Ends::write(rank.output, "more");
    Ends::write(rank.errors, "why\n");
    relay.ranks_have_ended();
    EXPECT_TRUE(relay.move());
    EXPECT_TRUE(relay.held_up());
    EXPECT_FALSE(relay.done());
    EXPECT_EQ(relay.abandoned(), 0u);
    relay.abandon();
    EXPECT_TRUE(relay.done());
    EXPECT_TRUE(relay.incomplete());
    EXPECT_EQ(relay.abandoned(), 8u);
    EXPECT_EQ(text_of_file(options.output_directory + "/rank.0/stdout"), "one\nmore");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "why\n");
    std::filesystem::remove_all(options.output_directory);
  }));
}

TEST(Relay, CountsWhatReadersTake) {
  const Options options = one_rank();
  Ends rank;
  testing::internal::CaptureStdout();
  Relay relay(options);
  relay.add(rank.output_source, rank.errors_source);
  EXPECT_EQ(relay.written(), 0u);
  Ends::write(rank.output, "one\n");
  EXPECT_TRUE(relay.move());
  EXPECT_EQ(relay.written(), std::string("[0] one\n").size());
  EXPECT_FALSE(relay.held_up());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[0] one\n");
}

TEST(Relay, ShowsAQuestionBeforeItsLineEndsAndTheAnswerAsItIsTyped) {
  EXPECT_TRUE(in_own_process([] {
    const Pipe pipe = make_pipe();
    ASSERT_EQ(::dup2(pipe.write.fd(), STDOUT_FILENO), STDOUT_FILENO);
    ASSERT_EQ(::dup2(pipe.write.fd(), STDERR_FILENO), STDERR_FILENO);
    PipeSource shown(Descriptor(::dup(pipe.read.fd())));
    const auto read = [&] {
      std::array<char, 4096> buffer{};
      return std::string(buffer.data(), shown.read(buffer));
    };
    const Options options = one_rank();
    Ends rank;
    Relay relay(options);
    relay.add(rank.output_source, rank.errors_source, true);
    const auto when = [&](const Descriptor& output, std::string_view text, bool waits) {
      Ends::write(output, text);
      EXPECT_TRUE(relay.move());
      EXPECT_EQ(relay.next() != TimePoint::max(), waits) << text;
      if (waits) ::poll(nullptr, 0, milliseconds_until(relay.next()));
      EXPECT_TRUE(relay.move());
      return read();
    };
    EXPECT_EQ(when(rank.errors, "Name: ", true), "Name: ") << "where Python asks without readline";
    EXPECT_EQ(when(rank.output, "b", false), "b");
    EXPECT_EQ(when(rank.output, "ob\nhello\n", false), "ob\n[0] hello\n");
    EXPECT_EQ(when(rank.output, "(Pdb) ", true), "(Pdb) ");
    EXPECT_EQ(when(rank.errors, "late\n", false), "\n[0] late\n");
    EXPECT_EQ(when(rank.output, "c\n", false), "c\n");
    EXPECT_EQ(when(rank.output, "half", true), "half");
    EXPECT_EQ(when(rank.output, " done\n", false), " done\n");
    EXPECT_EQ(relay.output(0).count(), 4u);
    EXPECT_THAT(relay.errors(0).lines(), ElementsAre("Name: ", "late"));
  }));
}

TEST(Relay, WatchesOpenPipesOnly) {
  const Options options = one_rank();
  Ends rank;
  Relay relay(options);
  relay.add(rank.output_source, rank.errors_source);
  std::vector<pollfd> events;
  relay.watch(events);
  EXPECT_EQ(events.size(), 2u);
  rank.output = Descriptor();
  EXPECT_TRUE(relay.move());
  events.clear();
  relay.watch(events);
  EXPECT_EQ(events.size(), 1u);
  relay.ranks_have_ended();
  EXPECT_TRUE(relay.done());
}

TEST(Relay, KeepsATextOfARankAlsoWhereItIsNotShown) {
  Options options = one_rank();
  options.output_directory = testing::TempDir() + "text-" + std::to_string(::getpid());
  Ends rank;
  Ends::write(rank.errors, "cut");
  testing::internal::CaptureStderr();
  Relay relay(options);
  relay.add(rank.output_source, rank.errors_source);
  EXPECT_TRUE(relay.move());
  relay.add_errors(0, "one\n  two\n", true);
  relay.add_errors(0, "three\n", false);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[0] cut\n[0] one\n[0]   two\n");
  EXPECT_THAT(relay.errors(0).lines(), ElementsAre("cut", "one", "  two", "three"));
  EXPECT_EQ(relay.errors(0).count(), 4U);
  EXPECT_EQ(text_of_file(options.output_directory + "/rank.0/stderr"), "cutone\n  two\nthree\n")
      << "to the byte as it came";
  std::filesystem::remove_all(options.output_directory);
}

TEST(Relay, SaysThatADiskIsFullAndPassesLinesOnAllTheSame) {
  Options options = one_rank();
  options.output_directory = testing::TempDir() + "full-" + std::to_string(::getpid());
  std::filesystem::create_directories(options.output_directory + "/rank.0");
  std::filesystem::create_symlink("/dev/full", options.output_directory + "/rank.0/stdout");
  Ends rank;
  Ends::write(rank.output, "one\n");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Relay relay(options);
  relay.add(rank.output_source, rank.errors_source);
  EXPECT_TRUE(relay.move());
  Ends::write(rank.output, "two\n");
  EXPECT_TRUE(relay.move());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[0] one\n[0] two\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "hrun: cannot write " + options.output_directory +
                "/rank.0/stdout any further: No space left on device\n");
  std::filesystem::remove_all(options.output_directory);
}

TEST(Relay, SaysOnceThatItsOwnOutputCannotBeWritten) {
  EXPECT_TRUE(in_own_process([] {
    const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::dup2(full.fd(), STDOUT_FILENO), STDOUT_FILENO);
    const Options options = one_rank();
    Ends rank;
    testing::internal::CaptureStderr();
    Relay relay(options);
    relay.add(rank.output_source, rank.errors_source);
    EXPECT_FALSE(relay.incomplete());
    for (const char* line : {"one\n", "two\n"}) {
      Ends::write(rank.output, line);
      EXPECT_TRUE(relay.move());
    }
    EXPECT_TRUE(relay.incomplete());
    relay.ranks_have_ended();
    EXPECT_TRUE(relay.done()) << "nobody waits for room on a disk";
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "hrun: cannot write its output any further: No space left on device\n");
  }));
}

TEST(Relay, SaysWhereOutputCannotBeWritten) {
  Options options = one_rank();
  options.output_directory = "/proc/nonexistent";
  EXPECT_THROW(Relay{options}, Error);
}

TEST(Relay, TakesWhatHasComeFromAnotherMachineAndNoMoreThanItCanPassOn) {
  const Options options = one_rank();
  const auto output = std::make_shared<Inbox>();
  const auto errors = std::make_shared<Inbox>();
  output->put(std::string(200'000, 'x') + "\n");
  testing::internal::CaptureStdout();
  Relay relay(options);
  relay.add(output, errors);
  EXPECT_TRUE(relay.ready());
  EXPECT_TRUE(relay.move());
  EXPECT_GT(output->size(), 0u) << "a piece at a time";
  while (relay.ready()) EXPECT_TRUE(relay.move());
  EXPECT_EQ(output->take_credit(), 200'001u);
  EXPECT_FALSE(relay.done());
  output->end();
  errors->end();
  EXPECT_TRUE(relay.move());
  EXPECT_TRUE(relay.done());
  EXPECT_EQ(testing::internal::GetCapturedStdout().size(), 200'001u + 4 * 4 + 3);
}

TEST(Relay, IsReadyToPassOnAnEndForWhichNobodyWaits) {
  const Options options = one_rank();
  const auto output = std::make_shared<Inbox>();
  const auto errors = std::make_shared<Inbox>();
  Relay relay(options);
  relay.add(output, errors);
  EXPECT_FALSE(relay.ready());
  output->end();
  EXPECT_TRUE(relay.ready());
  EXPECT_TRUE(relay.move());
  EXPECT_FALSE(relay.ready()) << "it has been passed on";
  errors->end();
  EXPECT_TRUE(relay.ready());
  EXPECT_TRUE(relay.move());
  EXPECT_TRUE(relay.done());
}

TEST(Relay, PassesOnWhatAProcessHasWrittenBeforeTheOneThatReplacesIt) {
  const Options options = one_rank();
  Ends first;
  const Ends second;
  const Ends third;
  testing::internal::CaptureStdout();
  Relay relay(options);
  relay.add(first.output_source, first.errors_source);
  Ends::write(first.output, "one\nhalf");  // somebody may hold the pipe open
  relay.replace(0, second.output_source, second.errors_source);
  Ends::write(second.output, "two\n");
  relay.replace(0, third.output_source, third.errors_source);
  Ends::write(third.output, "three\n");
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(relay.move());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "[0] one\n[0] half\n[0] two\n[0] three\n");
  EXPECT_EQ(relay.output(0).count(), 4U);
  EXPECT_FALSE(relay.done());
  relay.ranks_have_ended();
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(relay.move());
  EXPECT_TRUE(relay.done());
}

}  // namespace
}  // namespace hora::hrun
