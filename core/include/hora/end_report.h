// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hora {

/// Tells hrun, if it has started this process as a rank, why the process is about to end. `error`:
/// "ValueError: bad batch". `where`: the program's own lines, the innermost first: "train.py:31 in step,
/// train.py:40 in main"; empty: not known. `trace`: a text for stderr, with its end of line, that hrun is to
/// show in place of this process, once for all ranks that have the same; empty: there is none. The last
/// report counts. Never waits. False: nobody was told; then the caller has to show the trace itself. Of the
/// process, and thread-safe; in a forked child it does nothing.
bool report_end(const std::string& error, const std::string& where, const std::string& trace);

}  // namespace hora
