// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/traffic.h"

#include "test/support/paired_links.h"
#include "test/support/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <numeric>

namespace hora::tcp {
namespace {

using testing::HasSubstr;

using Meshes = std::vector<std::unique_ptr<Mesh>>;

Meshes meshes_of(const std::vector<std::shared_ptr<Links>>& links, bool spins = false) {
  std::vector<int> all(links.size());
  std::iota(all.begin(), all.end(), 0);
  Meshes meshes;
  for (const auto& one : links) meshes.push_back(std::make_unique<Mesh>(one, all, 0, spins));
  return meshes;
}

Pieces pieces_of(std::vector<std::byte>& bytes) { return {std::span(bytes)}; }

/// Runs two ranks with a traffic each; returns the error of each.
std::vector<std::string> complaints(const Meshes& meshes,
                                    const std::function<void(int rank, Traffic& traffic)>& rank_main) {
  std::vector<std::string> texts(2);
  run_ranks(2, [&](int rank) {
    try {
      const std::vector<int> peer{1 - rank};
      Traffic traffic(*meshes[static_cast<std::size_t>(rank)], peer);
      rank_main(rank, traffic);
      traffic.run();
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  return texts;
}

class Streams : public testing::TestWithParam<int> {};

TEST_P(Streams, MessagesOfAnyLengthComeInOrderOverAnyNumberOfSockets) {
  const auto meshes = meshes_of(paired_links(2, GetParam()), true);
  const std::vector<std::size_t> lengths{0, 1, 4095, 4096, 4097, 3'000'000, 7, 0, 200'000};
  const auto texts = complaints(meshes, [&](int rank, Traffic& traffic) {
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> got;
    std::vector<std::size_t> come;
    std::vector<std::size_t> gone;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      sent.emplace_back(lengths[i], static_cast<std::byte>(i + 1));
      got.emplace_back(lengths[i]);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      traffic.send(1 - rank, Purpose::row, pieces_of(sent[i]), [&gone, i] { gone.push_back(i); });
      traffic.receive(1 - rank, Purpose::row, pieces_of(got[i]), [&come, i] { come.push_back(i); });
    }
    traffic.run();
    EXPECT_EQ(sent, got);
    std::vector<std::size_t> in_order(lengths.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    EXPECT_EQ(come, in_order);
    EXPECT_EQ(gone, in_order);
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

TEST_P(Streams, WhatANoticeQueuesFlowsInTheSameRun) {
  const auto meshes = meshes_of(paired_links(2, GetParam()));
  const auto texts = complaints(meshes, [&](int rank, Traffic& traffic) {
    int count = 0;
    std::vector<std::byte> bytes(4);
    std::function<void()> more = [&] {
      if (++count == 100) return;
      if (rank == 0) traffic.send(1, Purpose::copy, pieces_of(bytes));
      traffic.receive(1 - rank, Purpose::copy, pieces_of(bytes), more);
      if (rank == 1) traffic.send(0, Purpose::copy, pieces_of(bytes));
    };
    more();
    traffic.run();
    EXPECT_EQ(count, 100);
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

TEST_P(Streams, ManyPiecesAreOneMessage) {
  const auto meshes = meshes_of(paired_links(2, GetParam()));
  const auto texts = complaints(meshes, [&](int rank, Traffic& traffic) {
    std::vector<int> sent(1000);
    std::iota(sent.begin(), sent.end(), rank);
    std::vector<int> got(1000);
    Pieces out;
    for (const int& value : sent) add_piece(out, &value, sizeof value);
    Pieces in;
    add_piece(in, got.data(), 1);
    add_piece(in, reinterpret_cast<std::byte*>(got.data()) + 1, 4 * 1000 - 1);
    traffic.send(1 - rank, Purpose::row, out);
    traffic.receive(1 - rank, Purpose::row, in);
    traffic.run();
    EXPECT_EQ(got.back() - got.front(), 999);
    EXPECT_EQ(got.front(), 1 - rank);
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

INSTANTIATE_TEST_SUITE_P(Traffic, Streams, testing::Values(1, 2, 4));

// Small ones are received together with their header, large ones after it.
TEST(Traffic, RanksThatMeanDifferentLengthsNoticeItBeforeTheirMemoryIsTouched) {
  for (const std::size_t length : {4, 100'000}) {
    const auto meshes = meshes_of(paired_links(2));
    const auto texts = complaints(meshes, [&](int rank, Traffic& traffic) {
      std::vector<std::byte> sent(length + static_cast<std::size_t>(rank), std::byte{7});
      std::vector<std::byte> got(length + static_cast<std::size_t>(rank));
      traffic.send(1 - rank, Purpose::input, pieces_of(sent));
      traffic.receive(1 - rank, Purpose::input, pieces_of(got));
      try {
        traffic.run();
      } catch (const Error&) {
        EXPECT_EQ(std::count(got.begin(), got.end(), std::byte{7}), 0);
        throw;
      }
    });
    EXPECT_THAT(texts[0], HasSubstr("ranks 0 and 1 make different calls"));
    EXPECT_THAT(texts[0], HasSubstr("expects input of " + std::to_string(length) + " bytes"));
    EXPECT_THAT(texts[0], HasSubstr("sends input of " + std::to_string(length + 1) + " bytes"));
  }
}

TEST(Traffic, RanksThatMeanDifferentThingsOfTheSameLengthNoticeIt) {
  const auto meshes = meshes_of(paired_links(2));
  const auto texts = complaints(meshes, [](int rank, Traffic& traffic) {
    traffic.send(1 - rank, rank == 0 ? Purpose::copy : Purpose::row, {});
    traffic.receive(1 - rank, rank == 0 ? Purpose::copy : Purpose::row, {});
  });
  EXPECT_THAT(texts[1], HasSubstr("expects row of 0 bytes"));
  EXPECT_THAT(texts[1], HasSubstr("sends copy of 0 bytes"));
}

TEST(Traffic, RanksThatMeanDifferentMeshesOfTheSameLinksNoticeIt) {
  const auto links = paired_links(2);
  const auto view = meshes_of(links);
  const std::vector<int> both{0, 1};
  Meshes meshes;
  meshes.push_back(view[0]->split(both, 1));
  meshes.push_back(view[1]->split(both, 2));
  const auto texts = complaints(meshes, [](int rank, Traffic& traffic) {
    traffic.send(1 - rank, Purpose::block, {});
    traffic.receive(1 - rank, Purpose::block, {});
  });
  EXPECT_THAT(texts[0], HasSubstr("ranks 0 and 1 make different calls"));
  EXPECT_THAT(texts[1], HasSubstr("ranks 1 and 0 make different calls"));
}

// Bytes that an unknown process, or a broken rank, may send.
TEST(Traffic, NonsenseIsNoHeader) {
  const auto links = paired_links(2);
  const auto meshes = meshes_of(links);
  const std::vector<int> peer{1};
  Traffic traffic(*meshes[0], peer);
  const std::vector<int> first{0};
  links[1]->require(first);
  const std::vector<std::byte> nonsense(1000, std::byte{0xFF});
  ASSERT_EQ(::send(links[1]->lines(0)[0]->socket.fd(), nonsense.data(), nonsense.size(), 0), 1000);
  std::vector<std::byte> got(300);
  traffic.receive(1, Purpose::input, pieces_of(got));
  try {
    traffic.run();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::internal);
    EXPECT_THAT(error.what(), HasSubstr("from rank 1: what came is not what a rank of this job has sent"));
  }
}

}  // namespace
}  // namespace hora::tcp
