//===- KernelArguments.h - argument structs of the GPU kernels --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Included by the host compiler and by nvcc.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_KERNELARGUMENTS_H
#define TANDEM_LIB_DEVICE_GPU_KERNELARGUMENTS_H

#include <stdint.h>

namespace tandem::gpu {

enum : int { kMaxOuter = 15, kMaxNestOperands = 3 };

/// A loop nest over operands of one shape: `inner` units per row, and the outer dimensions. A unit
/// is one element or a pack of contiguous elements; strides count elements.
struct Nest {
  uint64_t total = 0; ///< units
  uint64_t inner = 0;
  int32_t outer = 0; ///< dimensions
  int32_t reserved = 0;
  uint64_t extents[kMaxOuter] = {};
  int64_t strides[kMaxNestOperands][kMaxOuter] = {};
  int64_t innerStrides[kMaxNestOperands] = {};
};

// An abort. The host sets the flag by a plain store: a word of the host's memory, which waiting
// kernels look at now and then. It needs no copy engine and no queue, in which it could be behind
// the very wait that it must end. A wait that the flag ends lets later work of its stream run on
// data that never came, so before that it sets the device's word `stopped` and clears the words
// that signals are copied from. Kernels that signal read `stopped` first: it is nearer than the
// flag.

/// Words that signals are copied from, behind the device's word `stopped`.
enum : int { kSignalWords = 254 };
/// Of `stopped`, from 0 on: signals are not to be raised; the words behind it are cleared, too.
enum : int { kStopping = 1, kStopped = 2 };

/// Values that depend on the run number, so the graph cannot hold them as constants.
enum : int { kMaxSignalWords = 8 };
struct SignalWord {
  uint64_t *at = nullptr;
  uint64_t perRun = 0, value = 0; ///< *at becomes number * perRun + value
};
struct RunWords {
  uint64_t *epoch = nullptr; ///< the previous run's number; becomes this run's
  uint64_t *stopped = nullptr;
  int32_t count = 0;
  int32_t reserved = 0;
  SignalWord words[kMaxSignalWords];
};

/// An abort writes this value into the rank's own signals. It is above every epoch, and its
/// difference to any epoch is positive as a signed number.
constexpr uint64_t kPoison = uint64_t(1) << 62;

/// Threads of a block of a fused exchange. Next to a matmul, whose blocks fill their SMs, it has
/// its SM for itself; these threads keep 64 KiB of loads under way.
enum : int { kExchangeThreads = 512 };

/// A signal that a fused exchange raises or awaits: *epoch * perRun + value, epoch 0 if null. By
/// blocks: the first of one for each block.
struct ExchangeSignal {
  uint64_t *at = nullptr;
  uint64_t perRun = 0, value = 0;
};

/// The limits of a fused exchange (program::kMostExchangeSteps and so on).
enum : int {
  kMostExchangeSteps = 28,
  kMostExchangeNests = 2,
  kMostExchangeStores = 28,
  kMostExchangeWaits = 16,
  kMostExchangeSignals = 28
};
struct ExchangeStore {
  void *target = nullptr;
  const void *source = nullptr;
};
/// A step of a fused exchange: all waits, then each target = the sum of the `terms` sources that
/// begin at its source, then all signals. The steps' waits, stores and signals follow each other.
struct ExchangeStepArguments {
  int64_t terms = 1, termStride = 0; ///< elements
  int32_t nest = 0;
  int16_t reduces = 0; ///< else bits are copied
  int16_t op = 0;      ///< ReduceOp
  int32_t numWaits = 0, numStores = 0, numSignals = 0, reserved = 0;
};
/// What both kinds of exchange have.
struct ExchangeRunArguments {
  uint64_t *epoch = nullptr;
  const uint64_t *abortFlag = nullptr; ///< host memory
  uint64_t *stopped = nullptr;
  uint64_t *progress = nullptr; ///< host memory: `command` while it waits
  uint64_t command = 0;
  /// In all runs: per step the blocks that have come to its end, or those that have read *epoch.
  uint64_t *arrivals = nullptr;
};
struct alignas(16) ExchangeArguments : ExchangeRunArguments {
  int32_t numSteps = 0;
  int32_t countsRun = 0;      ///< *epoch is the previous run's number, and becomes this run's
  int32_t flagBlocks = 0;     ///< blocks with flags of their own; 0: one signal per step
  int32_t unitsPerThread = 1; ///< units that follow each other for one thread
  int32_t plain = 0;          ///< signals are plain stores: nobody else raises their words
  int32_t reserved = 0;
  ExchangeStepArguments steps[kMostExchangeSteps];
  Nest nests[kMostExchangeNests]; ///< operands: target, source
  ExchangeStore stores[kMostExchangeStores];
  ExchangeSignal waits[kMostExchangeWaits], signals[kMostExchangeSignals];
};
static_assert(sizeof(ExchangeArguments) < 4096, "the most that all GPUs take as an argument");

/// A one-shot exchange by the LL protocol, as NCCL has it: each unit of 16 bytes travels as four
/// words of 4 bytes, each with the exchange's number behind it. Unit p of rank s is two pairs of
/// words at number % 2 * bufferWords + 2 * (s * 2 * units + h * units + p), h = 0, 1, in words of 8
/// bytes. Arrays by rank have the term of a sum as index, else the number of the member.
enum : int { kMaxLLRanks = 8 };
struct alignas(16) LLArguments : ExchangeRunArguments {
  uint64_t perRun = 0, value = 0;        ///< the exchange's number is *epoch * perRun + value
  const void *sources[kMaxLLRanks] = {}; ///< what each rank gets
  void *slots[kMaxLLRanks] = {};         ///< of the program: get what comes from each rank
  void *copies[kMaxLLRanks] = {};        ///< likewise; null: none
  void *sum = nullptr;                   ///< of all that has come; null: nothing is added
  uint64_t *buffers[kMaxLLRanks] = {};   ///< the LL buffers at each rank; own ones at `own`
  uint64_t bufferWords = 0;              ///< of one of two LL buffers
  uint64_t units = 0;                    ///< of 16 bytes, the last perhaps in part
  int32_t ranks = 0, own = 0;
  int32_t countsRun = 0; ///< *epoch is the previous run's number, and becomes this run's
  int32_t op = 0;        ///< ReduceOp
  Nest nest;             ///< operands: sum, source, slot or copy
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_KERNELARGUMENTS_H
