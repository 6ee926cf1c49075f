//===- GpuDevice.cpp - a GPU as a device ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"

#include "tandem/Runtime/Gpu.h"

#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <type_traits>
#include <utility>

namespace tandem {

namespace gpu {

Interceptor::~Interceptor() = default;
Driver::~Driver() = default;
thread_local Interceptor *Driver::interceptor = nullptr;
Interceptor *Driver::intercept(Interceptor *to) { return std::exchange(interceptor, to); }
Blas::~Blas() = default;
ProductPlan::~ProductPlan() = default;

Scratch &Scratch::operator=(Scratch &&other) noexcept {
  std::swap(state, other.state);
  std::swap(memory, other.memory);
  std::swap(bytes, other.bytes);
  std::swap(ofPrepare, other.ofPrepare);
  return *this;
}

Scratch::~Scratch() {
  if (memory && !state->stuck)
    (ofPrepare ? state->driver->freeNow(memory) : state->free(memory, bytes, MemoryKind::Workspace))
        .ignore();
}

Expected<Scratch> Scratch::make(std::shared_ptr<DeviceState> state, uint64_t bytes,
                                bool ofPrepare) {
  Scratch scratch;
  scratch.ofPrepare = ofPrepare;
  bytes = std::max<uint64_t>(bytes, 64);
  TANDEM_RETURN_IF_ERROR(ofPrepare
                             ? state->driver->allocate(bytes, &scratch.memory)
                             : state->allocate(bytes, MemoryKind::Workspace, &scratch.memory));
  scratch.state = std::move(state);
  scratch.bytes = bytes;
  return scratch;
}

Expected<Blas *> Toolbox::matrixLibrary() {
  std::lock_guard<std::mutex> lock(mutex);
  if (!blas) {
    TANDEM_ASSIGN_OR_RETURN(blas, driver().vendor().openBlas(driver()));
  }
  return blas.get();
}

namespace {

class GpuMemory final : public Memory {
public:
  GpuMemory(std::shared_ptr<DeviceState> state, MemoryKind kind)
      : state(std::move(state)), kind(kind) {}
  ~GpuMemory() override {
    // Memory that may still be written to is kept; freeing it would also block.
    if (!base || block || state->stuck)
      return;
    (kind == MemoryKind::Host ? state->driver->freeHost(base)
                              : state->free(base, allocated, MemoryKind::Plain))
        .ignore();
  }
  Status allocate(uint64_t size) {
    bytes = size;
    uint64_t rounded = std::max<uint64_t>((size + 63) / 64 * 64, 64);
    Driver &driver = *state->driver;
    TANDEM_RETURN_IF_ERROR(
        take(rounded).withPrefix(fmt::format("cannot allocate {} bytes: ", size)));
    if (kind != MemoryKind::Host)
      return driver.fill(base, 0, rounded);
    std::memset(base, 0, rounded);
    return Status();
  }

private:
  Status take(uint64_t rounded) {
    if (kind == MemoryKind::Host)
      return state->driver->allocateHost(rounded, &base);
    allocated = rounded;
    // Shared memory is allocated in units of megabytes.
    if (kind == MemoryKind::Plain || bytes == 0 || !state->driver->info().sharesMemory)
      return state->allocate(rounded, MemoryKind::Plain, &base);
    TANDEM_ASSIGN_OR_RETURN(block, SymmetricBlock::allocate(state, rounded));
    base = block->data();
    return Status();
  }

  std::shared_ptr<DeviceState> state;
  MemoryKind kind;
  uint64_t allocated = 0;
  std::shared_ptr<SymmetricBlock> block; ///< for symmetric memory
};

class GpuDevice final : public Device, public GpuAccess {
public:
  explicit GpuDevice(Tools tools) : tools(std::move(tools)), state(this->tools->state) {
    this->tools->log = &log;
  }

  std::string_view name() const override { return state->driver->info().name; }
  std::string description() override {
    const DeviceInfo &info = state->driver->info();
    auto blas = tools->matrixLibrary();
    return fmt::format("{} {}, {}{}", info.model, info.target,
                       blas ? (*blas)->version() : "no matrix library",
                       hasGatedKernels() ? ", gated kernels" : "");
  }
  bool hasGatedKernels() override {
    std::string why;
    return tools->gatedKernels(why) != nullptr;
  }
  bool hostMemory() const override { return false; }
  void within(const std::function<void()> &body) override {
    state->driver
        ->within([&] {
          body();
          return Status();
        })
        .ignore(); // there is no other error
  }
  void useAllocator(std::shared_ptr<const Allocator> given) override {
    state->allocator = std::move(given);
  }
  std::shared_ptr<DeviceState> shared() const override { return state; }
  const Kernels &kernels() const override { return *tools->kernels; }

