// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launcher/question.h"

#include <string>

namespace hora {

// The line to the launcher (core/launcher/question.h) belongs to the process and stays open until its end, so
// that a rank can say why it ends also when its Runtime is gone.
//
// Threads. `line` is one atomic word: the socket and the process that it belongs to. A forked child has
// another process number, so it says nothing.

/// Remembers the line. -1: there is none.
void remember_launcher_line(int socket);
/// Says something to no question. False: there is no launcher that hears it.
bool tell_launcher(ReplyKind kind, Bytes content);
/// As report_end, without line and trace; nothing if this process has told its end already.
void report_reason(const std::string& why);

}  // namespace hora
