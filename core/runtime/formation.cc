// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/formation.h"

#include "core/base/status_of.h"
#include "core/base/thread.h"
#include "core/comm/unreachable_pairs.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hora {

Formation::Formation(Generation generation, Membership membership, const Connect& connect, TimePoint deadline,
                     std::shared_ptr<HostMemory> former, std::function<void()> notice) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Error(Code::unavailable, fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)));
  news_ = Descriptor(ends[0]);
  membership.news = std::make_shared<const Descriptor>(ends[1]);
  generation_ = std::move(generation);
  thread_ = start_thread("connects the members of a generation",
                         [this, membership = std::move(membership), connect, deadline,
                          former = std::move(former), notice = std::move(notice)] {
                           Outcome outcome;
                           World world;
                           try {
                             world = connect(membership, generation_->config, deadline, former);
                           } catch (const UnreachableError& failure) {
                             outcome = {failure.status(), failure.ranks()};
                           } catch (const std::exception& failure) {
                             outcome.status = status_of(failure);
                           }
                           {
                             const std::lock_guard lock(mutex_);
                             generation_->world = std::move(world);
                             news_ = Descriptor();  // from here on nobody waits for news
                             outcome_ = std::move(outcome);
                           }
                           notice();
                         });
}

Formation::~Formation() {
  thread_.join();
  if (generation_ && generation_->world.control)
    generation_->world.control->fail({Code::generation_ended, "the generation has ended before it began"});
}

void Formation::cancel(const RankEnd& end) {
  const Bytes message = encode(end);
  const std::lock_guard lock(mutex_);
  ::send(news_.fd(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::optional<Formation::Outcome> Formation::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

Generation Formation::take() {
  const std::lock_guard lock(mutex_);
  Generation generation = *std::move(generation_);
  generation_.reset();
  return generation;
}

}  // namespace hora
