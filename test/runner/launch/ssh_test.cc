// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SshCommand, SaysNothingOfTheJob) {
  EXPECT_THAT(
      ssh_command("/usr/bin/ssh", "me@a", {}, "/opt/hora/bin/hrun"),
      ElementsAre(
          "/usr/bin/ssh", "-T", "-x", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o",
          "ConnectTimeout=10", "--", "me@a",
          R"(exec /bin/sh -c 'test -x "$0" || exec hrun --agent; exec "$0" --agent' '/opt/hora/bin/hrun')"));
}

TEST(SshCommand, TakesPortAndKey) {
  const auto words = ssh_command("ssh", "a", {2222, "key file", 3}, "/it's/hrun");
  EXPECT_THAT(words, ElementsAre("ssh", "-T", "-x", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes",
                                 "-o", "ConnectTimeout=3", "-p", "2222", "-i", "key file", "--", "a",
                                 HasSubstr(R"('/it'\''s/hrun')")));
}

TEST(ExplainSsh, QuotesSshAndKnowsRemedies) {
  EXPECT_EQ(explain_ssh("ssh: connect to host a port 22: Connection refused", 255, "a", "/bin/hrun"),
            "ssh: connect to host a port 22: Connection refused");
  EXPECT_EQ(
      explain_ssh("Host key verification failed.", 255, "a", "/bin/hrun"),
      "Host key verification failed.; look at the host's key and accept it: `ssh a` asks for that once");
  EXPECT_EQ(
      explain_ssh("a: Permission denied (publickey).", 255, "a", "/bin/hrun"),
      "a: Permission denied (publickey).; hrun can type no password: `ssh-copy-id a` gives the host a key "
      "of yours, -i chooses one");
  EXPECT_EQ(explain_ssh("", 255, "a", "/bin/hrun"), "ssh ended with code 255 and said nothing");
  EXPECT_EQ(explain_ssh("Welcome to a", 1, "a", "/bin/hrun"), "ssh ended with code 1: Welcome to a");
  EXPECT_EQ(
      explain_ssh("sh: 1: exec: hrun: not found", 127, "a", "/bin/hrun"),
      "there is no hrun: neither /bin/hrun nor one in PATH (of a shell without login); install Hora there "
      "at the same place as here: sh: 1: exec: hrun: not found");
}

}  // namespace
}  // namespace hora::hrun
