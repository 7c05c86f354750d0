// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/mesh.h"

#include "test/support/paired_links.h"

#include <gtest/gtest.h>

#include <array>

namespace hora::tcp {
namespace {

TEST(Mesh, CountsItsMembersAndKnowsWhoTheyAreInTheWorld) {
  const auto links = paired_links(5);
  const Mesh mesh(links[3], {4, 3, 1}, 0, false);
  EXPECT_EQ(mesh.ranks(), 3);
  EXPECT_EQ(mesh.rank(), 1);
  EXPECT_EQ(mesh.in_world(0), 4);
  const std::array<int, 2> members{2, 1};
  const auto smaller = mesh.split(members, 1);
  EXPECT_EQ(smaller->in_world(0), 1);
  EXPECT_EQ(smaller->rank(), 1);
}

TEST(Mesh, NoTwoCallsHaveTheSameNumber) {
  const auto links = paired_links(2);
  Mesh mesh(links[0], {0, 1}, 0, false);
  const std::array<int, 2> all{0, 1};
  const auto first = mesh.split(all, 1);
  const auto second = mesh.split(all, 2);
  const auto nested = first->split(all, 1);
  std::vector<std::uint64_t> numbers;
  for (Mesh* one : {&mesh, first.get(), second.get(), nested.get()}) {
    numbers.push_back(one->begin_call({}));
    numbers.push_back(one->begin_call({}));
  }
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

TEST(Mesh, RequiresNobodyButThePeersOfACall) {
  const auto links = paired_links(6);
  Mesh mesh(links[0], {0, 2, 4, 5}, 0, false);
  const std::array<int, 2> peers{1, 3};
  mesh.begin_call(peers);
  EXPECT_EQ(count_required(*links[0]), 2);
  EXPECT_EQ(mesh.lines(3).size(), 1u);
  EXPECT_THROW(static_cast<void>(mesh.lines(2)), Error);
}

TEST(Mesh, SpinsTheLessTheMoreOftenItWasInVain) {
  const auto links = paired_links(2);
  Mesh mesh(links[0], {0, 1}, 0, true);
  const auto passed_up = [&mesh] {
    int count = 0;
    while (!mesh.may_spin()) ++count;
    return count;
  };
  for (const int expected : {0, 1, 3, 7, 15, 31, 63, 127, 255, 255}) {
    EXPECT_EQ(passed_up(), expected);
    mesh.has_spun(true);
  }
  EXPECT_EQ(passed_up(), 255);
  mesh.has_spun(false);
  EXPECT_EQ(passed_up(), 0);
  EXPECT_FALSE(Mesh(links[1], {0, 1}, 0, false).may_spin());
}

TEST(Mesh, EveryCallAfterAnAbortThrowsItsCause) {
  const auto links = paired_links(2);
  Mesh mesh(links[0], {0, 1}, 0, false);
  const Status why{Code::aborted, "rank 1 is gone"};
  mesh.abort(why);
  mesh.abort({Code::aborted, "a consequence"});
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      mesh.begin_call({});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), why);
    }
  }
}

}  // namespace
}  // namespace hora::tcp
