// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/local_group.h"

#include "core/backend/local/control_queues.h"
#include "core/backend/local/message_boxes.h"
#include "core/backend/local/rendezvous.h"
#include "core/base/machine.h"
#include "core/device/host_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <random>

namespace hora::local {

struct LocalGroup::Parts {
  explicit Parts(int size)
      : queues(std::make_shared<ControlQueues>(size)),
        rendezvous(std::make_shared<Rendezvous>(size)),
        messages(std::make_shared<MessageBoxes>(size)),
        votes(make_votes(size)) {}

  std::string job = fmt::format("{:08x}", std::random_device{}());
  std::shared_ptr<ControlQueues> queues;
  std::shared_ptr<Rendezvous> rendezvous;
  std::shared_ptr<MessageBoxes> messages;
  std::vector<std::unique_ptr<ReadinessVote>> votes;  // of those that have not joined
};

LocalGroup::LocalGroup(int size) : parts_(std::make_shared<Parts>(size)) {}
LocalGroup::~LocalGroup() = default;

World LocalGroup::join(int rank) {
  World world;
  const int size = parts_->queues->size();
  world.membership.rank = world.membership.local_rank = rank;
  world.membership.size = world.membership.local_size = size;
  world.job = parts_->job;
  for (int member = 0; member < size; ++member) {
    world.members.push_back({member, ::getpid(), host_name(), {}});
  }
  world.control = make_local_control(parts_->queues, rank);
  world.lane = {make_host_stream(), make_local_collective(parts_->rendezvous, rank)};
  world.vote = std::move(parts_->votes[static_cast<std::size_t>(rank)]);
  world.messenger = make_local_messenger(parts_->messages, rank);
  return world;
}

void LocalGroup::lose(int rank, const std::string& how) {
  parts_->queues->lose(rank, {Code::aborted, fmt::format("rank {} is gone: {}", rank, how)});
}

}  // namespace hora::local
