// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/messages.h"

#include "core/comm/delivery.h"
#include "core/comm/world.h"
#include "core/negotiate/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

std::string title_of(bool sends, int peer, int tag, int process_set) {
  MessageWait wait;
  wait.sends = sends;
  wait.peer = peer;
  wait.tag = tag;
  wait.process_set = process_set;
  return title(wait);
}

/// "a message from rank 3 with tag 7 is float32[2,3]", "... is an object of 120 bytes"
std::string describe(const Envelope& found) {
  return fmt::format("{} is {}", title_of(false, found.source, found.tag, found.process_set),
                     found.object ? fmt::format("an object of {} bytes", content_bytes(found))
                                  : describe(found.dtype, found.shape));
}

/// The content that a receive takes, where the receive says so.
std::string describe(const Message& wanted) {
  if (wanted.object) return "an object";
  return wanted.allocate ? "a tensor" : describe(wanted.dtype, wanted.shape);
}

/// The content of a message, as far as it is known before the message comes.
std::string what_of(const Message& message) {
  const bool sends = message.input != nullptr;
  if (!sends) return describe(message);
  return message.object ? fmt::format("an object of {} bytes", message.shape.front())
                        : describe(message.dtype, message.shape);
}

/// Checked before; 0 where only the message itself tells.
std::size_t bytes_of(const Message& message) {
  return message.allocate ? 0 : elements(message.shape, message.dtype) * size_of(message.dtype);
}

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw Error(Code::invalid_argument, fmt::format("{}: {}", what, why));
}

void check_tag(const std::string& what, int tag, bool any) {
  if (tag >= 0 || (any && tag == kAnyTag)) return;
  refuse(what, fmt::format("tags are 0 or more, not {}", tag));
}

/// `remedy`: what to do about a null pointer.
void check_tensor(const std::string& what, const Message& message, const void* memory, const char* remedy) {
  if (message.shape.size() > kMostDimensions) {
    refuse(what,
           fmt::format("a tensor has at most {} dimensions, not {}", kMostDimensions, message.shape.size()));
  }
  try {
    if (elements(message.shape, message.dtype) > 0 && memory == nullptr)
      throw Error(Code::invalid_argument, fmt::format("its elements are at a null pointer{}", remedy));
  } catch (const Error& error) {
    refuse(what, error.what());
  }
}

/// The memory for the content of a message that has matched.
void* memory_for(const Message& wanted, const Envelope& found) {
  const bool any = static_cast<bool>(wanted.allocate);
  const bool equal = found.dtype == wanted.dtype && found.shape == wanted.shape;
  if (found.object != wanted.object || (!any && !equal)) {
    throw Error(Code::mismatch,
                fmt::format("{}, but the receive that takes it wants {}", describe(found), describe(wanted)));
  }
  if (!any) return wanted.output;
  void* memory = wanted.allocate(found.dtype, found.shape);
  if (memory == nullptr && elements(found.shape, found.dtype) > 0)
    throw Error(Code::invalid_argument,
                fmt::format("{}: `allocate` has returned no memory", describe(found)));
  return memory;
}

}  // namespace

/// A message under way, whose memory is lent, and whom to tell. Ended once.
class Messages::Transit {
 public:
  /// Throws Error(invalid_argument), as LentMemory.
  Transit(bool sends, Message message, const MemoryUse& memory, std::string title,
          std::shared_ptr<LentMemory> lent, std::shared_ptr<Table> table)
      : message_(std::move(message)),
        title_(std::move(title)),
        lent_(std::move(lent)),
        memory_(memory),
        wait_{sends, message_.peer,       message_.tag, what_of(message_), bytes_of(message_),
              {},    message_.process_set},
        began_(Clock::now()),
        table_(std::move(table)) {
    lent_->lend(memory_, title_);
    const std::lock_guard lock(table_->mutex);
    position_ = table_->transits.insert(table_->transits.end(), this);
    if (table_->late_after.count() != 0 && table_->due.load(std::memory_order_relaxed) == TimePoint::max())
      table_->ring_at(began_ + table_->late_after);
  }
  ~Transit() {
    lent_->give_back(memory_, title_);  // if it has not been started
    const std::lock_guard lock(table_->mutex);
    waits_no_more();
    table_->transits.erase(position_);
    if (table_->transits.empty()) table_->empty.notify_all();
  }
  Transit(const Transit&) = delete;
  Transit& operator=(const Transit&) = delete;

