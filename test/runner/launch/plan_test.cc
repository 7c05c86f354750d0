// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/plan.h"

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

HostPlan some_plan() {
  HostPlan plan;
  plan.command = {"/bin/train", "", "--epochs 3"};
  plan.environment = {"PATH=/bin", "EMPTY="};
  plan.directory = "/work";
  plan.horovod_folder = "/hora";
  plan.network = "eth0";
  plan.secret.fill(7);
  plan.placements = place({{"a", 1}, {"b", 2}}, 3, false)[1].placements;
  plan.bind_to = BindTo::numa;
  plan.alone = false;
  plan.elastic = true;
  plan.input = InputKind::terminal;
  plan.reader = 2;
  plan.window = {30, 100};
  return plan;
}

TEST(HostPlan, TravelsAsBytes) {
  const HostPlan plan = some_plan();
  const HostPlan read = decode_plan(encode(plan));
  EXPECT_EQ(read.command, plan.command);
  EXPECT_EQ(read.environment, plan.environment);
  EXPECT_EQ(read.directory, plan.directory);
  EXPECT_EQ(read.horovod_folder, plan.horovod_folder);
  EXPECT_EQ(read.network, plan.network);
  EXPECT_EQ(read.secret, plan.secret);
  EXPECT_EQ(read.placements, plan.placements);
  EXPECT_EQ(read.bind_to, BindTo::numa);
  EXPECT_FALSE(read.alone);
  EXPECT_FALSE(read.terminal);
  EXPECT_TRUE(read.elastic);
  EXPECT_EQ(read.input, InputKind::terminal);
  EXPECT_EQ(read.reader, 2);
  EXPECT_EQ(read.window, (WindowSize{30, 100}));
}

TEST(HostPlan, IsRefusedWhenAnyOfItIsMissing) {
  const Bytes bytes = encode(some_plan());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(static_cast<void>(decode_plan(std::span(bytes).first(length))), Error) << length;
}

TEST(HostPlan, IsRefusedWithoutAProgramOrRanks) {
  HostPlan plan = some_plan();
  plan.command.clear();
  EXPECT_THROW(static_cast<void>(decode_plan(encode(plan))), Error);
  plan = some_plan();
  plan.placements.clear();
  plan.elastic = true;
  EXPECT_NO_THROW(static_cast<void>(decode_plan(encode(plan)))) << "its ranks come later";
  plan.elastic = false;
  EXPECT_THROW(static_cast<void>(decode_plan(encode(plan))), Error);
  plan = some_plan();
  plan.placements.front().rank = 3;
  EXPECT_THROW(static_cast<void>(decode_plan(encode(plan))), Error) << "of three";
}

TEST(Ready, TravelsAsBytes) {
  const Ready read =
      decode_ready(encode(Ready{{"10.0.0.1", "fd00::1"}, 4000, 4001, {"cpus 0 (1 core)"}, "few cores"}));
  EXPECT_EQ(read.bindings, std::vector<std::string>{"cpus 0 (1 core)"});
  EXPECT_EQ(read.unbound, "few cores");
  EXPECT_EQ(read.addresses, (std::vector<std::string>{"10.0.0.1", "fd00::1"}));
  EXPECT_EQ(read.port, 4000);
  EXPECT_EQ(read.master_port, 4001);
}

TEST(RendezvousPoint, NamesAllAddressesAndTheHostLast) {
  const Ready first{{"10.0.0.1", "fd00::1"}, 4000, 4001, {}, {}};
  const RendezvousPoint rendezvous = decode_rendezvous(encode(rendezvous_at(first, "me@a")));
  EXPECT_EQ(rendezvous.coordinator, "10.0.0.1:4000,[fd00::1]:4000,a:4000");
  EXPECT_EQ(rendezvous.master_address, "10.0.0.1");
  EXPECT_EQ(rendezvous.master_port, 4001);
  EXPECT_EQ(rendezvous_at(first, "fd00::1").coordinator, "10.0.0.1:4000,[fd00::1]:4000");
  EXPECT_EQ(rendezvous_at({{"127.0.0.1"}, 4000, 0, {}, {}}, "").coordinator, "127.0.0.1:4000");
}

}  // namespace
}  // namespace hora::hrun
