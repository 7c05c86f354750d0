// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/elastic_generations.h"

#include "core/base/thread.h"
#include "core/comm/unreachable_pairs.h"
#include "core/elastic/member.h"
#include "core/join/address.h"
#include "core/join/elastic_membership.h"
#include "core/join/job_id.h"
#include "core/join/listener.h"
#include "core/join/network.h"
#include "core/launcher/life_mutex.h"
#include "core/launcher/member_line.h"
#include "core/runtime/generation_slot.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <utility>

namespace hora {
namespace {

using elastic::GenerationRecord;
using elastic::LeaderMessage;
using elastic::MemberAction;
using elastic::MemberMessage;

constexpr std::chrono::seconds kBeat{1};  // a sign of life
const Status kLeft{Code::invalid_argument, "this process has left the job, and cannot join it again"};
/// To connect to the others. It ends before hrun gives up, so that hrun hears who cannot reach whom.
constexpr auto kConnectTimeout = elastic::kFormTimeout - std::chrono::seconds(1);

/// A socket at which the others find this process if it is rank 0 of the next generation. It listens on the
/// loopback alone where the launcher has put rank 0 there.
Descriptor listener_of(const Config& settings) {
  const auto coordinators = parse_addresses(settings.coordinator);
  const bool alone = std::all_of(coordinators.begin(), coordinators.end(),
                                 [](const Address& address) { return is_loopback(address.host); });
  Descriptor listener = alone ? listen_on_loopback() : listen_on_network(settings.network);
  if (!listener) throw Error(Code::unavailable, "cannot listen for other ranks");
  return listener;
}

/// Whether a failure to form a generation is this process's own. Else another member has died or does not
/// come, or two cannot reach each other, and hrun chooses a generation without one of them.
bool is_own_fault(const Formation::Outcome& outcome) {
  const Status& why = outcome.status;
  if (why.ok()) return false;
  const bool link = !outcome.unreachable.empty() || names_unreachable(why);
  return !link && why.code != Code::aborted && why.code != Code::timeout &&
         why.code != Code::generation_ended;
}

/// See Generation::state_root.
int state_root_of(const GenerationRecord& record) {
  const auto has_state = [](const elastic::MemberInfo& member) { return member.has_state; };
  const auto& members = record.members;
  if (std::all_of(members.begin(), members.end(), has_state)) return -1;
  return static_cast<int>(std::find_if(members.begin(), members.end(), has_state) - members.begin());
}

/// See make_elastic_generations.
///
/// Threads. The member thread alone uses what is listed below `slot_`. It hears hrun and tells it, and
/// carries out the tasks of the Member. It waits in poll(), and in `stop_`, which ends when the engine has
/// stopped. The user's thread takes generations from the slot.
///
/// A stop finds out from the slot where the generation is. If it is still there, nobody can take it from then
/// on. If it was taken, `stop_` waits until it is in use, and stops it. So the engine of the former
/// generation has stopped before the report, and the report comes before the next record.
class ElasticGenerations final : public Generations {
 public:
  ElasticGenerations(const Config& settings, Formation::Connect connect)
      : settings_(settings),
        connect_(std::move(connect)),
        line_(*settings.member_fd),
        member_(settings.member_id) {}
  ~ElasticGenerations() override { ElasticGenerations::finish(false); }
  ElasticGenerations(const ElasticGenerations&) = delete;
  ElasticGenerations& operator=(const ElasticGenerations&) = delete;

  void on_stop(Stop stop) override {
    stop_ = std::move(stop);
    thread_ = start_thread("follows the members of the job", [this] { run(); });
  }

  void await_next(TimePoint deadline) override {
    if (slot_.await(deadline)) return;
    throw Error(Code::timeout,
                fmt::format("not all ranks of this job have come within {} s: look whether they started; a "
                            "longer wait is HORA_START_TIMEOUT",
                            std::chrono::duration<double>(settings_.start_timeout).count()));
  }

  std::optional<Generation> take_next() override {
    auto next = slot_.take();
    if (next) next->config.start_timeout = settings_.start_timeout;
    return next;
  }
  [[nodiscard]] bool has_more() const override { return slot_.has_more(); }
  [[nodiscard]] bool change_is_due() const override { return slot_.change_is_due(); }
  void ask_to_leave() override { slot_.ask_to_leave(); }
  void use_gpu() override { slot_.use_gpu(); }
  void step_counted() override { slot_.step_counted(); }
  [[nodiscard]] bool has_left() const override { return slot_.has_left(); }
  void session_ended() override { slot_.set_session_ended(); }

