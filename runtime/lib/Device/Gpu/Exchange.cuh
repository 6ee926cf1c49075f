//===- Exchange.cuh - an exchange that signals per step or per block ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_EXCHANGE_CUH
#define TANDEM_LIB_DEVICE_GPU_EXCHANGE_CUH

#include "KernelAbort.h"
#include "KernelElements.cuh"

namespace tandem::gpu {
namespace {

/// The arguments of an exchange, with the run's number.
struct ExchangeRun {
  const ExchangeArguments &exchange;
  uint64_t number;
  /// Where this block raises or awaits the signal.
  __device__ uint64_t *wordOf(const ExchangeSignal &signal) const {
    return signal.at + (exchange.flagBlocks ? blockNumber() : 0);
  }
  __device__ uint64_t targetOf(const ExchangeSignal &signal) const {
    return number * signal.perRun + signal.value;
  }
};

/// Awaits the signals of a step. False after an abort, for all threads of the block.
__device__ bool awaitSignals(const ExchangeRun &run, const ExchangeStepArguments &step,
                             const ExchangeSignal *waits) {
  if (step.numWaits == 0)
    return true;
  const ExchangeArguments &exchange = run.exchange;
  __shared__ int hasWaited, isPoisoned;
  unsigned thread = threadNumber();
  if (thread == 0)
    hasWaited = isPoisoned = 0;
  syncBlock();
  if (thread < static_cast<unsigned>(step.numWaits)) {
    const ExchangeSignal &wait = waits[thread];
    const uint64_t *at = run.wordOf(wait);
    uint64_t target = run.targetOf(wait), value = 0;
    for (unsigned polls = 0; (value = acquireShared(at)) < target; ++polls) {
      if (polls < kShortPolls)
        continue;
      if (polls == kShortPolls && blockNumber() == 0) {
        hasWaited = 1;
        storeShared(exchange.progress, exchange.command);
      }
      if (isAborted(exchange.abortFlag, exchange.stopped, polls)) {
        value = kPoison;
        break;
      }
      pauseThread();
    }
    if (value >= kPoison)
      isPoisoned = 1;
  }
  syncBlock();
  if (thread == 0 && hasWaited)
    storeShared(exchange.progress, ~uint64_t(0));
  bool goesOn = !isPoisoned;
  if (thread == 0 && !goesOn)
    stopSignals(exchange.stopped);
  syncBlock();
  return goesOn;
}

enum class Move { Copy, Sum, Reduce };

/// The bits of a unit, loaded as one: the elements would take a register each.
template <unsigned bytes> struct Bits {
  using Type = Word128;
};
template <> struct Bits<1> {
  using Type = uint8_t;
};
template <> struct Bits<2> {
  using Type = uint16_t;
};
template <> struct Bits<4> {
  using Type = uint32_t;
};

/// The units that a thread moves at a time, so that their loads overlap.
template <typename T, int N, int count> struct Batch {
  using Word = typename Bits<sizeof(T) * N>::Type;
  int64_t at[count][2]; ///< in the target, in the source
  Word value[count];
};

template <Move move, typename T, int N, int count>
__device__ void takeValues(const ExchangeStepArguments &step, const T *source,
                           Batch<T, N, count> &batch) {
  using P = Pack<T, N>;
  using A = typename Arithmetic<T>::Type;
  using Word = typename Batch<T, N, count>::Word;
  if constexpr (move == Move::Copy) {
#pragma unroll
    for (int b = 0; b < count; ++b)
      batch.value[b] = *reinterpret_cast<const Word *>(source + batch.at[b][1]);
  } else {
    int op = move == Move::Sum ? 0 : step.op;
    A sum[count][N];
#pragma unroll
    for (int b = 0; b < count; ++b)
#pragma unroll
      for (int e = 0; e < N; ++e)
        sum[b][e] = identity<T>(op);
    const T *from = source;
#pragma unroll 2
    for (int64_t term = 0; term < step.terms; ++term, from += step.termStride) {
      Word x[count];
#pragma unroll
      for (int b = 0; b < count; ++b)
        x[b] = *reinterpret_cast<const Word *>(from + batch.at[b][1]);
#pragma unroll
      for (int b = 0; b < count; ++b)
#pragma unroll
        for (int e = 0; e < N; ++e)
          sum[b][e] = combine(op, sum[b][e], widen(reinterpret_cast<const P &>(x[b]).v[e]));
    }
#pragma unroll
    for (int b = 0; b < count; ++b)
#pragma unroll
      for (int e = 0; e < N; ++e)
        narrow(sum[b][e], reinterpret_cast<P &>(batch.value[b]).v[e]);
  }
}

/// Moves units i, i + units, ... A source that several stores have is read once.
template <Move move, bool dense, typename T, int N, int count>
__device__ void moveBatch(const ExchangeStepArguments &step, const Nest &nest,
                          const ExchangeStore *stores, uint32_t i, uint32_t units) {
  Batch<T, N, count> batch;
#pragma unroll
  for (int b = 0; b < count; ++b) {
    if (dense)
      batch.at[b][0] = batch.at[b][1] = int64_t(i + b * units) * N;
    else
      locate(nest, i + b * units, batch.at[b]);
  }
  for (int k = 0; k < step.numStores;) {
    const void *source = stores[k].source;
    takeValues<move>(step, asGlobal(static_cast<const T *>(source)), batch);
#pragma unroll 1
    do {
      T *target = asGlobal(static_cast<T *>(stores[k].target));
#pragma unroll
      for (int b = 0; b < count; ++b)
        *reinterpret_cast<typename Batch<T, N, count>::Word *>(target + batch.at[b][0]) =
            batch.value[b];
    } while (++k < step.numStores && stores[k].source == source);
  }
}

template <Move move, bool dense, typename T, int N>
__device__ void moveUnits(const ExchangeStepArguments &step, const Nest &nest,
                          const ExchangeStore *stores) {
  constexpr int count = !dense ? 2 : move == Move::Copy ? 8 : 4; // what registers hold
  uint32_t total = nest.total, units = unitStep<uint32_t>(), i = firstUnit<uint32_t>();
  for (; i + (count - 1) * units < total; i += count * units)
    moveBatch<move, dense, T, N, count>(step, nest, stores, i, units);
  for (; i < total; i += units)
    moveBatch<move, dense, T, N, 1>(step, nest, stores, i, units);
}

/// The same, where runs of `run` units that follow each other are for one thread: so that each
/// block has the elements that it would have in packs.
template <Move move, typename T, int N>
__device__ void moveRuns(const ExchangeStepArguments &step, const Nest &nest,
                         const ExchangeStore *stores, uint32_t run) {
  uint32_t total = nest.total;
  for (auto i = firstUnit<uint32_t>(); i < (total + run - 1) / run; i += unitStep<uint32_t>())
#pragma unroll 1
    for (uint32_t unit = i * run; unit < (i + 1) * run && unit < total; ++unit)
      moveBatch<move, false, T, N, 1>(step, nest, stores, unit, 0);
}

/// Thread i handles the same units in every step, so it may read what it has written.
template <Move move, typename T, int N>
__device__ void runMoves(const ExchangeStepArguments &step, const Nest &nest,
                         const ExchangeStore *stores, int unitsPerThread) {
  if (N == 1 && unitsPerThread > 1)
    moveRuns<move, T, N>(step, nest, stores, static_cast<uint32_t>(unitsPerThread));
  else if (nest.outer == 0 && nest.innerStrides[0] == N && nest.innerStrides[1] == N)
    moveUnits<move, true, T, N>(step, nest, stores);
  else
    moveUnits<move, false, T, N>(step, nest, stores);
}

/// Raises a signal, which the caller has fenced. Memory without atomic operations gets a plain
/// store: the word then has one writer, whose values grow.
__device__ void raiseSignal(uint64_t *at, uint64_t value, bool plain) {
  if (plain)
    storeShared(at, value);
  else
    raiseShared(reinterpret_cast<unsigned long long *>(at), static_cast<unsigned long long>(value));
}

/// Raises the signals of a step, by the last block that arrives: then the stores of all blocks are
/// visible. Raises nothing after an abort.
__device__ void raiseSignals(const ExchangeRun &run, const ExchangeStepArguments &step,
                             const ExchangeSignal *signals, uint64_t *arrivals, bool counts) {
  const ExchangeArguments &exchange = run.exchange;
  bool isFirst = threadNumber() == 0;
  // Load the abort flag before the fence, so that both latencies overlap.
  bool raises = isFirst && !loadShared(exchange.stopped);
  syncBlock();
  if (!isFirst)
    return;
  publishShared();
  if (gridBlocks() > 1) {
    if ((addDevice(arrivals, 1) + 1) % gridBlocks() != 0)
      return;
    publishShared(); // what the other blocks have stored
  }
  for (int i = 0; raises && i < step.numSignals; ++i)
    raiseSignal(signals[i].at, run.targetOf(signals[i]), exchange.plain);
  // All blocks have read it.
  if (counts)
    storeShared(exchange.epoch, run.number);
}

/// Raises the flags of this block, after the stores of its threads are visible.
__device__ void raiseOwnSignals(const ExchangeRun &run, const ExchangeStepArguments &step,
                                const ExchangeSignal *signals) {
  unsigned thread = threadNumber();
  bool raises = thread < static_cast<unsigned>(step.numSignals) &&
                !loadShared(run.exchange.stopped); // not after an abort
  syncBlock();
  if (!raises)
    return;
  publishShared();
  raiseSignal(run.wordOf(signals[thread]), run.targetOf(signals[thread]), run.exchange.plain);
}

/// Counts the run where blocks do not wait for each other: the last block that has read the run's
/// number writes it when the block ends.
class RunCounter {
public:
  /// By one thread, when all of its block have read the number.
  __device__ void enter(uint64_t *arrivals, uint64_t number) {
    // Not before the number has arrived, on which the sum depends. Its result is awaited later.
    before = addDevice(arrivals, 1 + (number >> 63));
    entered = true;
  }
  __device__ void leave(uint64_t *epoch, uint64_t number) const {
    if (entered && (before + 1) % gridBlocks() == 0)
      storeShared(epoch, number);
  }

private:
  uint64_t before = 0;
  bool entered = false;
};

/// The parameters in shared memory: a miss of the constant cache costs about 1 us.
template <typename Arguments> __device__ const Arguments &copyToShared(const Arguments &parameter) {
  __shared__ alignas(16) char copy[sizeof(Arguments)];
  static_assert(sizeof copy % 16 == 0, "copied in words of 16 bytes");
  for (unsigned i = threadNumber(); i < sizeof copy / 16; i += blockThreads())
    reinterpret_cast<Word128 *>(copy)[i] = loadParameter(&parameter, i);
  syncBlock();
  return *reinterpret_cast<const Arguments *>(copy);
}

/// All blocks run at the same time: each waits for peers, whose signals wait for all its blocks.
template <typename T, int N> __device__ void runExchange(const ExchangeArguments &parameter) {
  const ExchangeArguments &exchange = copyToShared(parameter);
  // Read once, before the first signal: this load costs as much as a signal.
  bool counts = exchange.countsRun;
  const ExchangeRun run{exchange, exchange.epoch ? loadShared(exchange.epoch) + counts : 0};
  RunCounter counter;
  if (exchange.flagBlocks && counts) {
    syncBlock();
    if (threadNumber() == 0)
      counter.enter(exchange.arrivals, run.number);
  }
  const ExchangeSignal *waits = exchange.waits, *signals = exchange.signals;
  const ExchangeStore *stores = exchange.stores;
#pragma unroll 1
  for (int s = 0; s < exchange.numSteps; ++s) {
    const ExchangeStepArguments &step = exchange.steps[s];
    const Nest &nest = exchange.nests[step.nest];
    if (!awaitSignals(run, step, waits))
      return;
    if (step.numStores > 0 && !step.reduces)
      runMoves<Move::Copy, T, N>(step, nest, stores, exchange.unitsPerThread);
    if constexpr (sizeof(T) > 1) { // numbers of 8 bits are only moved
      if (step.numStores > 0 && step.reduces && step.op == 0)
        runMoves<Move::Sum, T, N>(step, nest, stores, exchange.unitsPerThread);
      else if (step.numStores > 0 && step.reduces)
        runMoves<Move::Reduce, T, N>(step, nest, stores, exchange.unitsPerThread);
    }
    if (step.numSignals > 0 && exchange.flagBlocks) {
      raiseOwnSignals(run, step, signals);
    } else if (step.numSignals > 0) {
      raiseSignals(run, step, signals, exchange.arrivals + s, counts);
      counts = false;
    }
    waits += step.numWaits;
    stores += step.numStores;
    signals += step.numSignals;
  }
  counter.leave(exchange.epoch, run.number);
}

} // namespace
} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_EXCHANGE_CUH
