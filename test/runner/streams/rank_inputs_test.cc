// SPDX-License-Identifier: Apache-2.0
// Ranks that read slowly are in local_ranks_test.cc.
#include "runner/streams/rank_inputs.h"

#include "runner/launch/agent_message.h"
#include "runner/launch/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace hora::hrun {
namespace {

std::string read_from(const Descriptor& input) {
  std::array<char, 64> buffer{};
  const auto count = ::read(input.fd(), buffer.data(), buffer.size());
  return {buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

TEST(RankInputs, GiveTheSameToPipesAndTerminals) {
  RankInputs inputs;
  EXPECT_EQ(inputs.room(), 0u) << "nobody reads";
  Pipe pipe = make_pipe();
  PseudoTerminal terminal = make_terminal({});
  inputs.add(std::move(pipe.write));
  inputs.add(std::move(terminal.master));
  EXPECT_EQ(inputs.room(), kWindow);
  inputs.give("words\n");
  EXPECT_EQ(read_from(pipe.read), "words\n");
  EXPECT_EQ(read_from(terminal.slave), "words\n");
  inputs.resize({40, 120});
  EXPECT_EQ(size_of(terminal.slave.fd()), (WindowSize{40, 120}));
  inputs.give("");
  EXPECT_EQ(inputs.room(), 0u);
  EXPECT_EQ(read_from(pipe.read), "");
}

TEST(RankInputs, ForgetARankThatReadsNoMore) {
  ::signal(SIGPIPE, SIG_IGN);
  RankInputs inputs;
  Pipe one = make_pipe();
  Pipe other = make_pipe();
  inputs.add(std::move(one.write));
  inputs.add(std::move(other.write));
  one.read = Descriptor();
  inputs.give("words");
  EXPECT_EQ(inputs.room(), kWindow);
  EXPECT_EQ(read_from(other.read), "words");
  other.read = Descriptor();
  inputs.give("words");
  EXPECT_EQ(inputs.room(), 0u);
  ::signal(SIGPIPE, SIG_DFL);
}

}  // namespace
}  // namespace hora::hrun
