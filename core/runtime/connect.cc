// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/connect.h"

#include "core/backend/local/local_group.h"
#include "core/backend/tcp/control/tcp_control.h"
#include "core/backend/tcp/messages/tcp_messenger.h"
#include "core/device/host_stream.h"
#include "core/join/agree.h"
#include "core/join/host_ranks.h"
#include "core/join/job_id.h"
#include "core/runtime/backends.h"

#include <utility>

namespace hora {
namespace {

/// A job of one rank.
World alone(const Membership& membership, const Config& config) {
  World world = local::LocalGroup(1).join(0);
  world.membership = membership;
  world.job = job_id(membership, config);
  return world;
}

}  // namespace

World connect(const Membership& membership, Config& config, TimePoint deadline,
              std::shared_ptr<HostMemory> former) {
  static_cast<void>(backend_of(config));  // an unknown name is an error before this rank waits for others
  World world = membership.size == 1 ? alone(membership, config)
                                     : tcp::connect_tcp_control(membership, config, deadline);
  world.host_memory = std::move(former);
  if (membership.size == 1) return world;
  world.membership.listener = nullptr;  // all have come
  world.membership = settle_host_ranks(std::move(world.membership), world.members);
  try {
    agree(config, *world.control, world.members, deadline);
    // Before what may take until the deadline on some ranks: nobody waits here for one that is there.
    world.messenger = tcp::connect_tcp_messenger(world, config, deadline);
    world.lane = {make_host_stream(), backend_of(config)(world, config, deadline)};
  } catch (const Error& error) {
    world.control->fail(error.status());  // the others wait for this rank
    throw;
  } catch (const std::exception& error) {  // no more threads, no more memory
    world.control->fail({Code::unavailable, error.what()});
    throw;
  }
  return world;
}

}  // namespace hora
