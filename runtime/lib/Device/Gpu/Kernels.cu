//===- Kernels.cu - copies and reductions on the GPU ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that no library has. Each moves 16 bytes per thread where layout and addresses allow (the
// host decides, see Kernels.h), computes in f32 and rounds once. Names:
// <kernel>_<type>_<pack>_<index bits>; a unit is `pack` contiguous elements.
//
//===----------------------------------------------------------------------===//

#include "KernelArguments.h"

#include "KernelAbort.h"
#include "KernelLanguage.h"

using namespace tandem::gpu;

namespace {

template <typename T, int N> struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

/// The type that sums of T are computed in.
template <typename T> struct Arithmetic {
  using Type = float;
};
template <> struct Arithmetic<int> {
  using Type = int;
};
template <> struct Arithmetic<signed char> {
  using Type = int;
};
template <> struct Arithmetic<unsigned char> {
  using Type = int;
};
template <> struct Arithmetic<double> {
  using Type = double;
};
template <> struct Arithmetic<long long> {
  using Type = long long;
};

__device__ float widen(float x) { return x; }
__device__ float widen(Half x) { return halfToFloat(x); }
__device__ float widen(Bfloat16 x) { return bfloat16ToFloat(x); }
__device__ int widen(int x) { return x; }
__device__ int widen(signed char x) { return x; }
__device__ int widen(unsigned char x) { return x; }
__device__ double widen(double x) { return x; }
__device__ long long widen(long long x) { return x; }
__device__ void narrow(float x, Half &to) { to = halfFromFloat(x); }
__device__ void narrow(float x, Bfloat16 &to) { to = bfloat16FromFloat(x); }
template <typename A, typename T> __device__ void narrow(A x, T &to) { to = static_cast<T>(x); }

// Sum, max and min, numbered as ReduceOp. NaN propagates; integer sums wrap.
template <typename A> __device__ A combine(int op, A a, A b) {
  if (op == 0)
    return a + b;
  if (op == 1)
    return a > b || a != a ? a : b;
  return a < b || a != a ? a : b;
}
template <> __device__ int combine(int op, int a, int b) {
  if (op == 0)
    return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  return (op == 1) == (a > b) ? a : b;
}
template <> __device__ long long combine(int op, long long a, long long b) {
  if (op == 0)
    return static_cast<long long>(static_cast<unsigned long long>(a) +
                                  static_cast<unsigned long long>(b));
  return (op == 1) == (a > b) ? a : b;
}

/// The result of an empty reduction: 0, the lowest and the highest number.
template <typename T> struct Least {
  static __device__ float value() { return -__builtin_huge_valf(); }
};
template <> struct Least<double> {
  static __device__ double value() { return -__builtin_huge_val(); }
};
template <> struct Least<int> {
  static __device__ int value() { return static_cast<int>(0x80000000u); }
};
template <> struct Least<long long> {
  static __device__ long long value() { return static_cast<long long>(0x8000000000000000ull); }
};
template <> struct Least<signed char> {
  static __device__ int value() { return -128; }
};
template <> struct Least<unsigned char> {
  static __device__ int value() { return 0; }
};
template <typename A> __device__ A greatest(A least) { return -least; }
template <> __device__ int greatest(int least) { return least == 0 ? 1 : ~least; }
template <> __device__ long long greatest(long long least) { return ~least; }
template <typename T> __device__ typename Arithmetic<T>::Type identity(int op) {
  auto least = Least<T>::value();
  return op == 0 ? decltype(least)(0) : op == 1 ? least : greatest(least);
}

/// Offset of unit `i` in each of K operands.
template <int K, typename Index>
__device__ void locate(const Nest &nest, Index i, int64_t (&at)[K]) {
  Index column = i;
  Index row = 0;
  if (nest.outer) {
    row = i / static_cast<Index>(nest.inner);
    column = i - row * static_cast<Index>(nest.inner);
  }
#pragma unroll
  for (int k = 0; k < K; ++k)
    at[k] = static_cast<int64_t>(column) * nest.innerStrides[k];
#pragma unroll 1
  for (int d = nest.outer - 1; d >= 0; --d) {
    auto extent = static_cast<Index>(nest.extents[d]);
    Index next = row / extent;
    auto digit = static_cast<int64_t>(row - next * extent);
#pragma unroll
    for (int k = 0; k < K; ++k)
      at[k] += digit * nest.strides[k][d];
    row = next;
  }
}

template <typename Index> __device__ Index firstUnit() {
  return static_cast<Index>(blockNumber()) * blockThreads() + threadNumber();
}
template <typename Index> __device__ Index unitStep() {
  return static_cast<Index>(gridBlocks()) * blockThreads();
}

template <typename T, typename Index>
__device__ void copyUnits(const Nest &nest, T *dst, const T *src) {
  // A 32-bit index must not wrap past the end.
  Index total = nest.total, step = unitStep<Index>();
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[2];
    locate(nest, i, at);
    dst[at[0]] = src[at[1]];
    if (total - i <= step)
      break;
    i += step;
  }
}