  [[nodiscard]] const Message& message() const { return message_; }
  [[nodiscard]] Handle handle() const { return Handle(handle_); }

  /// The other rank has come to it.
  void go_on() {
    const std::lock_guard lock(table_->mutex);
    waits_no_more();
  }

  void* memory_for(const Envelope& found) {
    go_on();
    try {
      return hora::memory_for(message_, found);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(Code::internal,
                  fmt::format("{}: `allocate` has failed: {}", describe(found), error.what()));
    }
  }

  void end(Result result) {
    lent_->give_back(std::exchange(memory_, {}), title_);
    if (message_.done) message_.done(result);
    message_ = {};  // drops what the user's functions hold, before `wait` returns
    handle_->set(std::move(result));
  }

  // Under the table's mutex:
  [[nodiscard]] bool waits() const { return waits_; }
  [[nodiscard]] TimePoint began() const { return began_; }
  void tell() { told_ = true; }
  [[nodiscard]] bool told() const { return told_; }
  [[nodiscard]] MessageWait wait(TimePoint now) const {
    MessageWait wait = wait_;
    wait.since = in_milliseconds(now - began_);
    return wait;
  }

 private:
  void waits_no_more() {
    if (!std::exchange(waits_, false) || !told_) return;
    table_->changed = true;
    table_->ring_at(began_);
  }

  Message message_;
  std::string title_;
  std::shared_ptr<LentMemory> lent_;
  MemoryUse memory_;
  const MessageWait wait_;
  const TimePoint began_;
  std::shared_ptr<Handle::State> handle_ = std::make_shared<Handle::State>();
  std::shared_ptr<Table> table_;
  // Under the table's mutex:
  std::list<Transit*>::iterator position_;
  bool waits_ = true;
  bool told_ = false;
};

void Messages::Table::ring_at(TimePoint time) {
  due.store(time, std::memory_order_relaxed);
  if (ring) ring();
}

Messages::Messages(Messenger& messenger, int rank, const ProcessSets& sets, std::shared_ptr<LentMemory> lent,
                   EndCode end_code)
    : messenger_(messenger), rank_(rank), sets_(sets), lent_(std::move(lent)), end_code_(end_code) {}

/// The ranks of the process set, which has this rank and the peer; of all ranks, none. Refuses what is wrong.
std::vector<int> Messages::members_with(const std::string& what, int peer, int process_set) const {
  if (process_set == kWorld || process_set == kStateMessages) {
    if (peer >= 0 && peer < sets_.size()) return {};
    refuse(what, fmt::format("there is no such rank: ranks are 0 to {}", sets_.size() - 1));
  }
  const auto members = sets_.ranks_of(process_set);
  if (!members) refuse(what, no_such_set(process_set));
  for (const int rank : {rank_, peer}) {
    if (!std::binary_search(members->begin(), members->end(), rank))
      refuse(what,
             fmt::format("rank {} is not in the process set, which has {}", rank, describe_ranks(*members)));
  }
  return *members;
}

Wanted Messages::checked(const std::string& what, int source, int tag, int process_set) const {
  const int peer = source == kAnySource ? rank_ : source;
  Wanted wanted{source, tag, process_set, members_with(what, peer, process_set)};
  check_tag(what, tag, true);
  return wanted;
}

