// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/links.h"
#include "core/backend/tcp/data/tcp_collective.h"

#include <numeric>

namespace hora::tcp {
namespace {

/// Connects all ranks to all.
void require_all(Links& links, Control& control) {
  std::vector<int> all(static_cast<std::size_t>(links.ranks()));
  std::iota(all.begin(), all.end(), 0);
  control.on_loss([&links](const Status& why) { links.abort(why); });
  try {
    links.require(all);
  } catch (...) {
    control.on_loss({});
    throw;
  }
  control.on_loss({});
}

}  // namespace

std::unique_ptr<Collective> connect_tcp(const World& world, const Config& config, TimePoint deadline) {
  auto links = make_links(world, config, deadline);
  // A rank that cannot reach another is better known before the first step than in it. Many ranks would pay
  // for that with connections that they do not need.
  if (talks_to_all(world.membership.size)) require_all(*links, *world.control);
  return make_tcp_collective(std::move(links), knobs_from(world, config));
}

}  // namespace hora::tcp