template <typename T, int N, typename Index>
__device__ void combineUnits(const Nest &nest, T *dst, const T *a, const T *b, int op) {
  using P = Pack<T, N>;
  Index total = nest.total, step = unitStep<Index>();
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[3];
    locate(nest, i, at);
    P x = *reinterpret_cast<const P *>(a + at[1]), y = *reinterpret_cast<const P *>(b + at[2]);
#pragma unroll
    for (int e = 0; e < N; ++e)
      narrow(combine(op, widen(x.v[e]), widen(y.v[e])), x.v[e]);
    *reinterpret_cast<P *>(dst + at[0]) = x;
    if (total - i <= step)
      break;
    i += step;
  }
}

/// One thread per kept unit, which loops over the reduced units.
template <typename T, int N, typename Index>
__device__ void reduceThreadPerOutput(const Nest &kept, const Nest &reduced, T *dst, const T *src,
                                      int op) {
  using P = Pack<T, N>;
  using A = typename Arithmetic<T>::Type;
  Index total = kept.total, step = unitStep<Index>(), terms = reduced.total;
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[2];
    locate(kept, i, at);
    A sum[N];
#pragma unroll
    for (int e = 0; e < N; ++e)
      sum[e] = identity<T>(op);
    auto take = [&](int64_t term) {
      P x = *reinterpret_cast<const P *>(src + at[1] + term);
#pragma unroll
      for (int e = 0; e < N; ++e)
        sum[e] = combine(op, sum[e], widen(x.v[e]));
    };
    if (reduced.outer == 0) { // the slots of one buffer: the usual case
#pragma unroll 4
      for (Index r = 0; r < terms; ++r)
        take(static_cast<int64_t>(r) * reduced.innerStrides[0]);
    } else {
#pragma unroll 1
      for (Index r = 0; r < terms; ++r) {
        int64_t term[1];
        locate(reduced, r, term);
        take(term[0]);
      }
    }
    P result;
#pragma unroll
    for (int e = 0; e < N; ++e)
      narrow(sum[e], result.v[e]);
    *reinterpret_cast<P *>(dst + at[0]) = result;
    if (total - i <= step)
      break;
    i += step;
  }
}

/// See docs/fp8.md.
template <int exponent> __device__ float fromFp8(uint8_t bits) {
  constexpr int mantissa = 7 - exponent;
  constexpr float unit = exponent == 4 ? 0x1p-9f : 0x1p-16f; // the least number
  constexpr unsigned most = exponent == 4 ? 0x7f : 0x7c;     // above are NaN
  unsigned size = bits & 0x7fu;
  float value = static_cast<float>(size) * unit;
  if (size >= most)
    value = exponent == 5 && size == most ? __builtin_huge_valf() : __builtin_nanf("");
  else if (size >> mantissa) {
    // (1 + m / 2^mantissa) 2^(e - bias) = (2^mantissa + m) unit 2^(e - 1)
    unsigned digits = (1u << mantissa) | (size & ((1u << mantissa) - 1u));
    value =
        static_cast<float>(digits) * unit * static_cast<float>(1ull << ((size >> mantissa) - 1));
  }
  return bits & 0x80u ? -value : value;
}

