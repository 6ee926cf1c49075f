//===- Launch.cpp - kernels that travel with the program ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads the PTX or code object stored next to the expression code and calls it as docs/kernels.md
// describes.
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"

#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace tandem::gpu {

namespace {

/// Bytes that a thread of `rows` moves at once, of the widest operand.
constexpr unsigned kAccessBytes = 16;
/// Dimensions that `strided` walks.
constexpr size_t kStridedDims = 4;

/// 90 for "sm_90"; 0 for targets other than NVIDIA GPUs.
unsigned architectureOf(std::string_view target) {
  unsigned number = 0;
  if (target.substr(0, 3) != "sm_")
    return 0;
  auto [end, error] = std::from_chars(target.data() + 3, target.data() + target.size(), number);
  return error == std::errc() && end == target.data() + target.size() ? number : 0;
}

/// The newest code that this GPU can run, or null. PTX also runs on later GPUs; a code object runs
/// on those of its name alone.
const NativeKernel *choose(const LaunchDesc &desc, const Driver &driver) {
  const NativeKernel *best = nullptr;
  const DeviceInfo &info = driver.info();
  for (const NativeKernel &native : desc.native) {
    if (native.format != driver.vendor().kernelFormat)
      continue;
    if (info.architecture == 0 && native.target == info.target)
      return &native;
    unsigned needs = architectureOf(native.target);
    if (needs == 0 || needs > info.architecture)
      continue;
    if (!best || needs > architectureOf(best->target))
      best = &native;
  }
  return best;
}

/// One kernel on operands with known loops. Numbers in the call have 64 bits.
class NativeOperation final : public GpuOperation {
public:
  NativeOperation(Tools tools, const ProgramKernel &kernel)
      : tools(std::move(tools)), kernel(kernel) {}

  void prepare(const LaunchDesc &desc) {
    std::vector<Layout> layouts;
    unsigned widest = 1;
    for (const Operand &operand : desc.operands) {
      slots.push_back(operand.slot);
      layouts.push_back(operand.layout);
      elements.push_back(sizeOf(operand.layout.dtype));
      widest = std::max(widest, elements.back());
    }
    loops = Loops(layouts);
    vector = kAccessBytes / widest;
    if (loops.total() == 0)
      return;
    adjacent = loops.outer() <= 1;
    for (size_t k = 0; k < slots.size(); ++k) {
      if (loops.innerStride(k) == 0) // one element for all columns
        continue;
      adjacent = adjacent && loops.innerStride(k) == 1;
      if (loops.outer() == 1)
        adjacent = adjacent && loops.outerStride(k, 0) % vector == 0;
    }
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    if (loops.total() == 0)
      return Status();
    bool aligned = adjacent;
    for (size_t k = 0; aligned && k < slots.size(); ++k)
      aligned = loops.innerStride(k) == 0 || reinterpret_cast<uintptr_t>(frame.pointers[slots[k]]) %
                                                     (uintptr_t(elements[k]) * vector) ==
                                                 0;
    if (aligned)
      return issueRows(stream, frame);
    bases.clear();
    for (uint32_t slot : slots)
      bases.push_back(static_cast<std::byte *>(frame.pointers[slot]));
    return issueStrided(stream, bases, 0);
  }

private:
  Status issueRows(GpuStream &stream, const Frame &frame) {
    int64_t rows = loops.outer() ? loops.outerExtent(0) : 1;
    numbers.assign({rows, loops.inner()});
    for (size_t k = 0; k < slots.size(); ++k) {
      numbers.push_back(
          static_cast<int64_t>(reinterpret_cast<uintptr_t>(frame.pointers[slots[k]])));
      numbers.push_back(loops.outer() ? loops.outerStride(k, 0) : 0);
      numbers.push_back(loops.innerStride(k));
    }
    uint64_t perBlock = uint64_t(vector) * kThreads;
    uint64_t across = (static_cast<uint64_t>(loops.inner()) + perBlock - 1) / perBlock;
    // Rows beyond the grid are done in later iterations of its blocks.
    uint64_t most =
        std::max<uint64_t>(1, uint64_t(tools->driver().info().processors) * 32 / across);
    Grid grid{static_cast<unsigned>(across),
              static_cast<unsigned>(
                  std::min<uint64_t>({static_cast<uint64_t>(rows), most, uint64_t(65535)})),
              kThreads};
    return launch(kernel.rows, grid, stream);
  }