Handle Messages::send(Message message) {
  const std::string what = title_of(true, message.peer, message.tag, message.process_set);
  static_cast<void>(members_with(what, message.peer, message.process_set));
  check_tag(what, message.tag, false);
  check_tensor(what, message, message.input, "");
  const MemoryUse memory = memory_use(message.input, bytes_of(message), nullptr, 0);
  Outgoing outgoing{message.peer,
                    {rank_, message.tag, message.dtype, message.shape, message.object, message.process_set},
                    message.input,
                    {}};
  const auto transit = std::make_shared<Transit>(true, std::move(message), memory, what, lent_, table_);
  outgoing.taken = [transit] { transit->go_on(); };
  outgoing.done = [transit, what, end_code = end_code_](const Status& status) {
    Result result;
    result.status = end_code.of(status);
    if (!status.ok()) result.status.message = fmt::format("{}: {}", what, status.message);
    result.shape = transit->message().shape;
    transit->end(std::move(result));
  };
  messenger_.send(std::move(outgoing));
  return transit->handle();
}

Handle Messages::receive(Message wanted) {
  const std::string what = title_of(false, wanted.peer, wanted.tag, wanted.process_set);
  Incoming incoming{checked(what, wanted.peer, wanted.tag, wanted.process_set), {}, {}};
  if (wanted.allocate && wanted.output != nullptr)
    refuse(what, "it is to go to `output` or to what `allocate` returns, not to both");
  if (!wanted.allocate)
    check_tensor(what, wanted, wanted.output, "; `output` or `allocate` says where they go");
  const MemoryUse memory =
      wanted.allocate ? MemoryUse{} : memory_use(nullptr, 0, wanted.output, bytes_of(wanted));
  const auto transit = std::make_shared<Transit>(false, std::move(wanted), memory, what, lent_, table_);
  incoming.memory_for = [transit](const Envelope& found) { return transit->memory_for(found); };
  incoming.done = [transit, what, end_code = end_code_](const Status& status, const Envelope* found) {
    Result result;
    result.status = end_code.of(status);
    if (!status.ok() && found == nullptr) result.status.message = fmt::format("{}: {}", what, status.message);
    if (found != nullptr) {
      result.source = found->source;
      result.tag = found->tag;
      result.dtype = found->dtype;
      result.shape = found->shape;
    }
    transit->end(std::move(result));
  };
  messenger_.receive(std::move(incoming));
  return transit->handle();
}

std::optional<Envelope> Messages::probe(int source, int tag, int process_set) {
  return messenger_.probe(checked(title_of(false, source, tag, process_set), source, tag, process_set));
}

void Messages::await_end() {
  std::unique_lock lock(table_->mutex);
  table_->empty.wait(lock, [this] { return table_->transits.empty(); });
}

void Messages::watch(std::chrono::milliseconds late_after, std::function<void()> ring) {
  const std::lock_guard lock(table_->mutex);
  table_->late_after = late_after;
  table_->ring = std::move(ring);
}

TimePoint Messages::due() const { return table_->due.load(std::memory_order_relaxed); }

std::optional<std::vector<MessageWait>> Messages::take_late(TimePoint now) {
  std::vector<MessageWait> late;
  const std::lock_guard lock(table_->mutex);
  TimePoint due = TimePoint::max();
  bool changed = std::exchange(table_->changed, false);
  for (Transit* transit : table_->transits) {
    if (!transit->waits()) continue;
    if (now < transit->began() + table_->late_after) {
      due = transit->began() + table_->late_after;
      break;
    }
    if (late.size() == kMostWaits) continue;
    changed = changed || !transit->told();
    transit->tell();
    late.push_back(transit->wait(now));
  }
  table_->due.store(due, std::memory_order_relaxed);
  if (!changed) return std::nullopt;
  return late;
}

std::vector<MessageWait> Messages::under_way(TimePoint now) const {
  std::vector<MessageWait> all;
  const std::lock_guard lock(table_->mutex);
  for (const Transit* transit : table_->transits) all.push_back(transit->wait(now));
  return all;
}

void Messages::leave() {
  messenger_.leave([table = table_] {
    const std::lock_guard lock(table->mutex);
    table->left = true;
    if (table->ring) table->ring();
  });
}

bool Messages::has_left() const {
  const std::lock_guard lock(table_->mutex);
  return table_->left;
}

void Messages::hear_leave(const RankSet& ranks) {
  for (const int rank : ranks.list()) {
    if (rank != rank_) messenger_.hear_leave(rank);
  }
}

}  // namespace hora
