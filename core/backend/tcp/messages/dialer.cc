// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/dialer.h"

#include "core/comm/unreachable_pairs.h"

#include <algorithm>

namespace hora::tcp {

void Dialer::want(int rank) {
  if (calls_.contains(rank)) return;
  const TimePoint now = Clock::now();
  const Hello hello{Role::message, membership_.rank, membership_.size, rank};
  calls_.emplace(rank,
                 Call{Connector(membership_.secret, hello, places_[static_cast<std::size_t>(rank)], now),
                      now + config_.start_timeout});
}

std::vector<Dialer::Answer> Dialer::serve(TimePoint now) {
  std::vector<Answer> answers;
  for (auto call = calls_.begin(); call != calls_.end();) {
    auto& [rank, found] = *call;
    if (auto connection = found.connector.serve(now)) {
      answers.push_back({rank, std::move(connection), {}});
    } else if (found.connector.hopeless(now) || now >= found.deadline) {
      const UnreachablePair unreachable_pair{members_[static_cast<std::size_t>(membership_.rank)],
                                             members_[static_cast<std::size_t>(rank)],
                                             found.connector.failures()};
      answers.push_back({rank, {}, describe_unreachable({&unreachable_pair, 1})});
    } else {
      ++call;
      continue;
    }
    call = calls_.erase(call);
  }
  return answers;
}

void Dialer::append_to(std::vector<pollfd>& events) const {
  for (const auto& [rank, call] : calls_) call.connector.append_to(events);
}

TimePoint Dialer::next() const {
  TimePoint soonest = TimePoint::max();
  for (const auto& [rank, call] : calls_) soonest = std::min({soonest, call.deadline, call.connector.next()});
  return soonest;
}

}  // namespace hora::tcp
