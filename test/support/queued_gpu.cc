// SPDX-License-Identifier: Apache-2.0
#include "test/support/queued_gpu.h"

#include "core/base/memory.h"
#include "core/device/host_stream.h"

#include <cstdlib>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hora {
namespace {

[[noreturn]] void refuse() { throw Error(Code::internal, "an illegal address"); }

/// A point in a queue's work, or a user's.
class QueuedEvent final : public Event {
 public:
  explicit QueuedEvent(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  [[nodiscard]] bool reached() const override {
    if (broken()) refuse();
    return gate_->is_open();
  }
  [[nodiscard]] bool broken() const { return gate_->is_broken(); }
  void hold_up(void* /*stream*/) const override {}
  void wait() const { gate_->wait(); }

 private:
  std::shared_ptr<Gate> gate_;
};

class QueuedStream final : public Stream {
 public:
  QueuedStream() : thread_([this] { run(); }) {}
  ~QueuedStream() override {
    put({});
    thread_.join();
  }

  void copy(void* to, const void* from, std::size_t bytes) override {
    put([this, to, from, bytes] { host_->copy(to, from, bytes); });
  }
  void set_bytes(void* to, std::byte value, std::size_t bytes) override {
    put([this, to, value, bytes] { host_->set_bytes(to, value, bytes); });
  }
  void move(std::span<const Move> moves, const Conversion& conversion) override {
    put([this, all = std::vector(moves.begin(), moves.end()), conversion] { host_->move(all, conversion); });
  }
  void sum(void* to, std::span<const void* const> sources, std::size_t count, DType dtype,
           double factor) override {
    put([this, to, all = std::vector(sources.begin(), sources.end()), count, dtype, factor] {
      host_->sum(to, all, count, dtype, factor);
    });
  }
  void quantize(std::span<const BlockMove> moves, const BlockConversion& conversion) override {
    put([this, all = std::vector(moves.begin(), moves.end()), conversion] {
      host_->quantize(all, conversion);
    });
  }
  void dequantize(std::span<const BlockMove> moves, const BlockConversion& conversion) override {
    put([this, all = std::vector(moves.begin(), moves.end()), conversion] {
      host_->dequantize(all, conversion);
    });
  }
  void sum_blocks(const BlockFloats& to, std::span<const BlockFloats> sources, DType format,
                  std::size_t blocks, double factor) override {
    put([this, to, all = std::vector(sources.begin(), sources.end()), format, blocks, factor] {
      host_->sum_blocks(to, all, format, blocks, factor);
    });
  }
  [[nodiscard]] std::shared_ptr<std::uint32_t> make_flag() override { return host_->make_flag(); }
  [[nodiscard]] std::shared_ptr<Event> mark() override {
    if (broken_) refuse();
    auto gate = std::make_shared<Gate>();
    put([gate] { gate->open(); });
    return std::make_shared<QueuedEvent>(std::move(gate));
  }
  void wait(const Event& event) override {
    broken_ = broken_ || dynamic_cast<const QueuedEvent&>(event).broken();
    if (event.reached()) return;
    put([&event = dynamic_cast<const QueuedEvent&>(event)] { event.wait(); });
  }

