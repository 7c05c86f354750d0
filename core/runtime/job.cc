// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/job.h"

#include "core/base/log.h"
#include "core/runtime/leave_on_sigterm.h"

#include <exception>
#include <utility>

namespace hora {
namespace {

void check_thread() {
  if (!Engine::calls_this_thread()) return;
  throw Error(Code::invalid_argument,
              "what the engine calls (done, allocate) cannot end the job: the engine would wait for itself");
}

}  // namespace

Job::Observers::Observers(Job& job, const Config& settings)
    : on_failure([&job](const std::string& why) {
        job.generations_->close();  // first: this process must be in no other generation
        job.session()->fail(why);
        job.generations_->finish(false);
      }),
      on_signal(settings.dump_signal,
                [&job] { job.session()->state().dump("a signal asks for it (HORA_DUMP_SIGNAL)"); }),
      answering(settings.question_fd,
                [&job](const Question& question) { return job.session()->answer(question); }) {}

Job::Job(const Config& settings, std::unique_ptr<Generations> generations)
    : settings_(settings), generations_(std::move(generations)) {
  generations_->on_stop([this](const Status& why) { return end_generation(why); });
  try {
    join_next();
    lasting_->captured.submit_by([this](std::vector<Entry> group, const std::shared_ptr<GraphRun>& run) {
      return session()->submit_again(std::move(group), run);
    });
    observers_.emplace(*this, settings_);
  } catch (const std::exception&) {
    generations_->finish(false);  // before members go that a stop uses
    throw;
  }
}

Job::~Job() {
  try {
    shutdown(std::uncaught_exceptions() > 0 ? "an exception ended it" : "");
  } catch (const std::exception& error) {
    log(LogLevel::warning, error.what());
  }
  if (lasting_) lasting_->captured.close();  // it uses this
}

void Job::join_next() {
  while (true) {
    generations_->await_next(Clock::now() + settings_.start_timeout);
    const std::lock_guard alone(session_mutex_);
    if (auto next = generations_->take_next()) return begin(*std::move(next));
  }
}

void Job::begin(Generation generation) {
  const Membership& membership = generation.world.membership;
  set_log(generation.config.log_level, membership.rank);
  if (!lasting_) {
    copy_.emplace(generation.config.streaming_stores);
    lasting_.emplace(membership.local_rank, generation.world.gpu_module);
  }
  lasting_->steps.voted = lasting_->steps.committed = generation.committed;
  lasting_->steps.has_state = generation.has_state;
  state_root_ = generation.state_root;
  hot_spares_ = generation.hot_spares;
  change_is_due_ = generation_has_ended_ = false;
  lasting_->captured.forget_failures();
  session_.reset();  // its loop gives up what the next one's takes
  session_ = std::make_unique<Session>(std::move(generation.world), generation.config, *lasting_,
                                       generations_->has_more());
}

elastic::Report Job::end_generation(const Status& why) {
  const auto ending = session();
  generation_has_ended_ = true;
  ending->end(why);
  ending->stop();
  const Steps& steps = lasting_->steps;
  elastic::Report report;
  report.voted = steps.voted;
  report.committed = steps.committed;
  report.has_state = steps.has_state;
  report.takes_in = steps.takes_in;
  return report;
}

bool Job::commit(bool has_state) {
  Steps& steps = lasting_->steps;
  const std::uint64_t step = steps.committed + 1;
  if (lasting_->gpu.opened()) generations_->use_gpu();
  std::int32_t change = generations_->change_is_due() ? 1 : 0;  // of rank 0; then that of all
  Entry vote;
  vote.name = "hora.commit";
  vote.dtype = DType::int32;
  vote.shape = {1};
  vote.input = vote.output = &change;
  vote.op = ReduceOp::max;
  try {
    lasting_->captured.check();  // before the vote: a step with an operation that has failed does not count
    steps.has_state = has_state;
    steps.voted = step;
    const BlockingScope blocking;
    const Handle handle = session()->submit(std::move(vote));
    handle.wait();
  } catch (const Error& error) {
    if (error.code() != Code::generation_ended) throw;
    return next_generation() == step;
  }
  steps.committed = step;
  state_root_ = -1;  // all have the state, or are getting it
  change_is_due_ = change != 0;
  if (session()->membership().rank == 0) generations_->step_counted();
  return true;
}

std::uint64_t Job::next_generation() {
  session()->check_process();
  check_thread();
  const std::lock_guard changing(changing_mutex_);
  const auto check_has_more = [this] {
    if (!generations_->has_more()) generations_->await_next(TimePoint::min());  // throws why not
  };
  check_has_more();
  session()->leave({});
  session()->stop();
  generations_->session_ended();
  session()->await_gpu(settings_.start_timeout, check_has_more);
  lasting_->finish_graphs();  // what they ask for fails now
  join_next();
  return lasting_->steps.committed;
}

void Job::leave_on_sigterm() {
  if (is_elastic()) hora::leave_on_sigterm(*generations_);
}

void Job::shutdown(const std::string& reason) {
  session()->check_process();
  check_thread();
  forget_sigterm(*generations_);
  if (!reason.empty()) {
    generations_->close();  // first: a thread may be waiting for a generation
  } else if (!was_left_) {
    finish_graphs();
  }
  const std::lock_guard changing(changing_mutex_);
  was_left_ = true;
  session()->leave(reason);
  generations_->finish(reason.empty());
  observers_.reset();  // another owner may keep this job, and this process join another one
}

/// Operations that launched runs of graphs ask for come before this rank leaves, as submitted ones do.
void Job::finish_graphs() {
  try {
    session()->finish_graphs();
  } catch (const std::exception& error) {  // it leaves all the same
    log(LogLevel::warning, error.what());
  }
}

void Job::copy_for_later(void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(copy_mutex_);
  copy_->copy(to, from, bytes);
}

}  // namespace hora