template <int exponent, typename T, typename Index>
__device__ void convertUnits(const Nest &nest, T *dst, const uint8_t *src) {
  Index total = nest.total, step = unitStep<Index>();
  for (Index i = firstUnit<Index>(); i < total;) {
    int64_t at[2];
    locate(nest, i, at);
    narrow(fromFp8<exponent>(src[at[1]]), dst[at[0]]);
    if (total - i <= step)
      break;
    i += step;
  }
}

/// One block per kept element; its threads share the reduced elements, in packs.
template <typename T, int N, typename Index>
__device__ void reduceBlockPerOutput(const Nest &kept, const Nest &reduced, T *dst, const T *src,
                                     int op) {
  using P = Pack<T, N>;
  using A = typename Arithmetic<T>::Type;
  __shared__ A warps[32];
  Index total = kept.total, terms = reduced.total;
  for (Index i = blockNumber(); i < total;) {
    int64_t at[2];
    locate(kept, i, at);
    A sum = identity<T>(op);
    for (Index r = threadNumber(); r < terms; r += blockThreads()) {
      int64_t term[1];
      locate(reduced, r, term);
      P x = *reinterpret_cast<const P *>(src + at[1] + term[0]);
#pragma unroll
      for (int e = 0; e < N; ++e)
        sum = combine(op, sum, widen(x.v[e]));
      if (terms - r <= blockThreads())
        break;
    }
    unsigned width = warpThreads();
    for (unsigned d = width / 2; d > 0; d /= 2)
      sum = combine(op, sum, fromLane(sum, d));
    if (threadNumber() % width == 0)
      warps[threadNumber() / width] = sum;
    syncBlock();
    if (threadNumber() == 0) {
      for (unsigned w = 1; w < blockThreads() / width; ++w)
        sum = combine(op, sum, warps[w]);
      narrow(sum, dst[at[0]]);
    }
    syncBlock();
    if (total - i <= gridBlocks())
      break;
    i += gridBlocks();
  }
}

/// An exchange, and the run's number.
struct ExchangeRun {
  const ExchangeArguments &exchange;
  uint64_t number;
  /// The word of a signal for this block.
  __device__ uint64_t *wordOf(const ExchangeSignal &signal) const {
    return signal.at + (exchange.flagBlocks ? blockNumber() : 0);
  }
  __device__ uint64_t targetOf(const ExchangeSignal &signal) const {
    return number * signal.perRun + signal.value;
  }
};

/// False after an abort, for all threads of the block.
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

/// The bits of a unit: as elements, registers would hold each of them apart.
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

/// What a thread moves at a time, so that its loads do not wait for each other.
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