  void put(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    filled_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      filled_.wait(lock, [this] { return !queue_.empty(); });
      const auto work = std::move(queue_.front());
      queue_.pop_front();
      if (!work) return;
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::unique_ptr<Stream> host_ = make_host_stream();
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::function<void()>> queue_;  // under the mutex; nothing: the end
  bool broken_ = false;
  std::thread thread_;
};

class QueuedGpu final : public Gpu {
 public:
  explicit QueuedGpu(int index) : index_(index) {}
  [[nodiscard]] int index() const override { return index_; }
  [[nodiscard]] std::string name() const override { return "a queue"; }
  [[nodiscard]] std::array<std::byte, 16> identity() const override { return {std::byte(index_)}; }
  [[nodiscard]] std::uint64_t location() const override { return static_cast<std::uint64_t>(index_); }
  void check(const void* /*data*/, const std::string& /*which*/) const override {}
  [[nodiscard]] std::shared_ptr<Event> mark(void* stream) override {
    const auto* gate = static_cast<const Gate*>(stream);
    if (gate != nullptr && (!gate->is_open() || gate->is_broken()))  // the test owns it
      return std::make_shared<QueuedEvent>(std::shared_ptr<Gate>(static_cast<Gate*>(stream), [](Gate*) {}));
    auto done = std::make_shared<Gate>();
    done->open();
    return std::make_shared<QueuedEvent>(std::move(done));
  }
  [[nodiscard]] bool is_captured(void* stream) const override {
    return stream != nullptr && static_cast<const Gate*>(stream)->graph() != nullptr;
  }
  [[nodiscard]] std::shared_ptr<GraphRequest> request_in_graph(void* stream) override {
    return static_cast<const Gate*>(stream)->graph()->add_request();
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return std::make_unique<QueuedStream>(); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return allocate_zeroed(bytes);
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_on(void* /*stream*/, std::size_t bytes) override {
    return allocate_zeroed(bytes);
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_between(Stream& /*own*/, void* /*stream*/,
                                                            std::size_t bytes) override {
    return allocate_zeroed(bytes);
  }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    return allocate_zeroed(bytes);
  }
  [[nodiscard]] std::shared_ptr<std::byte> pin(std::shared_ptr<std::byte> memory,
                                               std::size_t /*bytes*/) override {
    return memory;
  }
  void finish() override {}
  [[nodiscard]] GpuMemory memory() const override { return {}; }

 private:
  int index_;
};

}  // namespace

class QueuedGraph::Request final : public GraphRequest {
 public:
  explicit Request(QueuedGraph& graph) : graph_(&graph) {}
  [[nodiscard]] bool is_made() const override { return *word_ == 1; }
  void hold_up(void* stream) const override {
    if (static_cast<const Gate*>(stream)->graph() != graph_)
      throw Error(Code::invalid_argument, "the operation is part of a CUDA graph: wait for it there");
    for (const auto& part : graph_->parts_) {
      if (part.request.get() != this) continue;
      graph_->parts_.push_back({part.request, true});
      return;
    }
  }
  void release(Stream& own) const override {
    put_on_queue(own, [word = word_] {
      if (word->exchange(0) != 1) std::abort();  // it was released twice
    });
  }
  [[nodiscard]] bool is_over() const override { return over_; }

  void make() {
    await();
    *word_ = 1;
  }
  void await() const {
    while (*word_ != 0) std::this_thread::yield();
  }
  void end() { over_ = true; }

 private:
  QueuedGraph* graph_;
  const std::shared_ptr<std::atomic<int>> word_ = std::make_shared<std::atomic<int>>(0);
  std::atomic<bool> over_{false};
};

QueuedGraph::~QueuedGraph() {
  end();
  for (const auto& part : parts_) part.request->end();
}

std::shared_ptr<GraphRequest> QueuedGraph::add_request() {
  return parts_.emplace_back(Part{std::make_shared<Request>(*this), false}).request;
}

void QueuedGraph::run(const std::function<void()>& before_request, const std::function<void()>& after_wait) {
  for (const auto& part : parts_) {
    if (part.waits) {
      part.request->await();
      if (after_wait) after_wait();
    } else {
      if (before_request) before_request();
      part.request->make();
    }
  }
}

void Gate::open() {
  {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }
  changed_.notify_all();
}

void Gate::close() {
  const std::lock_guard lock(mutex_);
  open_ = false;
}

void Gate::break_gpu() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
}

bool Gate::is_awaited() const {
  const std::lock_guard lock(mutex_);
  return awaited_;
}

bool Gate::is_broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

void Gate::wait() const {
  std::unique_lock lock(mutex_);
  awaited_ = true;
  changed_.wait(lock, [this] { return open_; });
}

bool Gate::is_open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

void put_on_queue(Stream& stream, std::function<void()> work) {
  dynamic_cast<QueuedStream&>(stream).put(std::move(work));
}

std::shared_ptr<Gpu> make_queued_gpu(int index) { return std::make_shared<QueuedGpu>(index); }

}  // namespace hora
