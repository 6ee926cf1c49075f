//===- CpuDevice.cpp - the host as a device ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuDevice.h"
#include "CpuStream.h"

#include "tandem/Runtime/HostOps.h"

#include <cstdlib>
#include <cstring>

namespace tandem {

namespace cpu {
namespace {

class CpuMemory final : public Memory {
public:
  CpuMemory(void *memory, uint64_t size) {
    base = memory;
    bytes = size;
  }
  ~CpuMemory() override { std::free(base); }
};

class CopyOperation final : public HostOperation {
public:
  CopyOperation(const Operand &dst, const Operand &src)
      : dst(dst.slot), src(src.slot), plan(dst.layout, src.layout) {}
  Status execute(const Frame &frame) override {
    plan.run(frame.pointers[dst], frame.pointers[src]);
    return Status();
  }

private:
  uint32_t dst, src;
  CopyPlan plan;
};

class AccumulateOperation final : public HostOperation {
public:
  AccumulateOperation(const Operand &dst, const Operand &src, ReduceOp op)
      : dst(dst.slot), src(src.slot), plan(dst.layout, {dst.layout, src.layout}, op) {}
  Status execute(const Frame &frame) override {
    plan.run(frame.pointers[dst], {frame.pointers[dst], frame.pointers[src]});
    return Status();
  }

private:
  uint32_t dst, src;
  CombinePlan plan;
};

class ReduceOperation final : public HostOperation {
public:
  ReduceOperation(const Operand &dst, const Operand &src, uint64_t dims, ReduceOp op)
      : dst(dst.slot), src(src.slot), plan(dst.layout, src.layout, dims, op) {}
  Status execute(const Frame &frame) override {
    plan.run(frame.pointers[dst], frame.pointers[src]);
    return Status();
  }

private:
  uint32_t dst, src;
  ReducePlan plan;
};

class CpuDevice final : public Device {
public:
  explicit CpuDevice(const CpuDeviceOptions &options) : shared(std::make_shared<Shared>()) {
    shared->matmulThreads = options.matmulThreads ? options.matmulThreads : 1;
  }

  std::string_view name() const override { return "cpu"; }
  bool hostMemory() const override { return true; }

  Expected<std::unique_ptr<Stream>> createStream(StreamPriority) override {
    return std::make_unique<CpuStream>(shared);
  }
  Expected<std::unique_ptr<Event>> createEvent() override {
    return std::make_unique<CpuEvent>(shared);
  }
  Expected<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind) override {
    constexpr uint64_t align = 64;
    uint64_t rounded = (bytes + align - 1) / align * align;
    void *memory = rounded < bytes ? nullptr : std::aligned_alloc(align, rounded ? rounded : align);
    if (!memory)
      return Status(Code::OutOfMemory, "cannot allocate " + std::to_string(bytes) + " bytes");
    std::memset(memory, 0, rounded ? rounded : align);
    return std::make_unique<CpuMemory>(memory, bytes);
  }

  Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &dst,
                                                   const Operand &src) override {
    return std::make_unique<CopyOperation>(dst, src);
  }
  Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &desc) override {
    return cpu::prepareMatmul(desc, shared->matmulThreads);
  }
  Expected<std::unique_ptr<Operation>> prepareAccumulate(const Operand &dst, const Operand &src,
                                                         ReduceOp op) override {
    return std::make_unique<AccumulateOperation>(dst, src, op);
  }
  Expected<std::unique_ptr<Operation>> prepareReduce(const Operand &dst, const Operand &src,
                                                     uint64_t dims, ReduceOp op) override {
    return std::make_unique<ReduceOperation>(dst, src, dims, op);
  }
  Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc) override {
    return cpu::prepareLaunch(desc);
  }

  void abort(const Status &reason) override { shared->abort(reason); }

private:
  std::shared_ptr<Shared> shared;
};

} // namespace
} // namespace cpu

std::unique_ptr<Device> createCpuDevice(const CpuDeviceOptions &options) {
  return std::make_unique<cpu::CpuDevice>(options);
}

} // namespace tandem