/// The last block that comes here raises the signals: what all have stored is visible by then. Not
/// after an abort.
__device__ void raiseSignals(const ExchangeRun &run, const ExchangeStepArguments &step,
                             const ExchangeSignal *signals, uint64_t *arrivals, bool counts) {
  const ExchangeArguments &exchange = run.exchange;
  bool isFirst = threadNumber() == 0;
  // Looked at early: the load takes as long as the fence.
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

/// Each block raises signals of its own: what its threads have stored is visible by then.
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

/// Of an exchange whose blocks do not wait for each other: the last block that has read the run's
/// number writes it at its end.
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

/// All blocks run at the same time: each waits for peers, whose signals wait for all its blocks.
template <typename T, int N> __device__ void runExchange(const ExchangeArguments &given) {
  // Each line of a parameter takes as long as a signal when it is first read, so all are read at
  // once.
  __shared__ alignas(16) char room[sizeof(ExchangeArguments)];
  static_assert(sizeof room % 16 == 0, "copied in words of 16 bytes");
  for (unsigned i = threadNumber(); i < sizeof room / 16; i += blockThreads())
    reinterpret_cast<Word128 *>(room)[i] = loadParameter(&given, i);
  syncBlock();
  const auto &exchange = *reinterpret_cast<const ExchangeArguments *>(room);
  // Read before the first signal, and once: it takes as long as a signal, too.
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

/// Awaits words of data: a word has arrived when its flag has.
struct LLWait {
  const LLArguments &exchange;
  uint64_t flag; ///< in the upper half
  bool told = false;

  __device__ bool hasCome(uint64_t word) const { return ((word ^ flag) >> 32) == 0; }
  /// False after an abort.
  __device__ bool goesOn(unsigned polls) {
    if (polls < kShortPolls)
      return true;
    if (blockNumber() == 0 && polls % kShortPolls == 0) {
      told = true;
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

/// Each thread sends its units to all ranks, then adds or copies what they have sent. No thread
/// waits for another one of this rank, and no fence is needed.
template <typename T, int N> __device__ void exchangeLL(const LLArguments &given) {
  using A = typename Arithmetic<T>::Type;
  constexpr int kElements = Unit<T>::kElements;
  __shared__ alignas(16) char room[sizeof(LLArguments)];
  static_assert(sizeof room % 16 == 0, "copied in words of 16 bytes");
  for (unsigned i = threadNumber(); i < sizeof room / 16; i += blockThreads())
    reinterpret_cast<Word128 *>(room)[i] = loadParameter(&given, i);
  syncBlock();
  const auto &exchange = *reinterpret_cast<const LLArguments *>(room);
  bool counts = exchange.countsRun;
  uint64_t stopped = loadShared(exchange.stopped);
  uint64_t run = exchange.epoch ? loadShared(exchange.epoch) + counts : 0;
  if (stopped) { // the data may never have been computed
    if (threadNumber() == 0)
      stopSignals(exchange.stopped);
    return;
  }
  uint64_t number = run * exchange.perRun + exchange.value;
  RunCounter counter;
  if (counts) {
    syncBlock();
    if (threadNumber() == 0)
      counter.enter(exchange.arrivals, run);
  }
  LLWait wait{exchange, number << 32};
  int ranks = exchange.ranks, own = exchange.own;
  auto units = static_cast<uint32_t>(exchange.units), step = unitStep<uint32_t>();
  uint64_t buffer = number % 2 * exchange.bufferWords;
  auto wordsOf = [&](uint64_t *place, int from) {
    return place + buffer + static_cast<uint64_t>(from) * 4 * units;
  };
  auto load = [&](int r, uint32_t p, Unit<T> &unit) {
    const auto *source = asGlobal(static_cast<const T *>(exchange.sources[r]));
    unit.parts[0] = unit.parts[1] = 0;
    forElements<T, N>(exchange.nest, p, [&](int e, const int64_t *at) {
      loadElements<T, N>(source + at[1], e, unit);
    });
  };
  auto store = [&](void *place, uint32_t p, int operand, const Unit<T> &unit) {
    T *to = asGlobal(static_cast<T *>(place));
    forElements<T, N>(exchange.nest, p, [&](int e, const int64_t *at) {
      storeElements<T, N>(to + at[operand], e, unit);
    });
  };
  // What has come from rank r.
  auto keep = [&](int r, uint32_t p, const Unit<T> &unit) {
    store(exchange.slots[r], p, 2, unit);
    if (exchange.copies[r])
      store(exchange.copies[r], p, 2, unit);
  };
  for (auto p = firstUnit<uint32_t>(); p < units; p += step) {
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
  for (auto p = firstUnit<uint32_t>(); p < units; p += step) {
    uint64_t words[kMaxLLRanks][4];
    auto receive = [&](int r) {
      const uint64_t *from = asGlobal(wordsOf(exchange.buffers[own], r)) + 2 * p;
      loadPair(from, words[r][0], words[r][1]);
      loadPair(from + 2 * units, words[r][2], words[r][3]);
    };
    // All loads are under way before the first one is awaited.
#pragma unroll
    for (int r = 0; r < kMaxLLRanks; ++r)
      if (r < ranks && r != own)
        receive(r);
    // As behind the waits of a step, nothing is stored before all have come.
#pragma unroll
    for (int r = 0; r < kMaxLLRanks; ++r) {
      if (r >= ranks || r == own)
        continue;
      for (unsigned polls = 0; !wait.hasCome(words[r][0]) || !wait.hasCome(words[r][1]) ||
                               !wait.hasCome(words[r][2]) || !wait.hasCome(words[r][3]);
           ++polls) {
        if (!wait.goesOn(polls))
          return;
        receive(r);
      }
    }
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
      continue;
    Unit<T> result;
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      narrow(sum[e], result.v[e]);
    store(exchange.sum, p, 0, result);
  }
  if (wait.told)
    storeShared(exchange.progress, ~uint64_t(0));
  counter.leave(exchange.epoch, run);
}

} // namespace

#define COPY(bits, T)                                                                              \
  extern "C" __global__ void copy_##bits##_32(TANDEM_PARAMETER Nest nest, T *dst, const T *src) {  \
    copyUnits<T, uint32_t>(nest, dst, src);                                                        \
  }                                                                                                \
  extern "C" __global__ void copy_##bits##_64(TANDEM_PARAMETER Nest nest, T *dst, const T *src) {  \
    copyUnits<T, uint64_t>(nest, dst, src);                                                        \
  }
COPY(8, uint8_t)
COPY(16, uint16_t)
COPY(32, uint32_t)
COPY(64, Word64)
COPY(128, Word128)

#define ARITHMETIC(name, T, N, bits)                                                               \
  extern "C" __global__ void combine_##name##_##N##_##bits(TANDEM_PARAMETER Nest nest, T *dst,     \
                                                           const T *a, const T *b, int op) {       \
    combineUnits<T, N, uint##bits##_t>(nest, dst, a, b, op);                                       \
  }                                                                                                \
  extern "C" __global__ void reduce_thread_per_output_##name##_##N##_##bits(                       \
      TANDEM_PARAMETER Nest kept, TANDEM_PARAMETER Nest reduced, T *dst, const T *src, int op) {   \
    reduceThreadPerOutput<T, N, uint##bits##_t>(kept, reduced, dst, src, op);                      \
  }                                                                                                \
  extern "C" __global__ void reduce_block_per_output_##name##_##N##_##bits(                        \
      TANDEM_PARAMETER Nest kept, TANDEM_PARAMETER Nest reduced, T *dst, const T *src, int op) {   \
    reduceBlockPerOutput<T, N, uint##bits##_t>(kept, reduced, dst, src, op);                       \
  }
