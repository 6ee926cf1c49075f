//===- ExchangeLL.cuh - a one-shot exchange by the LL protocol ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_EXCHANGELL_CUH
#define TANDEM_LIB_DEVICE_GPU_EXCHANGELL_CUH

#include "Exchange.cuh"

namespace tandem::gpu {
namespace {

/// The elements of a unit of 16 bytes; behind the last element, any.
template <typename T> union Unit {
  static constexpr int kElements = 16 / sizeof(T);
  __device__ Unit() {}
  Word128 whole;
  uint64_t parts[2];
  T v[kElements];
};

/// Elements of unit p in an operand: as one word, or (N = 1) element by element.
template <typename T, int N, typename Body>
__device__ void forElements(const Nest &nest, uint32_t p, const Body &body) {
  constexpr uint32_t kElements = Unit<T>::kElements;
  int64_t at[kMaxNestOperands];
  if constexpr (N > 1) {
    locate(nest, p, at);
    body(0, at);
  } else {
#pragma unroll 1
    for (uint32_t e = 0; e < kElements && p * kElements + e < nest.total; ++e) {
      locate(nest, p * kElements + e, at);
      body(e, at);
    }
  }
}

template <typename T, int N> __device__ void loadElements(const T *from, int e, Unit<T> &unit) {
  if constexpr (N > 1)
    unit.whole = *reinterpret_cast<const Word128 *>(from);
  else
    unit.v[e] = *from;
}
template <typename T, int N> __device__ void storeElements(T *to, int e, const Unit<T> &unit) {
  if constexpr (N > 1)
    *reinterpret_cast<Word128 *>(to) = unit.whole;
  else
    *to = unit.v[e];
}

/// Waits for words of data: a word has arrived when its flag has.
struct LLWait {
  const LLArguments &exchange;
  uint64_t flag; ///< in the upper half
  bool hasReported = false;

  __device__ bool hasCome(uint64_t word) const { return ((word ^ flag) >> 32) == 0; }
  /// False after an abort.
  __device__ bool goesOn(unsigned polls) {
    if (polls < kShortPolls)
      return true;
    if (blockNumber() == 0 && polls % kShortPolls == 0) {
      hasReported = true;
      storeShared(exchange.progress, exchange.command);
    }
    bool aborted = isAborted(exchange.abortFlag, exchange.stopped, polls);
    if (aborted)
      stopSignals(exchange.stopped);
    else
      pauseThread();
    return !aborted;
  }
};

/// The work of one thread: sends its units, receives those of the other ranks, adds or copies them.
template <typename T, int N> struct LLExchange {
  using A = typename Arithmetic<T>::Type;
  static constexpr int kElements = Unit<T>::kElements;

  const LLArguments &exchange;
  LLWait wait;
  int ranks, own;
  uint32_t units;
  uint64_t buffer; ///< of this exchange: words behind the first of two

  __device__ LLExchange(const LLArguments &exchange, uint64_t number)
      : exchange(exchange), wait{exchange, number << 32}, ranks(exchange.ranks), own(exchange.own),
        units(static_cast<uint32_t>(exchange.units)), buffer(number % 2 * exchange.bufferWords) {}

  __device__ uint64_t *wordsOf(uint64_t *buffers, int from) const {
    return buffers + buffer + static_cast<uint64_t>(from) * 4 * units;
  }
  __device__ void load(int r, uint32_t p, Unit<T> &unit) const {
    const auto *source = asGlobal(static_cast<const T *>(exchange.sources[r]));
    unit.parts[0] = unit.parts[1] = 0;
    forElements<T, N>(exchange.nest, p, [&](int e, const int64_t *at) {
      loadElements<T, N>(source + at[1], e, unit);
    });
  }
  __device__ void store(void *target, uint32_t p, int operand, const Unit<T> &unit) const {
    T *to = asGlobal(static_cast<T *>(target));
    forElements<T, N>(exchange.nest, p, [&](int e, const int64_t *at) {
      storeElements<T, N>(to + at[operand], e, unit);
    });
  }
  /// Stores a unit that has come from rank r.
  __device__ void keep(int r, uint32_t p, const Unit<T> &unit) const {
    store(exchange.slots[r], p, 2, unit);
    if (exchange.copies[r])
      store(exchange.copies[r], p, 2, unit);
  }

  /// Sends unit p to all ranks.
  __device__ void send(uint32_t p) const {
    Unit<T> unit;
    const void *loaded = nullptr;
#pragma unroll 1
    for (int distance = 1; distance < ranks; ++distance) {
      int r = own + distance < ranks ? own + distance : own + distance - ranks;
      if (exchange.sources[r] != loaded) // one value for all, or one for each
        load(r, p, unit);
      loaded = exchange.sources[r];
      uint64_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w)
        words[w] = (unit.parts[w / 2] >> (w % 2 * 32) & 0xffffffffu) | wait.flag;
      uint64_t *to = asGlobal(wordsOf(exchange.buffers[r], own)) + 2 * p;
      storePair(to, words[0], words[1]);
      storePair(to + 2 * units, words[2], words[3]);
    }
    if (exchange.sources[own] != loaded)
      load(own, p, unit);
    keep(own, p, unit);
  }

