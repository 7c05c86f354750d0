// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/gpu_plane.h"

#include "core/backend/local/local_group.h"
#include "test/support/threads.h"

#include <gmock/gmock.h>

#include <thread>

namespace hora {
namespace {

GpuIdentity identity(const std::string& machine, int gpu, int nccl = 22809) {
  GpuIdentity identity{machine, {}, static_cast<std::uint64_t>(gpu), gpu, nccl, {}};
  identity.gpu[0] = std::byte(gpu);
  identity.gpu[1] = std::byte(machine.back());
  return identity;
}

std::string refusal(const std::string& wish, const std::vector<GpuIdentity>& identities) {
  try {
    static_cast<void>(choose_gpu_plane(wish, identities, {4, 6}));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    return error.what();
  }
  return {};
}

TEST(GpuPlane, IsNcclWhereAllHaveTheSameAndAGpuEach) {
  const std::vector<GpuIdentity> identities{identity("a", 0), identity("a", 1)};
  for (const char* wish : {"auto", "nccl"}) {
    const GpuChoice choice = choose_gpu_plane(wish, identities, {0, 1});
    EXPECT_EQ(choice.plane, GpuPlane::nccl);
    EXPECT_EQ(choice.note, "");
  }
  EXPECT_EQ(choose_gpu_plane("staged", identities, {0, 1}).plane, GpuPlane::staged);
}

TEST(GpuPlane, GoesByWayOfTheHostAndSaysWhyWhereNcclCannotBeUsed) {
  const std::vector<GpuIdentity> shared{identity("a", 0), identity("a", 0)};
  const GpuChoice choice = choose_gpu_plane("auto", shared, {4, 6});
  EXPECT_EQ(choice.plane, GpuPlane::staged);
  EXPECT_EQ(
      choice.note,
      "tensors on GPUs go by way of the host's memory (staged), as ranks 4 and 6 share one GPU (cuda:0 and "
      "cuda:0 of theirs), which NCCL does not let them: start one rank for each GPU, and let each use its "
      "own "
      "(cuda:<local rank>)");
  EXPECT_THAT(refusal("nccl", shared),
              testing::AllOf(testing::StartsWith("HORA_GPU_OPERATIONS=nccl, but ranks 4 and 6"),
                             testing::EndsWith("by way of the host's memory")));
}

TEST(GpuPlane, GoesByWayOfTheHostWhereRanksUsePartsOfOneGpu) {
  std::vector<GpuIdentity> identities{identity("a", 0), identity("a", 1)};
  identities[1].location = identities[0].location;
  const GpuChoice choice = choose_gpu_plane("auto", identities, {4, 6});
  EXPECT_EQ(choice.plane, GpuPlane::staged);
  EXPECT_THAT(choice.note, testing::HasSubstr("ranks 4 and 6 use two parts of one GPU (MIG instances)"));
  EXPECT_THAT(refusal("nccl", identities), testing::HasSubstr("switch MIG off"));
  identities[1].machine = "b";
  EXPECT_EQ(choose_gpu_plane("auto", identities, {4, 6}).plane, GpuPlane::nccl);
}

TEST(GpuPlane, NamesTheRankWithoutNcclAndThoseWithDifferentOnes) {
  std::vector<GpuIdentity> identities{identity("a", 0), identity("b", 0, 0)};
  identities[1].why = "libnccl.so.2: cannot open";
  EXPECT_THAT(refusal("nccl", identities),
              testing::HasSubstr("rank 6 has no NCCL: libnccl.so.2: cannot open"));
  identities[1] = identity("b", 0, 23007);
  EXPECT_THAT(refusal("hierarchical", identities),
              testing::HasSubstr("rank 4 has NCCL 2.28.9 and rank 6 NCCL 2.30.7"));
}

TEST(GpuPlane, IsNoneWhereARankHasNoGpu) {
  std::vector<GpuIdentity> identities{identity("a", 0), identity("b", -1, 0)};
  identities[1].why = "no driver";
  for (const char* wish : {"auto", "staged", "nccl"})
    EXPECT_EQ(refusal(wish, identities), "rank 6 has no GPU: no driver");
}

TEST(GpuPlane, LeavesNothingToNcclThatIsToBeEncryptedBetweenHosts) {
  const std::vector<GpuIdentity> even{identity("a", 0), identity("b", 0), identity("a", 1), identity("b", 1)};
  const std::vector<int> ranks{0, 1, 2, 3};
  EXPECT_EQ(choose_gpu_plane("auto", even, ranks, true).plane, GpuPlane::hierarchical);
  const GpuChoice single = choose_gpu_plane("auto", std::span(even).first(2), {0, 1}, true);
  EXPECT_EQ(single.plane, GpuPlane::staged);
  EXPECT_THAT(single.note, testing::HasSubstr("HORA_ENCRYPTION=all"));
  EXPECT_EQ(choose_gpu_plane("nccl", std::vector{identity("a", 0), identity("a", 1)}, {0, 1}, true).plane,
            GpuPlane::nccl);
  try {
    static_cast<void>(choose_gpu_plane("nccl", even, ranks, true));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("use auto, hierarchical or staged"));
  }
}

TEST(GpuPlane, HasTwoLevelsOnSeveralHostsWithAsManyRanksEach) {
  const std::vector<GpuIdentity> identities{identity("a", 0), identity("b", 0), identity("a", 1),
                                            identity("b", 1)};
  EXPECT_EQ(choose_gpu_plane("hierarchical", identities, {0, 1, 2, 3}).plane, GpuPlane::hierarchical);
  EXPECT_EQ(machines_of(identities), (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
  const GpuChoice uneven = choose_gpu_plane("hierarchical", std::span(identities).first(3), {0, 1, 2});
  EXPECT_EQ(uneven.plane, GpuPlane::staged);
  EXPECT_THAT(uneven.note, testing::HasSubstr("needs as many ranks on each host"));
  const std::vector<GpuIdentity> one_machine{identity("a", 0), identity("a", 1)};
  EXPECT_EQ(choose_gpu_plane("hierarchical", one_machine, {0, 1}).plane, GpuPlane::nccl);
}

TEST(GpuPlane, IdentitiesComeToAllMembers) {
  local::LocalGroup group(2);
  World worlds[] = {group.join(0), group.join(1)};
  GpuIdentity identities[] = {identity("a", 0), identity("b", 3, 0)};
  identities[1].why = "none";
  std::vector<GpuIdentity> seen[2];
  std::thread other([&] { seen[1] = exchange_identities(*worlds[1].lane.collective, 1, 2, identities[1]); });
  seen[0] = exchange_identities(*worlds[0].lane.collective, 0, 2, identities[0]);
  other.join();
  EXPECT_EQ(seen[0][0], identities[0]);
  EXPECT_EQ(seen[0][1], identities[1]);
  EXPECT_EQ(seen[1], seen[0]);
}

TEST(GpuPlane, NcclConnectsAllOrThoseOfEachMachine) {
  const std::vector<GpuIdentity> identities{identity("a", 0), identity("b", 0), identity("a", 1),
                                            identity("b", 1)};
  EXPECT_EQ(connected_by_nccl(GpuPlane::nccl, identities, 2), (Hosts{{{0, 1, 2, 3}}, 0, 2}));
  EXPECT_EQ(connected_by_nccl(GpuPlane::hierarchical, identities, 3), (Hosts{{{0, 2}, {1, 3}}, 1, 1}));
}

/// The results of three members that share ids, of whom some fail to make one.
std::vector<SharedId> shared_ids(const std::vector<std::vector<int>>& parts,
                                 const std::vector<int>& failing) {
  local::LocalGroup group(3);
  std::vector<SharedId> shared(3);
  run_ranks(3, [&](int place) {
    const World world = group.join(place);
    shared[static_cast<std::size_t>(place)] = share_id(*world.lane.collective, hosts_of(parts, place), [&] {
      if (std::find(failing.begin(), failing.end(), place) != failing.end())
        throw Error(Code::unavailable, "no network at " + std::to_string(place));
      NcclId id{};
      id[127] = std::byte(7 + place);
      return id;
    });
  });
  return shared;
}

TEST(GpuPlane, AnIdComesFromTheFirstMemberOfEachPart) {
  const auto last_bytes = [](const std::vector<SharedId>& shared) {
    std::vector<int> bytes;
    for (const auto& each : shared) {
      EXPECT_EQ(each.why, "");
      bytes.push_back(static_cast<int>(each.id[127]));
    }
    return bytes;
  };
  EXPECT_EQ(last_bytes(shared_ids({{0, 1, 2}}, {1, 2})), (std::vector{7, 7, 7}));
  EXPECT_EQ(last_bytes(shared_ids({{0, 2}, {1}}, {2})), (std::vector{7, 8, 7}));
}

TEST(GpuPlane, TheFirstReasonWhyThereIsNoIdComesToAllMembers) {
  for (const auto& each : shared_ids({{0}, {1}, {2}}, {1, 2})) {
    EXPECT_EQ(each.why, "no network at 1");
    EXPECT_EQ(each.failed, 1);
  }
}

}  // namespace
}  // namespace hora
