// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/elastic/step.h"

#include <hora/torch/elastic.h>

#include <fstream>
#include <string>

namespace hora::elastic {

/// Writes one line of JSON for each step that counts, into a file of this process: FOLDER/HOST-PID.jsonl. See
/// TrainingOptions::audit.
class Audit {
 public:
  /// Makes the folder. Throws Error(invalid_argument) if the file cannot be written there.
  explicit Audit(const std::string& folder);

  /// Writes the line of a step that counts. `number`: how many count, with this one.
  void write(const Step& step, std::int64_t epoch, std::int64_t number);

 private:
  std::ofstream file_;
};

}  // namespace hora::elastic
