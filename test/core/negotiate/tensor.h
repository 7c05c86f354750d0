// SPDX-License-Identifier: Apache-2.0
// The requests that tests of negotiation submit.
#pragma once

#include "core/negotiate/message.h"

#include <string>

namespace hora {

inline Request tensor(const std::string& name, std::int64_t length = 4) {
  Request request;
  request.name = name;
  request.shape = {length};
  return request;
}

}  // namespace hora
