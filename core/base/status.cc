// SPDX-License-Identifier: Apache-2.0
#include <hora/status.h>

namespace hora {

const char* name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid_argument";
    case Code::mismatch: return "mismatch";
    case Code::aborted: return "aborted";
    case Code::timeout: return "timeout";
    case Code::unavailable: return "unavailable";
    case Code::internal: return "internal";
    case Code::rank_failed: return "rank_failed";
    case Code::generation_ended: return "generation_ended";
  }
  return "unknown";
}

}  // namespace hora