  void close() override { slot_.end(kLeft); }

  void finish(bool well) override {
    slot_.set_finish(well, kLeft);
    const std::lock_guard lock(finish_mutex_);
    if (thread_.joinable()) thread_.join();
    slot_.drop();
  }

 private:
  using Phase = elastic::Member::Phase;

  void run() {
    try {
      std::optional<LifeMutex> life;  // hrun waits for it from the first message on
      if (settings_.life_fd) life.emplace(*settings_.life_fd).hold();
      if (settings_.joins_late) {
        form_alone();
      } else {
        send({.kind = MemberMessage::Kind::join});
      }
      while (!look_at_user()) {
        if (slot_.uses_gpu()) life.reset();
        if (const auto outcome = slot_.take_outcome()) formation_ended(*outcome);
        while (const auto message = line_.receive()) hear(*message);
        beat();
        std::array<pollfd, 2> events{slot_.event().event(), line_.event()};
        ::poll(events.data(), events.size(), milliseconds_until(next_beat_));
        slot_.event().silence();
      }
    } catch (const std::exception& error) {
      slot_.end({Code::unavailable, error.what()});
    }
  }

  /// Returns whether the process takes part in nothing more.
  bool look_at_user() {
    const auto finish = slot_.finish();
    if (finish == GenerationSlot::Finish::badly) return is_let_go();
    if (finish == GenerationSlot::Finish::well) {
      line_.send({.kind = MemberMessage::Kind::finish});
      return true;
    }
    if (const auto generation = slot_.take_first_step())
      line_.send({.kind = MemberMessage::Kind::step, .generation = *generation});
    if (slot_.take_wish_to_leave()) line_.send({.kind = MemberMessage::Kind::leave});
    if (!slot_.has_session_ended(member_.record().generation)) return false;
    if (member_.phase() != Phase::waiting) {
      carry_out(member_.change_is_due());
    } else if (std::exchange(alone_, false)) {
      send({.kind = MemberMessage::Kind::join});
    }
    return false;
  }

  /// Of a process that fails: reports that it leaves, so that the others need not wait for its end. Returns
  /// whether it has.
  bool is_let_go() {
    const Phase phase = member_.phase();
    if (phase == Phase::running || phase == Phase::forming)
      carry_out(member_.hear_stop(member_.record().generation));
    return reported_.leaving || phase == Phase::waiting || phase == Phase::ended;
  }

  void hear(const LeaderMessage& message) {
    if (message.kind == LeaderMessage::Kind::record) announced_ = message;
    if (message.kind == LeaderMessage::Kind::stop) {
      why_ = message.why;
      const int rank = member_.record().rank_of(message.lost);
      if (rank >= 0) lost_ = RankEnd{rank, true, message.why, {}};
    }
    if (message.kind == LeaderMessage::Kind::plan_change) slot_.plan_change(message.generation);
    carry_out(elastic::deliver(member_, message));
  }

  void beat() {
    const TimePoint now = Clock::now();
    if (now < next_beat_) return;
    next_beat_ = now + kBeat;
    line_.beat();
  }

  void carry_out(const elastic::Member::Actions& actions) {
    for (const auto& action : actions) {
      switch (action.kind) {
        case MemberAction::Kind::report:
          reported_ = action.report;
          send(elastic::message_of(action));
          break;
        case MemberAction::Kind::suspect:
        case MemberAction::Kind::tell_formed: line_.send(elastic::message_of(action)); break;
        case MemberAction::Kind::stop: stop(); break;
        case MemberAction::Kind::form: form(action.record); break;
        case MemberAction::Kind::start:
          // In a pause the user's thread waits for a generation with enough ranks.
          if (!action.record.paused) slot_.offer();
          break;
        case MemberAction::Kind::end:
          slot_.end({Code::aborted, fmt::format("this process is no member of the job any more{}{}",
                                                action.why.empty() ? "" : ": ", action.why)},
                    action.why.empty());
          break;
      }
    }
  }