  /// Launches `strided` for each index of the dimensions outside the kernel's loops.
  Status issueStrided(GpuStream &stream, const std::vector<std::byte *> &at, size_t d) {
    size_t outer = loops.outer();
    if (outer + 1 - d > kStridedDims) {
      for (int64_t i = 0; i < loops.outerExtent(d); ++i) {
        std::vector<std::byte *> next = at;
        for (size_t k = 0; k < slots.size(); ++k)
          next[k] += i * loops.outerStride(k, d) * static_cast<int64_t>(elements[k]);
        TANDEM_RETURN_IF_ERROR(issueStrided(stream, next, d + 1));
      }
      return Status();
    }
    size_t unused = kStridedDims - 1 - (outer - d);
    numbers.assign(unused, 1);
    uint64_t count = static_cast<uint64_t>(loops.inner());
    for (size_t o = d; o < outer; ++o) {
      numbers.push_back(loops.outerExtent(o));
      count *= static_cast<uint64_t>(loops.outerExtent(o));
    }
    numbers.push_back(loops.inner());
    for (size_t k = 0; k < slots.size(); ++k) {
      numbers.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(at[k])));
      numbers.insert(numbers.end(), unused, 0);
      for (size_t o = d; o < outer; ++o)
        numbers.push_back(loops.outerStride(k, o));
      numbers.push_back(loops.innerStride(k));
    }
    uint64_t most = uint64_t(tools->driver().info().processors) * 32;
    Grid grid{
        static_cast<unsigned>(std::clamp<uint64_t>((count + kThreads - 1) / kThreads, 1, most)), 1,
        kThreads};
    return launch(kernel.strided, grid, stream);
  }

  Status launch(FunctionHandle function, Grid grid, GpuStream &stream) {
    arguments.clear();
    for (int64_t &number : numbers)
      arguments.push_back(&number);
    return tools->driver().launch(function, grid, stream.native(), arguments.data());
  }

  Tools tools; ///< keeps the module loaded
  ProgramKernel kernel;
  std::vector<uint32_t> slots;
  std::vector<unsigned> elements; ///< bytes per element, per operand
  Loops loops;
  unsigned vector = 1;
  bool adjacent = false; ///< `rows` can run it if the addresses are aligned
  /// Of the call that is issued. Kept, so that a run allocates nothing (but in more dimensions than
  /// `strided` walks).
  std::vector<int64_t> numbers;
  std::vector<void *> arguments;
  std::vector<std::byte *> bases;
};

/// A launch passes as many numbers as the kernel declares: the driver would read beyond fewer.
Status checkParameters(Driver &driver, FunctionHandle function, const char *entry, size_t count) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<uint32_t> *sizes, driver.argumentSizes(function));
  if (sizes->size() == count &&
      std::all_of(sizes->begin(), sizes->end(), [](uint32_t size) { return size == 8; }))
    return Status();
  return Status(Code::InvalidProgram,
                fmt::format("entry \"{}\": expected {} parameters of 8 bytes, found {} of {} bytes",
                            entry, count, sizes->size(), fmt::join(*sizes, ", ")));
}

/// See docs/kernels.md.
Status checkEntries(Driver &driver, const ProgramKernel &kernel, size_t operands) {
  TANDEM_RETURN_IF_ERROR(checkParameters(driver, kernel.rows, "rows", 2 + 3 * operands));
  return checkParameters(driver, kernel.strided, "strided",
                         kStridedDims + (1 + kStridedDims) * operands);
}

} // namespace

Toolbox::~Toolbox() {
  for (auto &[code, kernel] : programKernels)
    driver().unloadModule(kernel.module).ignore();
  for (auto &[kernel, image] : images)
    driver().unloadModule(image.module).ignore();
}

Expected<ProgramKernel> Toolbox::loadProgramKernel(const std::string &code) {
  std::lock_guard<std::mutex> lock(mutex);
  if (auto known = programKernels.find(code); known != programKernels.end())
    return known->second;
  ProgramKernel kernel;
  TANDEM_RETURN_IF_ERROR(driver().loadModule(code, &kernel.module));
  Status status = driver().function(kernel.module, "rows", &kernel.rows);
  if (status.ok())
    status = driver().function(kernel.module, "strided", &kernel.strided);
  if (!status.ok()) {
    driver().unloadModule(kernel.module).ignore();
    return status;
  }
  programKernels.emplace(code, kernel);
  return kernel;
}

Expected<std::unique_ptr<Operation>> prepareLaunch(const Tools &tools, const LaunchDesc &desc) {
  std::string where = fmt::format("kernel \"{}\": ", desc.name);
  const NativeKernel *native = choose(desc, tools->driver());
  if (!native)
    return Status(Code::Unsupported,
                  fmt::format("{}the program has no code for {} ({}); {}", where,
                              tools->driver().info().name, tools->driver().info().target,
                              tools->driver().vendor().kernelAdvice));
  std::string code(reinterpret_cast<const char *>(native->code), native->codeSize);
  auto kernel = tools->loadProgramKernel(code);
  if (!kernel)
    return kernel.status().withPrefix(where);
  TANDEM_RETURN_IF_ERROR(
      checkEntries(tools->driver(), *kernel, desc.operands.size()).withPrefix(where));
  auto operation = std::make_unique<NativeOperation>(tools, *kernel);
  operation->prepare(desc);
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace tandem::gpu