#define ARITHMETIC_OF(name, T, N)                                                                  \
  ARITHMETIC(name, T, 1, 32)                                                                       \
  ARITHMETIC(name, T, 1, 64)                                                                       \
  ARITHMETIC(name, T, N, 32)                                                                       \
  ARITHMETIC(name, T, N, 64)
ARITHMETIC_OF(f32, float, 4)
ARITHMETIC_OF(f16, Half, 8)
ARITHMETIC_OF(bf16, Bfloat16, 8)
ARITHMETIC_OF(i32, int, 4)
ARITHMETIC_OF(f64, double, 2)
ARITHMETIC_OF(i64, long long, 2)
ARITHMETIC_OF(i8, signed char, 16)
ARITHMETIC_OF(i1, unsigned char, 16)

#define EXCHANGE(name, T, N)                                                                       \
  extern "C" __global__ void TANDEM_BLOCK_OF(kExchangeThreads)                                     \
      exchange_##name##_##N(TANDEM_PARAMETER ExchangeArguments exchange) {                         \
    runExchange<T, N>(exchange);                                                                   \
  }
EXCHANGE(f32, float, 1)
EXCHANGE(f32, float, 4)
EXCHANGE(f16, Half, 1)
EXCHANGE(f16, Half, 8)
EXCHANGE(bf16, Bfloat16, 1)
EXCHANGE(bf16, Bfloat16, 8)
EXCHANGE(i8, signed char, 1)
EXCHANGE(i8, signed char, 16)