  Expected<std::unique_ptr<Stream>> createStream(StreamPriority priority) override {
    TANDEM_ASSIGN_OR_RETURN(auto stream, DeviceStream::create(state, priority));
    return std::unique_ptr<Stream>(std::move(stream));
  }
  Expected<std::unique_ptr<Stream>> wrapStream(void *native) override {
    TANDEM_ASSIGN_OR_RETURN(auto stream, DeviceStream::wrap(state, native));
    return std::unique_ptr<Stream>(std::move(stream));
  }
  Expected<std::unique_ptr<Event>> createEvent() override {
    EventHandle handle = nullptr;
    TANDEM_RETURN_IF_ERROR(state->driver->createEvent(&handle, false));
    return std::make_unique<GpuEvent>(state, handle);
  }
  Expected<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind kind) override {
    auto memory = std::make_unique<GpuMemory>(state, kind);
    TANDEM_RETURN_IF_ERROR(memory->allocate(bytes));
    return std::unique_ptr<Memory>(std::move(memory));
  }
  Status upload(void *dst, const void *src, uint64_t bytes) override {
    return bytes ? state->driver->copy(dst, src, bytes) : Status();
  }
  Status download(void *dst, const void *src, uint64_t bytes) override {
    return upload(dst, src, bytes);
  }

  Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &dst,
                                                   const Operand &src) override {
    TANDEM_ASSIGN_OR_RETURN(CopyPlan plan, CopyPlan::make(*tools->kernels, dst.layout, src.layout));
    return runPlan(tools, std::move(plan), dst, src);
  }
  Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &desc) override {
    return gpu::prepareMatmul(tools, desc);
  }
  bool hasEpilogues() const override { return true; }
  Expected<std::unique_ptr<Operation>> prepareEpilogue(const MatmulDesc &desc,
                                                       const EpilogueDesc &epilogue) override {
    return gpu::prepareEpilogue(tools, desc, epilogue);
  }
  Expected<std::unique_ptr<Operation>> prepareGatedMatmul(const GatedMatmulDesc &desc) override {
    return gpu::prepareGatedMatmul(tools, desc);
  }
  Expected<std::unique_ptr<Operation>> prepareAccumulate(const Operand &dst, const Operand &src,
                                                         ReduceOp op) override {
    TANDEM_ASSIGN_OR_RETURN(CombinePlan plan, CombinePlan::make(*tools->kernels, dst.layout,
                                                                dst.layout, src.layout, op));
    return makeGpuOperation([tools = tools, plan = std::move(plan), to = dst.slot,
                             from = src.slot](GpuStream &stream, const Frame &frame) {
      void *sum = frame.pointers[to];
      return plan.run(*tools->kernels, stream.native(), sum, sum, frame.pointers[from]);
    });
  }
  Expected<std::unique_ptr<Operation>> prepareReduce(const Operand &dst, const Operand &src,
                                                     uint64_t dims, ReduceOp op,
                                                     bool ordered) override {
    TANDEM_ASSIGN_OR_RETURN(ReducePlan plan, ReducePlan::make(*tools->kernels, dst.layout,
                                                              src.layout, dims, op, ordered));
    return runPlan(tools, std::move(plan), dst, src);
  }
  Expected<std::unique_ptr<Operation>> prepareCall(const CallDesc &desc) override {
    return gpu::prepareCall(tools, desc);
  }
  Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc) override {
    return gpu::prepareLaunch(tools, desc);
  }
  Status agree(Bootstrap &bootstrap) override { return agreeOnAlgorithms(*tools, bootstrap); }

  uint64_t workspaceBytes() const override { return kWorkspaceBytes; }
  bool timesCommands() const override { return true; }
  bool hasGraphs() const override { return true; }
  Expected<std::unique_ptr<Graph>> capture(const std::vector<Stream *> &streams,
                                           std::unique_ptr<Graph> previous,
                                           const std::function<Status()> &body) override {
    return captureGraph(*tools, streams, std::move(previous), body);
  }

  Status captureInto(Stream &main, const std::vector<Stream *> &streams,
                     const CapturedParts &parts) override {
    return captureIntoForeign(*tools, main, streams, parts);
  }

  void abort(const Status &reason) override { state->abort(reason); }

private:
  Tools tools;
  std::shared_ptr<DeviceState> state;
};

} // namespace

GpuAccess::~GpuAccess() = default;

} // namespace gpu

Expected<unsigned> countGpus(std::string_view kind) {
  const gpu::Vendor *vendor = gpu::vendorOf(kind);
  return vendor ? vendor->count()
                : Expected<unsigned>(Status(Code::Unsupported,
                                            "this runtime was built without " + std::string(kind)));
}

Status anyGpu() {
  std::string reasons;
  for (const gpu::Vendor *vendor : gpu::vendors()) {
    auto count = vendor->count();
    if (count)
      return Status();
    reasons += (reasons.empty() ? "" : "; ") + count.status().message();
  }
  return Status(Code::Unsupported, reasons);
}

std::vector<std::string> gpuKinds() {
  std::vector<std::string> kinds;
  for (const gpu::Vendor *vendor : gpu::vendors())
    kinds.emplace_back(vendor->device);
  return kinds;
}

Expected<std::unique_ptr<Device>> createGpuDevice(std::string_view name, uint32_t localRank) {
  using namespace gpu;
  const Vendor *vendor = vendorOf(name);
  if (!vendor)
    return Status(Code::Unsupported,
                  fmt::format("device \"{}\": expected {} or one of these and :NUMBER", name,
                              fmt::join(gpuKinds(), " or ")));
  TANDEM_ASSIGN_OR_RETURN(unsigned count, vendor->count());
  unsigned index = count ? localRank % count : 0;
  if (size_t colon = name.find(':'); colon != std::string_view::npos) {
    std::string_view digits = name.substr(colon + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
      return Status(Code::InvalidArgument, fmt::format("device \"{}\": expected {} or {}:NUMBER",
                                                       name, vendor->device, vendor->device));
  }
  std::string where = fmt::format("device {}:{}: ", vendor->device, index);
  if (index >= count)
    return Status(Code::Unsupported, fmt::format("{}this machine has {} GPUs", where, count));
  auto driver = vendor->open(index);
  if (!driver)
    return driver.status().withPrefix(where);
  auto tools = std::make_shared<Toolbox>();
  tools->state = std::make_shared<DeviceState>(std::move(*driver));
  TANDEM_ASSIGN_OR_RETURN(tools->kernels, Kernels::load(tools->driver()));
  return std::unique_ptr<Device>(std::make_unique<GpuDevice>(std::move(tools)));
}

} // namespace tandem
