// SPDX-License-Identifier: Apache-2.0
// libgpu_times.so: Hora's Stream, and what it is compared with, for the Python program that measures them in
// turn, all on one stream. Functions return 0 or null where something failed; times_error says what.
#include "core/backend/cuda/cuda_stream.h"
#include "core/backend/cuda/driver.h"
#include "core/backend/cuda/gpu.h"
#include "core/device/await.h"
#include "test/gpu/peer_kernels.h"

#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace hora {
namespace {

thread_local std::string last_error;

/// 1, or 0 and `last_error`.
template <typename Call>
int attempt(Call call) {
  try {
    call();
    return 1;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 0;
  }
}

/// A stream of Hora's, and the kernels of its peers. One thread's.
class Times {
 public:
  Times(int gpu, const std::string& peer_kernels) : gpu_(cuda::open_cuda_gpu(driver_, gpu)) {
    const cuda::CurrentContext current(*gpu_->context());
    std::ifstream file(peer_kernels, std::ios::binary);
    const std::vector<char> image(std::istreambuf_iterator<char>(file), {});
    if (image.empty()) throw Error(Code::unavailable, fmt::format("there is no {}", peer_kernels));
    if (driver_.module_load_data(&module_, image.data()) != CUDA_SUCCESS) return;  // no peers then
    driver_.module_get_function(&copy_, module_, "peer_copy");
    driver_.module_get_function(&fixed_blocks_, module_, "peer_fixed_blocks");
  }

  [[nodiscard]] void* stream() const { return handle(); }

  void move(std::span<const Move> moves, const Conversion& conversion) { stream_->move(moves, conversion); }

  /// A call of the driver's for each.
  void copy_each(std::span<const Move> moves, std::size_t size) {
    const cuda::CurrentContext current(*gpu_->context());
    for (const auto& [to, from, count] : moves)
      driver_.check(driver_.memcpy_async(address(to), address(from), count * size, handle()),
                    "cuMemcpyAsync");
  }

  void copy_with_fixed_blocks(std::span<const Move> moves, std::size_t size) {
    const cuda::CurrentContext current(*gpu_->context());
    while (!moves.empty()) {
      const auto now = moves.subspan(0, std::min<std::size_t>(moves.size(), kPeerTensors));
      PeerTable table{};
      for (std::size_t i = 0; i < now.size(); ++i) {
        table.to[i] = address(now[i].to);
        table.from[i] = address(now[i].from);
        table.bytes[i] = static_cast<std::uint32_t>(now[i].count * size);
      }
      launch(fixed_blocks_, static_cast<unsigned>(now.size()) * kPeerBlocks, kPeerThreads, &table);
      moves = moves.subspan(now.size());
    }
  }

  void finish() {
    const auto end = stream_->mark();
    await(end.get(), [] {});
  }

  void copy(void* to, const void* from, std::size_t bytes) {
    const cuda::CurrentContext current(*gpu_->context());
    PeerCopy copy{address(to), address(from), bytes / 16};
    const std::uint64_t each = std::uint64_t{kCopyThreads} * kCopyDepth;
    launch(copy_, static_cast<unsigned>((copy.units + each - 1) / each), kCopyThreads, &copy);
  }

 private:
  static CUdeviceptr address(const void* data) { return reinterpret_cast<CUdeviceptr>(data); }
  [[nodiscard]] CUstream handle() const { return dynamic_cast<const cuda::CudaStream&>(*stream_).handle(); }

  void launch(CUfunction kernel, unsigned blocks, unsigned threads, void* parameters) {
    if (kernel == nullptr) throw Error(Code::unavailable, "the peers' kernels do not run on this GPU");
    void* all[] = {parameters};
    driver_.check(driver_.launch_kernel(kernel, blocks, 1, 1, threads, 1, 1, 0, handle(), all, nullptr),
                  "cuLaunchKernel");
  }

  cuda::CudaDriver driver_ = cuda::load_driver();
  std::shared_ptr<cuda::CudaGpu> gpu_;
  std::unique_ptr<Stream> stream_ = gpu_->make_stream();
  CUmodule module_ = nullptr;
  CUfunction copy_ = nullptr;
  CUfunction fixed_blocks_ = nullptr;
};

}  // namespace
}  // namespace hora

using hora::Move;
using hora::Times;

extern "C" {

const char* times_error() { return hora::last_error.c_str(); }

Times* times_open(int gpu, const char* peer_kernels) {
  Times* made = nullptr;
  hora::attempt([&] { made = std::make_unique<Times>(gpu, peer_kernels).release(); });
  return made;
}

void* times_stream(Times* times) { return times->stream(); }

/// Moves, to be used as often as wanted; they are never freed.
std::vector<Move>* times_moves(std::size_t moves, void* const* to, const void* const* from,
                               const std::size_t* counts) {
  auto list = std::make_unique<std::vector<Move>>();
  for (std::size_t i = 0; i < moves; ++i) list->push_back({to[i], from[i], counts[i]});
  return list.release();
}

int times_move(Times* times, const std::vector<Move>* moves, int to, int from, double factor) {
  return hora::attempt(
      [&] { times->move(*moves, {static_cast<hora::DType>(to), static_cast<hora::DType>(from), factor}); });
}

int times_copy_each(Times* times, const std::vector<Move>* moves, std::size_t size) {
  return hora::attempt([&] { times->copy_each(*moves, size); });
}

int times_fixed_blocks(Times* times, const std::vector<Move>* moves, std::size_t size) {
  return hora::attempt([&] { times->copy_with_fixed_blocks(*moves, size); });
}

int times_finish(Times* times) {
  return hora::attempt([&] { times->finish(); });
}

int times_copy(Times* times, void* to, const void* from, std::size_t bytes) {
  return hora::attempt([&] { times->copy(to, from, bytes); });
}
}
