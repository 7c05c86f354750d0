// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/mesh.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>

namespace hora {
namespace {

std::pair<std::unique_ptr<Mesh>, std::unique_ptr<Mesh>> pair_of_meshes() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Mesh::Sockets left(2);
  Mesh::Sockets right(2);
  left[1] = std::make_shared<const Descriptor>(ends[0]);
  right[0] = std::make_shared<const Descriptor>(ends[1]);
  return {std::make_unique<Mesh>(0, std::move(left)), std::make_unique<Mesh>(1, std::move(right))};
}

TEST(Mesh, RanksThatMeanDifferentExchangesNoticeIt) {
  const auto [left, right] = pair_of_meshes();
  auto other = std::async(std::launch::async, [&right = *right] {
    std::byte four[4]{};
    std::vector<Parcel> out(2);
    std::vector<Parcel> in(2);
    out[0].add(four, 4);
    in[0].add(four, 4);
    EXPECT_THROW(right.exchange(out, in), Error);
  });
  std::byte eight[8]{};
  std::vector<Parcel> out(2);
  std::vector<Parcel> in(2);
  out[1].add(eight, 8);
  in[1].add(eight, 8);
  EXPECT_THROW(left->exchange(out, in), Error);
  other.get();
}

TEST(Mesh, RanksThatMeanDifferentMeshesOfTheSameSocketsNoticeIt) {
  const auto [left, right] = pair_of_meshes();
  const int both[] = {0, 1};
  auto other = std::async(std::launch::async, [&right = *right, &both] {
    std::vector<Parcel> out(2);
    std::vector<Parcel> in(2);
    EXPECT_THROW(right.split(1, both, 1)->exchange(out, in), Error);
  });
  std::vector<Parcel> out(2);
  std::vector<Parcel> in(2);
  EXPECT_THROW(left->split(0, both, 2)->exchange(out, in), Error);
  other.get();
}

}  // namespace
}  // namespace hora
