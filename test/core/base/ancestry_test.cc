// SPDX-License-Identifier: Apache-2.0
#include "core/base/ancestry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace hora {
namespace {

/// A wrapper's child that waits, started with a variable; ends with this.
class Descendant {
 public:
  Descendant() : pipe_(::popen("HORA_TEST_VARIABLE=1 sh -c 'sh -c \"echo \\$\\$; read line\"; true' ", "r")) {
    std::array<char, 32> line{};
    if (::fgets(line.data(), line.size(), pipe_) != nullptr) pid_ = std::stoi(line.data());
  }
  Descendant(const Descendant&) = delete;
  Descendant& operator=(const Descendant&) = delete;
  ~Descendant() { ::pclose(pipe_); }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  FILE* pipe_;
  int pid_ = 0;
};

TEST(Ancestry, FindsWhoStartedARankThroughItsWrappers) {
  std::array<int, 2> held{};
  ASSERT_EQ(::pipe2(held.data(), O_CLOEXEC), 0);
  const int input = ::dup(0);
  ::dup2(held[0], 0);  // so that the descendant waits
  std::string found;
  std::string parent;
  {
    const Descendant descendant;
    found = ancestor_without("HORA_TEST_VARIABLE", descendant.pid());
    parent = ancestor_without("HORA_TEST_OTHER", descendant.pid());
    ::close(held[1]);
  }
  ::dup2(input, 0);
  ::close(input);
  ::close(held[0]);
  EXPECT_NE(found, parent);
  EXPECT_NE(found, "");
  EXPECT_NE(parent, "");
}

TEST(Ancestry, IsTheParentIfNobodyWasGivenTheVariable) {
  EXPECT_EQ(ancestor_without("HORA_TEST_OTHER", ::getpid()).find(fmt::format("{}.", ::getppid())), 0u);
}

TEST(Ancestry, IsNobodysWithoutAProcess) { EXPECT_EQ(ancestor_without("HORA_TEST_OTHER", 1 << 30), ""); }

}  // namespace
}  // namespace hora
