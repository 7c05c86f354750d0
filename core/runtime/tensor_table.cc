// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/tensor_table.h"

#include "core/base/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace hora {
namespace {

[[noreturn]] void refuse_name(const std::string& name) {
  throw Error(Code::invalid_argument,
              fmt::format("'{}' is under way already: wait for it, or give this one another name", name));
}

/// The loan, of which the table keeps the parts that it reads.
Loan handed_out(Loan& loan) {
  Loan stays{.entry = loan.entry, .submitted = loan.submitted};
  return std::exchange(loan, std::move(stays));
}

}  // namespace

Status about(const std::string& name, const Status& status) {
  if (status.message.starts_with('\'')) return status;
  return {status.code, fmt::format("'{}': {}", name, status.message)};
}

Status process_set_was_removed(int number) {
  return {Code::aborted, fmt::format("process set {} was removed", number)};
}

Record to_record(const Loan& loan, const std::string& name, int group) {
  Record record;
  record.name = name;
  record.operation = loan.entry->operation;
  record.dtype = loan.entry->dtype;
  record.shape = loan.entry->shape;
  record.submitted = loan.submitted;
  record.process_set = group;
  return record;
}

void TensorTable::add_group(int group) {
  const std::lock_guard lock(mutex_);
  groups_.try_emplace(group);
}

Handle TensorTable::put(Entry&& entry, Asked&& asked, TimePoint now) {
  const std::lock_guard lock(mutex_);
  open(asked);
  return insert(std::move(entry), std::move(asked), now);
}

std::vector<Handle> TensorTable::put(std::vector<Entry> entries, std::vector<Asked> asked, TimePoint now) {
  const std::lock_guard lock(mutex_);
  std::size_t opened = 0;
  try {
    for (; opened < asked.size(); ++opened) open(asked[opened]);
  } catch (...) {
    while (opened-- > 0) free(asked[opened].group, asked[opened].request.name, asked[opened].memory);
    throw;
  }
  std::vector<Handle> handles;
  handles.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i)
    handles.push_back(insert(std::move(entries[i]), std::move(asked[i]), now));
  return handles;
}

/// Takes the name and the memory, or throws and takes neither.
void TensorTable::open(const Asked& asked) {
  const std::string& name = asked.request.name;
  if (closed_) throw Error(about(name, *closed_));
  const auto group = groups_.find(asked.group);
  if (group == groups_.end() || group->second.left || group->second.removed)
    throw Error(about(name, process_set_was_removed(asked.group)));
  auto& loans = group->second.loans;
  const auto [loan, is_new] = loans.try_emplace(name);
  if (!is_new) refuse_name(name);
  try {
    lent_->lend(asked.memory, loan->first);
  } catch (...) {
    loans.erase(loan);
    throw;
  }
}

Handle TensorTable::insert(Entry&& entry, Asked&& asked, TimePoint now) {
  Waiting waiting{std::move(asked.request), asked.ready.event};
  auto state = std::make_shared<Handle::State>(helper_);
  Group& group = groups_.at(asked.group);
  group.left = waiting.request.operation == Operation::remove_process_set && asked.group != kWorld;
  group.loans.at(waiting.request.name) = Loan{std::make_shared<Entry>(std::move(entry)),
                                              asked.group,
                                              state,
                                              now,
                                              std::move(asked.ready),
                                              true,
                                              asked.memory,
                                              std::move(asked.run)};
  if (waiting.is_on_host()) ++requests_on_host_;
  requests_[asked.group].push_back(std::move(waiting));
  return Handle(std::move(state));
}

void TensorTable::free(int group, const std::string& name, const MemoryUse& memory) {
  Group& owner = groups_.at(group);
  const auto loan = owner.loans.find(name);
  lent_->give_back(memory, loan->first);
  owner.loans.erase(loan);
  if (owner.removed && owner.loans.empty()) groups_.erase(group);
}

// Without the mutex it asks the GPU. Meanwhile others only put requests, which come behind those that are put
// back.
std::map<int, std::vector<Request>> TensorTable::take_requests(TakeOnGpu on_gpu) {
  const bool only_computed = takes_only_computed();
  WaitingByGroup waiting;
  {
    const std::lock_guard lock(mutex_);
    if (requests_on_host_ > 0) on_gpu = TakeOnGpu::all;
    if (on_gpu == TakeOnGpu::none) return {};
    waiting = std::exchange(requests_, {});
    requests_on_host_ = 0;
  }
  std::map<int, std::vector<Request>> taken;
  for (auto& [group, requests] : waiting) {
    auto end = requests.end();
    if (only_computed) {
      end = end_of_computed(requests);
    } else if (on_gpu == TakeOnGpu::ready) {
      end = end_of_ready(requests);
    }
    if (end == requests.begin()) continue;
    auto& of_group = taken[group];
    of_group.reserve(static_cast<std::size_t>(end - requests.begin()));
    for (auto one = requests.begin(); one != end; ++one) of_group.push_back(std::move(one->request));
    requests.erase(requests.begin(), end);
  }
  if (only_computed || on_gpu == TakeOnGpu::ready) put_back(std::move(waiting));
  return taken;
}

