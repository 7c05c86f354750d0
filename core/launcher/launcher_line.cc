// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/launcher_line.h"

#include "core/launcher/end_report.h"

#include <hora/end_report.h>

#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace hora {
namespace {

struct alignas(std::int64_t) Line {  // one word, which clang, too, reads and writes as one
  int socket = -1;
  pid_t owner = -1;
};

std::atomic<Line> line{};
static_assert(std::atomic<Line>::is_always_lock_free);
std::atomic<bool> reported{false};

}  // namespace

void remember_launcher_line(int socket) { line.store({socket, ::getpid()}); }

bool tell_launcher(ReplyKind kind, Bytes content) {
  const Line open = line.load();
  if (open.socket < 0 || open.owner != ::getpid()) return false;
  return say(open.socket, encode(Reply{0, kind, std::move(content)}));
}

void report_reason(const std::string& why) {
  if (!reported.load()) tell_launcher(ReplyKind::ends, encode(EndReport{why, {}, {}}));
}

bool report_end(const std::string& error, const std::string& where, const std::string& trace) {
  if (trace.size() > kMostTraceBytes) return false;
  const bool told = tell_launcher(ReplyKind::ends, encode(EndReport{error, where, trace}));
  if (told) reported.store(true);
  return told;
}

}  // namespace hora
