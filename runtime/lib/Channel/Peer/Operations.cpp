//===- Operations.cpp - puts and signals by the GPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A put is a copy into mapped memory of a peer, by the copy engines where its layout allows. A
// signal is a kernel of one thread. After a put in a graph it is a copy, if no other rank or stream
// raises the slot: changing from copies to a kernel and back costs microseconds. A wait is a stream
// memory operation, which needs no SM. It is a kernel in graphs, whose nodes are constant, because
// it reads the run's number and stream memory operations are slow there. It is also a kernel if
// several ranks share hardware queues, or if signals may be lowered (PeerMemory::waitsInKernels()).
//
//===----------------------------------------------------------------------===//

#include "PeerMemory.h"

#include <fmt/format.h>

namespace tandem::peer {

using gpu::argument;
using gpu::CopyPlan;
using gpu::GpuStream;
using gpu::Kernels;

namespace {

class WaitSignalOperation final : public gpu::GpuOperation {
public:
  WaitSignalOperation(PeerMemoryRef peers, uint32_t self, const Kernels &kernels,
                      const WaitSignal &wait, gpu::FunctionHandle await,
                      gpu::FunctionHandle countRun, uint64_t *stopped, gpu::HeldProcessors held,
                      std::string whyNoKernel)
      : peers(std::move(peers)), kernels(kernels), self(self), wait(wait), await(await),
        countRun(countRun), stopped(stopped), held(std::move(held)),
        whyNoKernel(std::move(whyNoKernel)) {}