  /// Awaits the words of all ranks. False after an abort.
  __device__ bool receive(uint32_t p, uint64_t (&words)[kMaxLLRanks][4]) {
    auto loadWords = [&](int r) {
      const uint64_t *from = asGlobal(wordsOf(exchange.buffers[own], r)) + 2 * p;
      loadPair(from, words[r][0], words[r][1]);
      loadPair(from + 2 * units, words[r][2], words[r][3]);
    };
    // All loads are under way before the first one is awaited.
#pragma unroll
    for (int r = 0; r < kMaxLLRanks; ++r)
      if (r < ranks && r != own)
        loadWords(r);
    // As behind the waits of a step, nothing is stored before all have come.
#pragma unroll
    for (int r = 0; r < kMaxLLRanks; ++r) {
      if (r >= ranks || r == own)
        continue;
      for (unsigned polls = 0; !wait.hasCome(words[r][0]) || !wait.hasCome(words[r][1]) ||
                               !wait.hasCome(words[r][2]) || !wait.hasCome(words[r][3]);
           ++polls) {
        if (!wait.goesOn(polls))
          return false;
        loadWords(r);
      }
    }
    return true;
  }

  /// Stores unit p of all ranks, and its sum.
  __device__ void use(uint32_t p, const uint64_t (&words)[kMaxLLRanks][4]) const {
    A sum[kElements];
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      sum[e] = identity<T>(exchange.op);
#pragma unroll
    for (int r = 0; r < kMaxLLRanks; ++r) {
      if (r >= ranks)
        continue;
      Unit<T> unit;
      if (r == own) {
        if (exchange.sum)
          load(own, p, unit);
      } else {
#pragma unroll
        for (int h = 0; h < 2; ++h)
          unit.parts[h] = (words[r][2 * h] & 0xffffffffu) | words[r][2 * h + 1] << 32;
        keep(r, p, unit);
      }
      if (exchange.sum) {
#pragma unroll
        for (int e = 0; e < kElements; ++e)
          sum[e] = combine(exchange.op, sum[e], widen(unit.v[e]));
      }
    }
    if (!exchange.sum)
      return;
    Unit<T> result;
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      narrow(sum[e], result.v[e]);
    store(exchange.sum, p, 0, result);
  }
};

/// Each thread sends its units to all ranks, then adds or copies what they have sent. No thread
/// waits for another one of this rank, and no fence is needed.
template <typename T, int N> __device__ void exchangeLL(const LLArguments &parameter) {
  const LLArguments &exchange = copyToShared(parameter);
  bool counts = exchange.countsRun;
  uint64_t stopped = loadShared(exchange.stopped);
  uint64_t run = exchange.epoch ? loadShared(exchange.epoch) + counts : 0;
  if (stopped) { // the data may never have been computed
    if (threadNumber() == 0)
      stopSignals(exchange.stopped);
    return;
  }
  RunCounter counter;
  if (counts) {
    syncBlock();
    if (threadNumber() == 0)
      counter.enter(exchange.arrivals, run);
  }
  LLExchange<T, N> all(exchange, run * exchange.perRun + exchange.value);
  auto step = unitStep<uint32_t>();
  for (auto p = firstUnit<uint32_t>(); p < all.units; p += step)
    all.send(p);
  for (auto p = firstUnit<uint32_t>(); p < all.units; p += step) {
    uint64_t words[kMaxLLRanks][4];
    if (!all.receive(p, words))
      return;
    all.use(p, words);
  }
  if (all.wait.hasReported)
    storeShared(exchange.progress, ~uint64_t(0));
  counter.leave(exchange.epoch, run);
}

} // namespace
} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_EXCHANGELL_CUH
