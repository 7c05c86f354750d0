// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <string>
#include <vector>

namespace hora {

/// Something that all ranks should have, and what it is there: "fc.weight", "float32[3,4]". A value.
struct Item {
  std::string name;
  std::string what;

  bool operator==(const Item&) const = default;
};

/// Makes sure that all ranks of a process set have the same items, in whatever order, such as the names and
/// shapes of a model's parameters. All of them call it, with the same `name` of their own, as of an
/// operation, and `things`, as a sentence begins with them: "the parameters". Blocks. Throws Error(mismatch),
/// on every rank and with the same text, that names the items and the ranks that differ; and as Handle::wait.
void require_alike(Runtime& hora, const std::string& name, const std::string& things,
                   const std::vector<Item>& items, int process_set = 0);

/// Makes sure that a rank which `compares` has the items of rank `root`, as one that joins a running job
/// must. All ranks of the job call it, with the same `name` and `root`. Blocks. Throws Error(mismatch), on
/// such a rank alone, that begins with `sentence` and names the items; and as Handle::wait.
void require_like(Runtime& hora, const std::string& name, const std::string& sentence,
                  const std::vector<Item>& items, int root, bool compares);

}  // namespace hora
