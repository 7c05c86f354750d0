// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/primary_ctx.h"
#include "core/device/graph_request.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace hora::cuda {

struct FreePage {
  void operator()(std::uint32_t* page) const { std::free(page); }  // NOLINT: from aligned_alloc
};

/// The words of graphs' requests. They lie in memory of the process's own, which the driver is told of: the
/// host still reads them when the driver has gone at the end of the process. A word whose last owner has gone
/// is used again. The driver is told that the memory goes when this and all words have gone. Thread-safe.
class GraphWords : public std::enable_shared_from_this<GraphWords> {
 public:
  explicit GraphWords(std::shared_ptr<const PrimaryContext> context) : context_(std::move(context)) {}
  ~GraphWords();
  GraphWords(const GraphWords&) = delete;
  GraphWords& operator=(const GraphWords&) = delete;

  /// A word that is 0. The context is the current one. Throws Error(internal).
  [[nodiscard]] std::shared_ptr<std::uint32_t> take();

 private:
  void add_page();

  const std::shared_ptr<const PrimaryContext> context_;
  std::mutex mutex_;
  // With the mutex:
  std::vector<std::unique_ptr<std::uint32_t, FreePage>> pages_;
  std::vector<std::uint32_t*> free_;
};

/// Puts a request into the graph into which `stream` is being captured. Throws Error(invalid_argument) if it
/// is not, and Error(internal).
[[nodiscard]] std::shared_ptr<GraphRequest> request_in_graph(std::shared_ptr<const PrimaryContext> context,
                                                             GraphWords& words, CUstream stream);

}  // namespace hora::cuda
