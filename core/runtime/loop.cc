// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/loop.h"

#include "core/base/log.h"

#include <fmt/format.h>

#include <filesystem>

namespace hora {

Loop::Loop(World& world, const Config& config, TensorTable& table)
    : world_(world),
      config_(config),
      table_(table),
      negotiator_(*world.control),
      executor_(world.lane, table, recorder_, world.control->rank(), world.control->size(),
                config.fusion_threshold),
      stalls_(config.stall_warning_time, world.members) {
  // A rank may die while the engine waits for it inside a collective: only another thread can end that.
  world.control->on_loss(
      [collective = world.lane.collective.get()](const Status& why) { collective->abort(why); });
}

Loop::~Loop() { world_.control->on_loss({}); }

void Loop::run() noexcept {
  try {
    while (turn()) {
    }
    end();
  } catch (const Error& error) {
    fail(error.status());
  } catch (const std::exception& error) {
    fail({Code::internal, error.what()});
  }
}

void Loop::leave(const std::string& reason) {
  {
    const std::lock_guard lock(leaving_mutex_);
    if (!leaving_) leaving_ = reason;
  }
  world_.control->wake();
}

bool Loop::turn() {
  const TimePoint now = Clock::now();
  if (!left_) {
    const auto reason = told_to_leave();  // first: what was submitted before that is still asked for
    if (reason && !reason->empty()) throw Error(Code::aborted, *reason);
    negotiator_.ask(table_.take_requests(), now);
    if (reason) leave(now);
  }
  const auto heard = negotiator_.hear(watch_stalls(now));
  carry_out(heard.decisions);
  return !heard.end;
}

std::optional<std::string> Loop::told_to_leave() {
  const std::lock_guard lock(leaving_mutex_);
  return leaving_;
}

void Loop::leave(TimePoint now) {
  left_ = true;  // tensors that are submitted from now on wait for the end, and get its status
  negotiator_.leave(now);
}

void Loop::carry_out(const std::vector<Decision>& decisions) {
  const TimePoint decided = Clock::now();
  for (const auto& decision : decisions) {
    if (!decision.status.ok()) executor_.refuse(decision, decided);
  }
  for (const auto& batch : plan(decisions, config_.fusion_threshold))
    executor_.carry_out(decisions, batch, decided);
}

TimePoint Loop::watch_stalls(TimePoint now) {
  const Coordinator* coordinator = negotiator_.coordinator();
  if (coordinator == nullptr) return TimePoint::max();
  for (const auto& warning : stalls_.check(*coordinator, now)) log(LogLevel::warning, warning);
  return stalls_.next(*coordinator);
}

void Loop::fail(const Status& status) {
  world_.control->fail(
      {status.code,
       shortened(status.message,
                 kMostReasonBytes)});  // tells nobody anything new if it was a loss that all have heard of
  world_.lane.collective->abort(status);
  const Status ended{Code::aborted, status.message};
  auto pending = table_.close(ended);
  dump(ended, pending);
  for (auto& loan : pending) {
    const std::string name = loan.entry.name;
    table_.finish(std::move(loan), {{ended.code, fmt::format("'{}': {}", name, ended.message)}, {}, true});
  }
}

void Loop::end() {
  const Status ended{Code::aborted, "the job has ended: every rank has left it (shutdown)"};
  for (auto& loan : table_.close(ended)) table_.finish(std::move(loan), {ended, {}, true});
}

void Loop::dump(const Status& why, const std::vector<Loan>& pending) {
  const int rank = world_.control->rank();
  Dump dump{world_.job,
            world_.members[static_cast<std::size_t>(rank)],
            world_.control->size(),
            why,
            recorder_.records(),
            {},
            Clock::now()};
  for (const auto& loan : pending) {
    const Entry& entry = loan.entry;
    dump.pending.push_back(
        {entry.name, entry.operation, entry.dtype, entry.shape, loan.submitted, {}, {}, {}, {}});
  }
  try {
    const auto directory =
        config_.dump_directory.empty()
            ? fmt::format("{}/hora-{}", std::filesystem::temp_directory_path().string(), world_.job)
            : config_.dump_directory;
    const std::string path = write_dump(dump, directory);
    log(LogLevel::error, fmt::format("{}; the last operations of this rank are in {}", why.message, path));
  } catch (const std::exception& error) {  // the job fails for `why`, whatever becomes of the dump
    log(LogLevel::error, fmt::format("{}; {}", why.message, error.what()));
  }
}

}  // namespace hora
