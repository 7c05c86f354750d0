// SPDX-License-Identifier: Apache-2.0
#include "core/base/socket_io.h"
#include "core/device/kernels.h"
#include "core/join/network.h"
#include "test/bench/peer.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <mpi.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>

namespace hora::bench {
namespace {

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::uint8: return MPI_UINT8_T;
    case DType::int8: return MPI_INT8_T;
    case DType::int16: return MPI_INT16_T;
    case DType::int32: return MPI_INT32_T;
    case DType::int64: return MPI_INT64_T;
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::float16:
    case DType::bfloat16: return MPI_UINT16_T;  // with an operation of our own
    default: throw Error(Code::unavailable, fmt::format("MPI does not reduce {}", name(dtype)));
  }
}

/// Sums of 16-bit floats, as a program has to bring them to MPI: in float32, rounded after every pair.
template <DType dtype>
void sum_halves(void* input, void* output, int* count, MPI_Datatype* /*type*/) {
  const std::array<const void*, 2> inputs{input, output};
  kernels::reduce(inputs, {&output, 1}, static_cast<std::size_t>(*count),
                  {dtype, ReduceOp::sum, 1.0, 1.0, 1});
}

MPI_Op op_of(ReduceOp op) {
  if (op == ReduceOp::min) return MPI_MIN;
  return op == ReduceOp::max ? MPI_MAX : MPI_SUM;
}

/// The data that rank 0 sends to the other ranks. A value.
struct Coordinator {
  std::array<char, 64> host{};  // an address of rank 0's machine that others reach
  std::uint16_t port = 0;
  Secret secret{};
};

class MpiPeer final : public Peer {
 public:
  MpiPeer() {
    int level = MPI_THREAD_SINGLE;  // Hora's own use of MPI needs the second highest, which costs MPI nothing
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    MPI_Op_create(sum_halves<DType::float16>, 1, &sum_float16_);
    MPI_Op_create(sum_halves<DType::bfloat16>, 1, &sum_bfloat16_);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  MpiPeer(const MpiPeer&) = delete;
  MpiPeer& operator=(const MpiPeer&) = delete;
  ~MpiPeer() override { MPI_Finalize(); }

  Config config() override {
    Coordinator coordinator = rank_ == 0 ? open() : Coordinator{};
    MPI_Bcast(&coordinator, sizeof coordinator, MPI_BYTE, 0, MPI_COMM_WORLD);
    Config config = Config::from_environment();
    config.rank = config.local_rank = rank_;
    config.size = config.local_size = size_;
    config.coordinator = fmt::format("[{}]:{}", coordinator.host.data(), coordinator.port);
    config.secret = coordinator.secret;
    config.launcher.clear();  // all that it tells has been asked for already
    config.meeting_place.clear();
    if (rank_ == 0) config.coordinator_fd = listener_.fd();
    return config;
  }

  void allreduce(void* data, std::size_t count, DType dtype, ReduceOp op) override {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), type_of(dtype), operation(dtype, op),
                  MPI_COMM_WORLD);
  }

 private:
  MPI_Op operation(DType dtype, ReduceOp op) const {
    if (dtype != DType::float16 && dtype != DType::bfloat16) return op_of(op);
    if (op != ReduceOp::sum)
      throw Error(Code::unavailable, fmt::format("MPI does not reduce {} by {}", name(dtype), name(op)));
    return dtype == DType::float16 ? sum_float16_ : sum_bfloat16_;
  }

  /// A socket on which rank 0's Hora listens, and a secret.
  Coordinator open() {
    Coordinator coordinator;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof address;
    listener_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.fd(), any, length) != 0 || ::listen(listener_.fd(), SOMAXCONN) != 0 ||
        ::getsockname(listener_.fd(), any, &length) != 0 ||
        ::getrandom(coordinator.secret.data(), coordinator.secret.size(), 0) !=
            static_cast<ssize_t>(coordinator.secret.size())) {
      throw Error(Code::unavailable, "cannot listen");
    }
    const std::string host = own_addresses("").front();
    host.copy(coordinator.host.data(), coordinator.host.size() - 1);
    coordinator.port = ntohs(address.sin_port);
    return coordinator;
  }

  int rank_ = 0;
  int size_ = 1;
  MPI_Op sum_float16_ = MPI_OP_NULL;
  MPI_Op sum_bfloat16_ = MPI_OP_NULL;
  Descriptor listener_;
};

}  // namespace

std::unique_ptr<Peer> make_mpi_peer() { return std::make_unique<MpiPeer>(); }

}  // namespace hora::bench