TensorTable::Requests::iterator TensorTable::end_of_ready(Requests& requests) {
  return std::find_if_not(requests.begin() + 1, requests.end(),
                          [](const Waiting& one) { return one.is_computed(); });
}

/// Moves those that are not computed behind the others. A set is not removed while others of it wait.
TensorTable::Requests::iterator TensorTable::end_of_computed(Requests& requests) {
  const auto end = std::stable_partition(requests.begin(), requests.end(),
                                         [](const Waiting& one) { return one.is_computed(); });
  const bool removes =
      end != requests.begin() && std::prev(end)->request.operation == Operation::remove_process_set;
  if (end == requests.end() || !removes) return end;
  std::rotate(std::prev(end), end, requests.end());
  return std::prev(end);
}

void TensorTable::put_back(WaitingByGroup left) {
  const std::lock_guard lock(mutex_);
  for (auto& [group, requests] : left) {
    if (requests.empty()) continue;
    requests_on_host_ += static_cast<std::size_t>(
        std::count_if(requests.begin(), requests.end(), [](const Waiting& one) { return one.is_on_host(); }));
    auto& now = requests_[group];
    now.insert(now.begin(), std::make_move_iterator(requests.begin()),
               std::make_move_iterator(requests.end()));
  }
}

bool TensorTable::has_requests() const {
  const std::lock_guard lock(mutex_);
  return !requests_.empty();
}

bool TensorTable::is_closed() const {
  const std::lock_guard lock(mutex_);
  return closed_.has_value();
}

std::optional<Loan> TensorTable::take(int group, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto owner = groups_.find(group);
  if (owner == groups_.end()) return std::nullopt;
  auto& loans = owner->second.loans;
  const auto loan = loans.find(name);
  if (loan == loans.end() || !loan->second.handle) return std::nullopt;
  return handed_out(loan->second);
}

std::vector<Record> TensorTable::under_way() const {
  std::vector<Record> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [group, owner] : groups_) {
      for (const auto& [name, loan] : owner.loans) all.push_back(to_record(loan, name, group));
    }
  }
  std::ranges::sort(all, {}, &Record::submitted);
  return all;
}

void TensorTable::launch(Loan& loan, Result result, std::shared_ptr<Event> event) {
  launched_.add(*loan.entry, loan.group);
  release(loan);
  loan.handle->launch(std::move(result), std::move(event));
}

void TensorTable::release(Loan& loan) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(loan.named, false)) free(loan.group, loan.entry->name, loan.memory);
}

std::string TensorTable::first_aborted() const {
  const std::lock_guard lock(mutex_);
  return first_aborted_;
}

void TensorTable::finish(Loan loan, Result result, bool keeps) {
  release(loan);
  if (result.status.code == Code::aborted) {
    const std::lock_guard lock(mutex_);
    if (first_aborted_.empty()) first_aborted_ = result.status.message;
  }
  if (loan.entry->done) loan.entry->done(result);
  if (keeps) keep_for_ever(loan.entry);
  loan.entry.reset();
  loan.handle->set(std::move(result));
}

void TensorTable::give_back(std::vector<Loan> loans, const Status& status) {
  for (auto& loan : loans) {
    const Status about_it = about(loan.entry->name, status);
    finish(std::move(loan), {about_it, {}, true});
  }
}

void TensorTable::hand_out(LoansByName& loans, std::vector<Loan>& to) {
  for (auto& [name, loan] : loans) {
    if (loan.handle) to.push_back(handed_out(loan));
  }
}

std::vector<Loan> TensorTable::close(const Status& status) {
  std::vector<Loan> all;
  const std::lock_guard lock(mutex_);
  if (!closed_) closed_ = status;
  requests_.clear();
  requests_on_host_ = 0;
  for (auto& [group, owner] : groups_) hand_out(owner.loans, all);
  return all;
}

std::vector<Loan> TensorTable::remove_group(int group) {
  std::vector<Loan> all;
  const std::lock_guard lock(mutex_);
  if (const auto waiting = requests_.extract(group)) {
    requests_on_host_ -=
        static_cast<std::size_t>(std::count_if(waiting.mapped().begin(), waiting.mapped().end(),
                                               [](const Waiting& one) { return one.is_on_host(); }));
  }
  Group& owner = groups_.at(group);
  owner.removed = true;
  hand_out(owner.loans, all);
  if (owner.loans.empty()) groups_.erase(group);
  return all;
}

}  // namespace hora
