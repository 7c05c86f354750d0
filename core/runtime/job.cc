// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/job.h"

#include "core/base/log.h"

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

Job::Generation Job::join(const Config& settings, MembershipSource& source, const Connect& connect) {
  const TimePoint deadline = Clock::now() + settings.start_timeout;
  Generation next{{}, settings};
  next.world = connect(source.next(deadline), next.config, deadline);
  set_log(next.config.log_level, next.world.membership.rank);
  return next;
}

Job::Job(const Config& settings, std::unique_ptr<MembershipSource> source, Connect connect)
    // Braces evaluate from left to right: `join` before the source is moved.
    : Job{settings, join(settings, *source, connect), std::move(source), std::move(connect)} {}

Job::Job(World world, const Config& settings)
    : Job{settings, Generation{std::move(world), settings}, nullptr, {}} {}

Job::Job(const Config& settings, Generation first, std::unique_ptr<MembershipSource> source, Connect connect)
    : settings_(settings),
      source_(std::move(source)),
      connect_(std::move(connect)),
      copy_(first.config.streaming_stores),
      lasting_(first.world.membership.local_rank, first.world.gpu_module),
      session_(std::make_unique<Session>(std::move(first.world), first.config, lasting_, goes_on())),
      on_failure_([this](const std::string& why) { session()->fail(why); }),
      on_signal_(settings.dump_signal,
                 [this] { session()->state().dump("a signal asks for it (HORA_DUMP_SIGNAL)"); }),
      answering_(settings.question_fd,
                 [this](const Question& question) { return session()->answer(question); }) {}

Job::~Job() {
  try {
    shutdown(std::uncaught_exceptions() > 0 ? "an exception ended it" : "");
  } catch (const std::exception& error) {
    log(LogLevel::warning, error.what());
  }
}

void Job::next_generation() {
  session()->check_process();
  check_thread();
  const std::lock_guard changing(changing_mutex_);
  if (!source_)
    throw Error(Code::invalid_argument, "this job has one generation: its program has connected the ranks");
  session_->leave({});
  session_->stop();
  Generation next = join(settings_, *source_, connect_);
  const std::lock_guard alone(session_mutex_);
  session_.reset();  // its loop gives up what the next one's takes
  session_ = std::make_unique<Session>(std::move(next.world), next.config, lasting_, goes_on());
}

void Job::shutdown(const std::string& reason) {
  session()->check_process();
  check_thread();
  const std::lock_guard changing(changing_mutex_);
  session()->leave(reason);
}

void Job::copy_for_later(void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(copy_mutex_);
  copy_.copy(to, from, bytes);
}

}  // namespace hora
