// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/tensor_table.h"

#include <fmt/format.h>

#include <utility>

namespace hora {

Handle TensorTable::put(Entry entry, Request request, TimePoint now) {
  auto state = std::make_shared<Handle::State>();
  const std::lock_guard lock(mutex_);
  if (closed_) throw Error(closed_->code, fmt::format("'{}': {}", request.name, closed_->message));
  const auto [place, fresh] = loans_.try_emplace(request.name);
  if (!fresh) {
    throw Error(
        Code::invalid_argument,
        fmt::format("'{}' is under way already: wait for it, or give this one another name", request.name));
  }
  place->second = {std::move(entry), state, now};
  requests_.push_back(std::move(request));
  return Handle(std::move(state));
}

std::vector<Request> TensorTable::take_requests() {
  const std::lock_guard lock(mutex_);
  return std::exchange(requests_, {});
}

std::optional<Loan> TensorTable::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto place = loans_.find(name);
  if (place == loans_.end() || !place->second.handle) return std::nullopt;
  return std::exchange(place->second, {});
}

void TensorTable::finish(Loan loan, Result result) {
  {
    const std::lock_guard lock(mutex_);
    loans_.erase(loan.entry.name);
  }
  if (loan.entry.done) loan.entry.done(result);
  loan.entry = {};
  loan.handle->set(std::move(result));
}

std::vector<Loan> TensorTable::close(const Status& status) {
  std::vector<Loan> loans;
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = status;
  requests_.clear();
  for (auto& [name, loan] : loans_) {
    if (loan.handle) loans.push_back(std::exchange(loan, {}));
  }
  return loans;
}

}  // namespace hora