  /// The driver may wait for another rank's graph, which waits for this rank's.
  std::string whyNoGraph() const override {
    return peers->ranksShareQueues() ? "ranks of one process share this GPU, and the driver "
                                       "creates graphs only while it is idle"
                                     : whyNoKernel;
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    void *slot = (*peers)[self].signal(frame.firstSignal + wait.slot), *epoch = nullptr;
    uint64_t perRun = wait.perRun, value = wait.value, mark = marker;
    if (gpu::Capture *capture = stream.capturing()) {
      if (!whyNoKernel.empty())
        return Status(Code::Unsupported, "channel peer: " + whyNoKernel);
      epoch = capture->epoch;
      capture->reads(countRun);
    } else {
      value += frame.epoch * perRun;
      if (kernels.driver.info().streamValues && !peers->waitsInKernels()) {
        TANDEM_RETURN_IF_ERROR(kernels.driver.waitValue(stream.native(), slot, value));
        return stream.track(marker);
      }
    }
    void *progress = stream.progressWord(), *at = slot;
    const uint64_t *flag = peers->shared().abortFlag();
    void *arguments[] = {argument(at),       argument(epoch), argument(perRun), argument(value),
                         argument(progress), argument(mark),  argument(flag),   argument(stopped)};
    TANDEM_RETURN_IF_ERROR(kernels.driver.launch(await, {1, 1, 1}, stream.native(), arguments));
    return stream.track(marker);
  }

private:
  PeerMemoryRef peers;
  const Kernels &kernels;
  uint32_t self;
  const WaitSignal wait;
  gpu::FunctionHandle await, countRun;
  uint64_t *stopped;
  gpu::HeldProcessors held;
  std::string whyNoKernel; ///< empty: it may wait by a kernel
};

} // namespace

Expected<std::unique_ptr<Operation>> preparePut(PeerMemoryRef peers, const Kernels &kernels,
                                                const Put &put) {
  const Member &peer = (*peers)[put.peer];
  TANDEM_RETURN_IF_ERROR(checkTarget(put, peer.bufferBytes, peer.rank));
  TANDEM_ASSIGN_OR_RETURN(CopyPlan plan, CopyPlan::make(kernels, put.dst, put.src.layout));
  return gpu::makeGpuOperation([peers = std::move(peers), &kernels, put,
                                plan = std::move(plan)](GpuStream &stream, const Frame &frame) {
    const Member &peer = (*peers)[put.peer];
    if (plan.isCopy())
      stream.noteCopy();
    return plan.run(kernels, stream.native(),
                    peer.base + frame.parity * peer.bufferBytes + put.offset,
                    frame.pointers[put.src.slot]);
  });
}

Expected<std::unique_ptr<Operation>> prepareSignal(PeerMemoryRef peers, const Kernels &kernels,
                                                   const Signal &signal) {
  const Member &peer = (*peers)[signal.peer];
  TANDEM_RETURN_IF_ERROR(checkSlot(signal.slot, peer.numSignals, peer.rank));
  if (peers->signalsPlainly() && !signal.exclusive && !signal.ofBarrier)
    return Status(Code::Unsupported,
                  fmt::format("channel peer: several ranks or streams raise signal slot {} of rank "
                              "{}, and GPUs of its group have no atomic operations on each other's "
                              "memory, or may have none",
                              signal.slot, peer.rank));
  TANDEM_ASSIGN_OR_RETURN(gpu::FunctionHandle raise, kernels.get("signal_raise"));
  TANDEM_ASSIGN_OR_RETURN(gpu::FunctionHandle countRun, kernels.get("run_words"));
  TANDEM_ASSIGN_OR_RETURN(const uint64_t *stopped, peers->shared().stoppedWord());
  // After an abort of this rank, the kernel does nothing and the copy writes 0. A stream memory
  // operation cannot test for an abort: it could announce data that was never sent.
  return gpu::makeGpuOperation([peers = std::move(peers), &kernels, signal, raise, countRun,
                                stopped](GpuStream &stream, const Frame &frame) {
    void *slot = (*peers)[signal.peer].signal(frame.firstSignal + signal.slot), *epoch = nullptr;
    uint64_t perRun = signal.perRun, value = signal.value;
    if (gpu::Capture *capture = stream.capturing()) {
      capture->reads(countRun);
      uint64_t *copied =
          signal.exclusive && stream.followsCopy() ? capture->signalWord(perRun, value) : nullptr;
      if (copied) {
        stream.noteCopy();
        return kernels.driver.copyAsync(slot, copied, sizeof(uint64_t), stream.native());
      }
      epoch = capture->epoch;
    } else {
      value += frame.epoch * perRun;
    }
    const void *word = stopped;
    uint64_t plain = peers->signalsPlainly();
    void *arguments[] = {argument(slot),  argument(epoch), argument(perRun),
                         argument(value), argument(word),  argument(plain)};
    return kernels.driver.launch(raise, {1, 1, 1}, stream.native(), arguments);
  });
}

Expected<std::unique_ptr<Operation>> prepareWaitSignal(PeerMemoryRef peers, uint32_t self,
                                                       const Kernels &kernels,
                                                       const WaitSignal &wait) {
  const Member &mine = (*peers)[self];
  TANDEM_RETURN_IF_ERROR(checkSlot(wait.slot, mine.numSignals, mine.rank));
  TANDEM_ASSIGN_OR_RETURN(gpu::FunctionHandle await, kernels.get("signal_wait"));
  TANDEM_ASSIGN_OR_RETURN(gpu::FunctionHandle countRun, kernels.get("run_words"));
  TANDEM_ASSIGN_OR_RETURN(uint64_t *stopped, peers->shared().stoppedWord());
  std::string whyNoKernel;
  gpu::HeldProcessors none;
  auto held = gpu::HeldProcessors::take(peers->shared(), peers->user(wait.stream), 1, 1);
  if (!held) {
    if (!kernels.driver.info().streamValues || peers->waitsInKernels())
      return held.status().withPrefix("channel peer: ");
    whyNoKernel = held.status().message(); // outside of graphs, waits need no SM
  }
  return std::make_unique<WaitSignalOperation>(
      std::move(peers), self, kernels, wait, await, countRun, stopped,
      held ? std::move(*held) : std::move(none), std::move(whyNoKernel));
}

} // namespace tandem::peer
