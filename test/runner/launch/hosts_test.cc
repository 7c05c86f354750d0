// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/hosts.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using Hosts = std::vector<HostSlots>;

std::string refusal(const std::function<Hosts()>& parse) {
  try {
    static_cast<void>(parse());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ParseHosts, TakesNamesAddressesAndSlots) {
  EXPECT_EQ(parse_hosts("a:4,b:4"), (Hosts{{"a", 4}, {"b", 4}}));
  EXPECT_EQ(parse_hosts("localhost"), (Hosts{{"localhost", 1}}));
  EXPECT_EQ(parse_hosts("[::1]:2,[fe80::1]"), (Hosts{{"::1", 2}, {"fe80::1", 1}}));
}

TEST(ParseHosts, SaysWhichPartIsWrong) {
  EXPECT_EQ(refusal([] { return parse_hosts("a:0"); }),
            "'a:0': the number of slots must be from 1 to 65536, not '0'");
  EXPECT_EQ(refusal([] { return parse_hosts("a:x"); }),
            "'a:x': the number of slots must be from 1 to 65536, not 'x'");
  EXPECT_EQ(refusal([] { return parse_hosts("a:2,"); }), "'': there is no host name");
  EXPECT_EQ(refusal([] { return parse_hosts(":2"); }), "':2': there is no host name");
  EXPECT_EQ(refusal([] { return parse_hosts("a:1,a:2"); }),
            "host 'a' is named twice; name it once with all its slots");
  EXPECT_EQ(refusal([] { return parse_hosts("::1"); }), "'::1': there is no host name");
  EXPECT_EQ(refusal([] { return parse_hosts("fe80::1"); }),
            "'fe80::1': write an IPv6 address in brackets, as in [::1]:4");
  EXPECT_EQ(refusal([] { return parse_hosts("[::1"); }), "'[::1': the bracket is not closed");
}

TEST(ParseHostfile, TakesBothForms) {
  EXPECT_EQ(
      parse_hostfile("# our machines\na slots=4\n\nb:2   # two\nc\nd slots=3 max_slots=8\n", "hosts"),
      (Hosts{{"a", 4, "hosts:2: "}, {"b", 2, "hosts:4: "}, {"c", 1, "hosts:5: "}, {"d", 3, "hosts:6: ", 8}}));
}

TEST(ParseHostfile, NamesTheFileAndTheLine) {
  EXPECT_EQ(refusal([] { return parse_hostfile("a slots=4\nb slots=none\n", "hosts"); }),
            "hosts:2: 'slots=none': the number of slots must be from 1 to 65536, not 'none'");
  EXPECT_EQ(refusal([] { return parse_hostfile("a \x1b[2J\n", "hosts"); }),
            "hosts:1: expected 'host slots=N', found '?[2J'");
  EXPECT_EQ(refusal([] { return parse_hostfile("a 4\n", "hosts"); }),
            "hosts:1: expected 'host slots=N', found '4'");
  EXPECT_EQ(refusal([] { return parse_hostfile("a slots=4 max_slots=2\n", "hosts"); }),
            "hosts:1: max_slots=2 is less than slots=4");
  EXPECT_EQ(refusal([] { return parse_hostfile("a max_slots=no\n", "hosts"); }),
            "hosts:1: 'max_slots=no': the number of slots must be from 1 to 65536, not 'no'");
  EXPECT_EQ(refusal([] { return parse_hostfile("a\na\n", "hosts"); }),
            "hosts:2: host 'a' is named twice; name it once with all its slots");
  EXPECT_EQ(refusal([] { return parse_hostfile("# nothing\n", "hosts"); }), "hosts: there is no host in it");
  EXPECT_EQ(refusal([] { return read_hostfile("/nonexistent"); }), "/nonexistent: cannot read this hostfile");
}

TEST(ReadHostfile, RefusesWhatIsNoFileOrCannotBeRead) {
  EXPECT_EQ(refusal([] { return read_hostfile("/tmp"); }),
            "/tmp: a hostfile is expected here, and this is a directory");
  EXPECT_NE(refusal([] { return read_hostfile("/proc/self/mem"); }).find("/proc/self/mem: cannot read"),
            std::string::npos);
}

TEST(ParseHosts, TakesWhateverSshDoes) {
  EXPECT_EQ(parse_hosts("me@gpu-1.example:8,you@[fe80::1%eth0]:2"),
            (Hosts{{"me@gpu-1.example", 8}, {"you@fe80::1%eth0", 2}}));
}

TEST(HostSlots, AreWrittenAsTheyAreRead) {
  for (const char* text :
       {"a:1", "me@gpu-1.example:8", "[::1]:2", "you@[fe80::1%eth0]:2", "user@[fd00::1]:2", "10.0.0.1:4"})
    EXPECT_EQ(to_text(parse_hosts(text).front()), text);
  EXPECT_EQ(with_number("fd00::1", 4000), "[fd00::1]:4000");
}

TEST(ParseHosts, RefusesWhatSshOrAShellCouldTakeForSomethingElse) {
  EXPECT_EQ(refusal([] { return parse_hosts("-oProxyCommand=x"); }),
            "'-oProxyCommand=x': '-oProxyCommand=x' cannot be the name of a host");
  EXPECT_EQ(refusal([] { return parse_hosts("a;b"); }), "'a;b': 'a;b' cannot be the name of a host");
  EXPECT_EQ(refusal([] { return parse_hosts("a b:2"); }), "'a b:2': 'a b' cannot be the name of a host");
  EXPECT_EQ(refusal([] { return parse_hosts("-me@a"); }), "'-me@a': '-me@a' cannot be the name of a host");
}

}  // namespace
}  // namespace hora::hrun
