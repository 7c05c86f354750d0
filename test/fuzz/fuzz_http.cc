// SPDX-License-Identifier: Apache-2.0
// Requests to hrun and its responses: a request that is read must mean the same when it is sent again;
// everything else must be refused by an Error.
#include "runner/observe/http.h"

#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto request = hora::hrun::parse_request(text);
    if (request && hora::hrun::parse_request(hora::hrun::encode(*request)) != request) std::abort();
  } catch (const hora::Error&) {
  }
  try {
    static_cast<void>(hora::hrun::parse_response(text));
  } catch (const hora::Error&) {
  }
  return 0;
}