  /// Sends a message that tells where this process listens for the next generation. Each has a socket of its
  /// own: control of the former one still accepts connections, and refuses them.
  void send(MemberMessage message) {
    listener_ = std::make_shared<const Descriptor>(listener_of(settings_));
    message.port = port_of(*listener_);
    line_.send(message);
  }

  /// Forms the generation that a process is in before it joins a running job: it is rank 0 of 1. So a program
  /// that all processes of the job run can prepare itself, and nobody waits for that.
  void form_alone() {
    alone_ = true;
    Membership membership;
    membership.local_rank = settings_.local_rank;
    membership.local_size = settings_.local_size;
    membership.job = job_id(settings_.secret);
    Generation generation;
    generation.config = settings_;
    slot_.form(std::move(generation), std::move(membership), connect_, TimePoint::max());
  }

  void form(const GenerationRecord& record) {
    why_.clear();
    lost_.reset();
    Membership membership = membership_in(record, member_.id());
    membership.job = job_id(settings_.secret);
    membership.coordinator = announced_.coordinator;
    membership.secret = announced_.secret;
    if (membership.rank == 0) membership.listener = std::move(listener_);
    listener_ = nullptr;
    const auto rank = static_cast<std::size_t>(membership.rank);
    Generation generation{{},
                          settings_,
                          record.committed,
                          state_root_of(record),
                          record.members[rank].has_state,
                          record.hot_spares};
    generation.config.start_timeout = kConnectTimeout;
    slot_.form(std::move(generation), std::move(membership), connect_, Clock::now() + kConnectTimeout);
  }

  void formation_ended(const Formation::Outcome& outcome) {
    if (is_own_fault(outcome)) slot_.end(outcome.status);
    if (alone_) return slot_.offer();
    const GenerationRecord& record = member_.record();
    std::vector<elastic::MemberId> lost;
    for (const int rank : outcome.unreachable)
      lost.push_back(record.members[static_cast<std::size_t>(rank)].id);
    carry_out(member_.lose(lost));
    if (member_.phase() == Phase::stopping) return report_unused();
    if (outcome.status.ok()) return carry_out(member_.formed());
    carry_out(member_.hear_stop(record.generation));
  }

  void stop() {
    const std::uint64_t generation = member_.record().generation;
    switch (slot_.withdraw(generation, lost_)) {
      case GenerationSlot::Where::forming: return;  // `formation_ended` goes on
      case GenerationSlot::Where::formed: return report_unused();
      case GenerationSlot::Where::taken: break;
    }
    const std::string why = why_.empty() ? "its ranks change" : why_;
    const Status status{Code::generation_ended,
                        fmt::format("generation {} of the job has ended: {}", generation, why)};
    line_.beat();  // the next one comes when the engine has stopped
    report(stop_(status));
  }

  /// Reports of a generation that was never in use. This process votes for nothing in it.
  void report_unused() {
    slot_.drop();
    const GenerationRecord& record = member_.record();
    elastic::Report unused;
    unused.voted = unused.committed = record.committed;
    unused.takes_in = reported_.takes_in;
    unused.has_state = record.members[static_cast<std::size_t>(record.rank_of(member_.id()))].has_state;
    report(unused);
  }

  void report(elastic::Report steps) {
    steps.leaving = slot_.leaves();
    carry_out(member_.engine_stopped(std::move(steps)));
  }

  const Config settings_;
  const Formation::Connect connect_;
  Stop stop_;
  std::mutex finish_mutex_;  // of those who wait for the thread
  GenerationSlot slot_;
  MemberLine line_;
  elastic::Member member_;
  std::shared_ptr<const Descriptor> listener_;  // for the next generation
  LeaderMessage announced_;                     // the last record, with its coordinator and secret
  std::string why_;                             // the present generation ends
  std::optional<RankEnd> lost_;                 // of the present generation
  bool alone_ = false;                          // it has not joined the running job yet
  elastic::Report reported_;                    // the last one
  TimePoint next_beat_ = TimePoint::min();
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Generations> make_elastic_generations(const Config& settings, Formation::Connect connect) {
  if (settings.cpu_operations == "mpi") {
    throw Error(
        Code::invalid_argument,
        "HORA_CPU_OPERATIONS=mpi, but MPI cannot go on without a rank; `hrun --min-np` needs auto, shm or "
        "tcp");
  }
  return std::make_unique<ElasticGenerations>(settings, std::move(connect));
}

}  // namespace hora
