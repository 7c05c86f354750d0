// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

namespace hora {

/// A graph that is captured on a framework's stream of a fake GPU, from here until `end`. The stream's
/// context is the current one.
class CapturedGraph {
 public:
  explicit CapturedGraph(CUstream stream) : stream_(stream) {
    EXPECT_EQ(::cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  }
  ~CapturedGraph() { destroy(); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void end() {
    CUgraph graph = nullptr;
    EXPECT_EQ(::cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    EXPECT_EQ(::cuGraphInstantiate(&executable_, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(::cuGraphDestroy(graph), CUDA_SUCCESS);
  }
  /// Puts a run of the graph on the stream.
  void run() { EXPECT_EQ(::cuGraphLaunch(executable_, stream_), CUDA_SUCCESS); }
  void destroy() {
    if (executable_ == nullptr) return;
    EXPECT_EQ(::cuGraphExecDestroy(executable_), CUDA_SUCCESS);
    executable_ = nullptr;
  }

 private:
  CUstream stream_;
  CUgraphExec executable_ = nullptr;
};

}  // namespace hora
