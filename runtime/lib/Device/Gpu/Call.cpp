//===- Call.cpp - kernels of the embedder, and built-in ones ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"
#include "Grouped.h"

#include "tandem/Program/BuiltinKernels.h"

#include <fmt/format.h>

namespace tandem::gpu {

namespace {

std::unique_ptr<Operation> runFunction(Tools tools, const CallDesc &desc) {
  return makeGpuOperation([tools = std::move(tools), desc](GpuStream &stream, const Frame &frame) {
    const void *addresses[TANDEM_KERNEL_MAX_OPERANDS + 1];
    size_t count = desc.slots.size();
    for (size_t k = 0; k < count; ++k)
      addresses[k] = frame.pointers[desc.slots[k]];
    // With another extent the function would enqueue other work.
    if (!desc.varying.empty())
      addresses[count++] =
          reinterpret_cast<void *>(frame.extent); // NOLINT(performance-no-int-to-ptr)
    return tools->driver().library(stream.native(), addresses, count, [&] {
      // The function may use the GPU that is current on its thread.
      return tools->driver().within(
          [&] { return callKernel(desc, desc.kernel->gpuFunction, stream.native(), frame); });
    });
  });
}

class GroupedOperation final : public GpuOperation {
public:
  GroupedOperation(Tools tools, const CallDesc &desc) : tools(std::move(tools)), desc(desc) {}
  void alignments(const std::function<void(uint32_t, uint32_t)> &note) const override {
    for (size_t k = 0; k < 3; ++k) // y, x, w
      note(desc.slots[k], kRowBytes);
  }
  Status issue(GpuStream &stream, const Frame &frame) override {
    const void *addresses[TANDEM_KERNEL_MAX_OPERANDS];
    size_t count = desc.slots.size();
    for (size_t k = 0; k < count; ++k)
      addresses[k] = frame.pointers[desc.slots[k]];
    return tools->driver().library(stream.native(), addresses, count, [&] {
      return tools->driver().within([&] {
        tandem_kernel_operand operands[TANDEM_KERNEL_MAX_OPERANDS];
        desc.fill(frame, operands);
        return groupedMatmul(stream.native(), desc.config, operands, count);
      });
    });
  }

private:
  Tools tools;
  CallDesc desc;
};

Expected<std::unique_ptr<Operation>> prepareBuiltin(const Tools &tools, const CallDesc &desc) {
  if (desc.kernel->name != program::kGroupedMatmul)
    return Status(Code::Unsupported, "the device has no such kernel");
  // Nothing says yet that all tiles add in one order.
  if (desc.ordered)
    return Status(Code::Unsupported, "expected a program that is not deterministic on a GPU");
  std::string why = whyNotGroupedMatmul(tools->driver().info(), desc.config, desc.operands.data(),
                                        desc.operands.size());
  if (!why.empty())
    return Status(Code::Unsupported, why);
  // Else the first run would, and might wait for a kernel that waits for this rank.
  TANDEM_RETURN_IF_ERROR(tools->driver().within(
      [&] { return loadGroupedMatmul(desc.config, desc.operands.data(), desc.operands.size()); }));
  return std::make_unique<GroupedOperation>(tools, desc);
}

/// `tools` keeps the image loaded.
std::unique_ptr<Operation> runImage(Tools tools, FunctionHandle function, const CallDesc &desc) {
  return makeGpuOperation(
      [tools = std::move(tools), function, desc](GpuStream &stream, const Frame &frame) {
        tandem_kernel_operand operands[TANDEM_KERNEL_MAX_OPERANDS];
        void *arguments[TANDEM_KERNEL_MAX_OPERANDS];
        desc.fill(frame, operands);
        for (size_t k = 0; k < desc.operands.size(); ++k)
          arguments[k] = &operands[k];
        int64_t perBlock = desc.kernel->indicesPerBlock;
        auto blocks = static_cast<unsigned>((desc.indices + perBlock - 1) / perBlock);
        return tools->driver().launch(function, {blocks, 1, desc.kernel->threads}, stream.native(),
                                      arguments);
      });
}

} // namespace

Expected<FunctionHandle> Toolbox::loadImage(const std::shared_ptr<const ExternalKernel> &kernel) {
  std::lock_guard<std::mutex> lock(mutex);
  if (auto known = images.find(kernel); known != images.end())
    return known->second.function;
  LoadedImage image;
  TANDEM_RETURN_IF_ERROR(
      driver().loadModule({kernel->image.data(), kernel->image.size() - 1}, &image.module));
  Status status = driver().function(image.module, kernel->entry.c_str(), &image.function);
  if (!status.ok()) {
    driver().unloadModule(image.module).ignore();
    return status;
  }
  images.emplace(kernel, image);
  return image.function;
}

Expected<std::unique_ptr<Operation>> prepareCall(const Tools &tools, const CallDesc &desc) {
  if (desc.isBuiltin)
    return prepareBuiltin(tools, desc);
  const ExternalKernel &kernel = *desc.kernel;
  if (kernel.gpuFunction)
    return runFunction(tools, desc);
  if (kernel.image.empty())
    return Status(Code::Unsupported, "expected a function or an image for GPUs, found none");
  if (desc.indices > int64_t(kernel.indicesPerBlock) * 0x7fffffff)
    return Status(Code::Unsupported, "expected at most 2^31 - 1 blocks");
  TANDEM_ASSIGN_OR_RETURN(FunctionHandle function, tools->loadImage(desc.kernel));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<uint32_t> *sizes,
                          tools->driver().argumentSizes(function));
  bool fits = sizes->size() == desc.operands.size();
  for (uint32_t size : *sizes)
    fits = fits && size == sizeof(tandem_kernel_operand);
  if (!fits)
    return Status(Code::Unsupported,
                  fmt::format("kernel \"{}\" of the image: expected {} parameters, each a "
                              "tandem_kernel_operand of {} bytes; found {} parameters of {} bytes",
                              kernel.entry, desc.operands.size(), sizeof(tandem_kernel_operand),
                              sizes->size(), fmt::join(*sizes, ", ")));
  return runImage(tools, function, desc);
}

} // namespace tandem::gpu