#define LL(name, T, N)                                                                             \
  extern "C" __global__ void TANDEM_BLOCK_OF(kExchangeThreads)                                     \
      ll_##name##_##N(TANDEM_PARAMETER LLArguments exchange) {                                     \
    exchangeLL<T, N>(exchange);                                                                    \
  }
LL(f32, float, 1)
LL(f32, float, 4)
LL(f16, Half, 1)
LL(f16, Half, 8)
LL(bf16, Bfloat16, 1)
LL(bf16, Bfloat16, 8)
LL(i8, signed char, 1)
LL(i8, signed char, 16)

/// `count` elements, `stride` apart, as f32.
#define WIDEN(name, T)                                                                             \
  extern "C" __global__ void widen_##name(uint64_t count, int64_t stride, float *dst,              \
                                          const T *src) {                                          \
    for (auto i = firstUnit<uint64_t>(); i < count; i += unitStep<uint64_t>())                     \
      dst[i] = widen(src[static_cast<int64_t>(i) * stride]);                                       \
  }
WIDEN(f16, Half)
WIDEN(bf16, Bfloat16)

/// Floats of 8 bits as f16 or bf16, both exact: 4 bits of exponent are f8E4M3FN, 5 are f8E5M2.
#define CONVERT(from, exponent, to, T)                                                             \
  extern "C" __global__ void convert_##from##_##to##_32(TANDEM_PARAMETER Nest nest, T *dst,        \
                                                        const uint8_t *src) {                      \
    convertUnits<exponent, T, uint32_t>(nest, dst, src);                                           \
  }                                                                                                \
  extern "C" __global__ void convert_##from##_##to##_64(TANDEM_PARAMETER Nest nest, T *dst,        \
                                                        const uint8_t *src) {                      \
    convertUnits<exponent, T, uint64_t>(nest, dst, src);                                           \
  }
CONVERT(f8E4M3FN, 4, f16, Half)
CONVERT(f8E4M3FN, 4, bf16, Bfloat16)
CONVERT(f8E5M2, 5, f16, Half)
CONVERT(f8E5M2, 5, bf16, Bfloat16)

/// Raises a signal to *epoch * perRun + value (epoch 0 if null) after all earlier work of this GPU.
/// Does nothing after an abort (*stopped): the earlier work may not have happened. `plain`: see
/// raiseSignal().
extern "C" __global__ void signal_raise(uint64_t *slot, const uint64_t *epoch, uint64_t perRun,
                                        uint64_t value, const uint64_t *stopped, uint64_t plain) {
  if (loadShared(stopped))
    return;
  uint64_t target = (epoch ? *epoch : 0) * perRun + value;
  fenceSystem();
  raiseSignal(slot, target, plain);
}

/// Waits for a signal and writes its command's number to `progress` (host memory) meanwhile. An
/// abort ends it.
extern "C" __global__ void signal_wait(const unsigned long long *slot,
                                       const unsigned long long *epoch, unsigned long long perRun,
                                       unsigned long long value, unsigned long long *progress,
                                       unsigned long long command, const uint64_t *abortFlag,
                                       uint64_t *stopped) {
  unsigned long long target = (epoch ? *epoch : 0) * perRun + value;
  if (loadShared(slot) < target) {
    storeShared(progress, command);
    for (unsigned polls = 0; loadShared(slot) < target; ++polls) {
      if (isAborted(abortFlag, stopped, polls)) {
        stopSignals(stopped);
        break;
      }
      pauseThread();
    }
    storeShared(progress, ~0ull);
  }
  fenceSystem();
}

/// Root node of a graph: counts the run and writes the words that signals are copied from. An abort
/// sets *stopped before it clears the words, so they end as zero in either order.
extern "C" __global__ void run_words(TANDEM_PARAMETER RunWords run) {
  uint64_t number = *run.epoch + 1;
  syncBlock();
  if (threadNumber() == 0)
    *run.epoch = number;
  if (threadNumber() >= run.count)
    return;
  const SignalWord &word = run.words[threadNumber()];
  storeShared(word.at, number * word.perRun + word.value);
  fenceSystem();
  if (loadShared(run.stopped))
    storeShared(word.at, uint64_t(0));
}
