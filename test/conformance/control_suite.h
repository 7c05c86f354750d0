// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hora {

/// How a backend connects ranks that are threads: one control per rank.
struct ControlBackend {
  std::string name;
  std::function<std::vector<std::unique_ptr<Control>>(int ranks)> connect;
  bool in_shared_memory = false;  ///< messages ring the wake-up of the vote, not the notice
};

std::vector<ControlBackend>& control_backends();

struct RegisterControl {
  explicit RegisterControl(ControlBackend backend) { control_backends().push_back(std::move(backend)); }
};

}  // namespace hora
