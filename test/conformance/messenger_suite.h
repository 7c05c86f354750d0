// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hora {

/// How a backend connects ranks that are threads: one messenger per rank.
struct MessengerBackend {
  std::string name;
  std::function<std::vector<std::unique_ptr<Messenger>>(int ranks)> connect;
};

std::vector<MessengerBackend>& messenger_backends();

struct RegisterMessenger {
  explicit RegisterMessenger(MessengerBackend backend) { messenger_backends().push_back(std::move(backend)); }
};

}  // namespace hora
