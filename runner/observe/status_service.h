// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launcher/question.h"
#include "runner/elastic/generations.h"
#include "runner/elastic/job_command.h"
#include "runner/observe/health_report.h"
#include "runner/observe/http_server.h"
#include "runner/observe/job_socket.h"
#include "runner/observe/metrics_address.h"
#include "runner/observe/summary.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hora::hrun {

/// The questions that hrun is asked about its job while it runs, by `hrun status`, `hrun dump` and programs
/// that gather metrics. It asks the ranks only when a visitor asks it, one question at a time of each kind. A
/// visitor that comes while a question is open hears the answer to it. Ranks have two seconds to answer.
/// Nothing blocks. Not thread-safe.
class StatusService {
 public:
  /// Refers to the summary, which has all ranks by now. `ask` sends a question to all ranks.
  StatusService(std::string job, const JobSummary& summary, std::function<void(const Question&)> ask,
                TimePoint now);

  /// Where visitors come: those of `hrun status` and `hrun dump`, and those who want metrics.
  void open(JobSocket socket);
  void open(const MetricsAddress& address);
  /// Where metrics are, once that is open.
  [[nodiscard]] std::string metrics_address() const { return metrics_ ? metrics_->socket.address() : ""; }

  /// Adds what poll() has to wait for; and the time until when it may wait.
  void watch(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;
  /// Does what can be done without waiting.
  void turn(TimePoint now);
  /// Carries a command out, and returns a text for the user. Throws Error if the job cannot do so.
  using Obey = std::function<std::string(const JobCommand&)>;
  /// The job is elastic: reports tell of its generations, too, and it takes commands. Refers to them.
  void follow(const Generations& generations, Obey obey) {
    generations_ = &generations;
    obey_ = std::move(obey);
  }
  /// Another process was started as this rank, or the first one of a new rank.
  void replaced(int rank) {
    presence_.resize(summary_.ranks.size());
    presence_[static_cast<std::size_t>(rank)] = {};
  }
  /// Takes the answer of a rank.
  void take(int rank, Reply answer);

 private:
  /// How jobs of this user are asked.
  struct Own {
    explicit Own(JobSocket listening)
        : socket(std::move(listening)), server(socket.take(), HttpServer::For::own_user) {}
    JobSocket socket;
    HttpServer server;
  };
  struct Public {
    explicit Public(const MetricsAddress& address)
        : for_own_user(!address.path.empty()),
          socket(address),
          server(socket.take(), for_own_user ? HttpServer::For::own_user : HttpServer::For::everybody) {}
    bool for_own_user;  ///< a local socket; else a port, which also pages in a browser of this machine can
                        ///< reach
    MetricsSocket socket;
    HttpServer server;
  };
  using Face = std::string (*)(const JobReport&);
  /// A visitor that waits for the end of a question.
  struct Waiting {
    HttpServer* server;
    std::uint64_t visitor;
    Face face;  ///< of the report, and
    const char* type;
  };
  /// A question that the ranks have been asked, or will be.
  struct Open {
    std::uint64_t number = 0;  ///< 0: not yet
    TimePoint until;           ///< as it is; or when it may be asked
    std::set<int> silent;      ///< ranks that have not answered yet
    bool job = false;          ///< nor has rank 0's engine
    std::vector<Waiting> waiting;
    std::map<int, Health> healths;
    std::optional<JobHealth> job_health;
    std::map<int, std::pair<bool, std::string>> dumps;  ///< whether it was written; the path, or why not
  };

  void serve(HttpServer& server, bool own, TimePoint now);
  void serve_own(HttpServer& server, const HttpServer::Visit& visit, TimePoint now);
  [[nodiscard]] HttpResponse carry_out(const JobCommand& command) const;
  void want(std::optional<Open>& open, const Waiting& who, TimePoint now);
  void move_on(std::optional<Open>& open, QuestionKind kind, TimePoint now);
  void ask(Open& open, QuestionKind kind, TimePoint now);
  [[nodiscard]] bool can_answer(int rank) const;
  void tell_health(Open& open, TimePoint now);
  void tell_dumps(Open& open, TimePoint now);
  [[nodiscard]] JobReport report(const Open& open, TimePoint now) const;
  [[nodiscard]] HttpResponse brief(TimePoint now) const;

  const std::string job_;
  const JobSummary& summary_;
  const std::function<void(const Question&)> ask_;
  const TimePoint began_;
  const Generations* generations_ = nullptr;  // of an elastic job
  Obey obey_;                                 // likewise
  std::vector<Presence> presence_;            // by rank
  std::uint64_t numbers_ = 0;
  std::optional<Open> health_;
  std::optional<Open> dump_;
  TimePoint health_told_;  // the last time
  std::optional<Own> own_;
  std::optional<Public> metrics_;
};

}  // namespace hora::hrun
