// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/mesh.h"
#include "test/support/paired_links.h"
#include "test/support/threads.h"

#include <functional>
#include <memory>
#include <numeric>
#include <vector>

namespace hora {

/// Runs `rank_main` on a thread per rank, each with a mesh of all; how many peers each one has required.
inline std::vector<int> run_meshes(int ranks,
                                   const std::function<void(int rank, tcp::Mesh& mesh)>& rank_main) {
  const auto links = paired_links(ranks);
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  run_ranks(ranks, [&](int rank) {
    tcp::Mesh mesh(links[static_cast<std::size_t>(rank)], all, 0, false);
    rank_main(rank, mesh);
  });
  std::vector<int> required;
  for (const auto& one : links) required.push_back(count_required(*one));
  return required;
}

}  // namespace hora
