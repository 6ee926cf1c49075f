//===- FakeKernels.cpp - what the fake driver launches ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies, conversions of 8-bit floats, signals, and sums of f32, by what Kernels.h says of their
// arguments.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "KernelArguments.h"
#include "tandem-c/Kernel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <regex>
#include <set>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

namespace {

using tandem::fake::load;
using tandem::fake::nap;
using tandem::fake::Work;
using tandem::gpu::Nest;

/// Where unit `i` of operand k lies.
int64_t locate(const Nest &nest, uint64_t i, int k) {
  uint64_t row = nest.outer ? i / nest.inner : 0, column = i - row * nest.inner;
  int64_t at = static_cast<int64_t>(column) * nest.innerStrides[k];
  for (int d = nest.outer - 1; d >= 0; --d) {
    at += static_cast<int64_t>(row % nest.extents[d]) * nest.strides[k][d];
    row /= nest.extents[d];
  }
  return at;
}

template <typename T> void copyUnits(const Nest &nest, T *dst, const T *src) {
  for (uint64_t i = 0; i < nest.total; ++i)
    dst[locate(nest, i, 0)] = src[locate(nest, i, 1)];
}

template <typename T> T take(void **arguments, int i) { return *static_cast<T *>(arguments[i]); }

/// f8E4M3FN or f8E5M2 as f16 or bf16.
Work convertKernel(int exponentBits, bool toBf16, void **arguments) {
  return [=, nest = take<Nest>(arguments, 0), dst = take<uint16_t *>(arguments, 1),
          src = take<const uint8_t *>(arguments, 2)] {
    for (uint64_t i = 0; i < nest.total; ++i) {
      float x = tandem::fake::fromFp8(src[locate(nest, i, 1)], exponentBits);
      dst[locate(nest, i, 0)] = toBf16
                                    ? static_cast<uint16_t>(__builtin_bit_cast(uint32_t, x) >> 16)
                                    : __builtin_bit_cast(uint16_t, static_cast<_Float16>(x));
    }
  };
}

float combine(int op, float a, float b) {
  return op == 0 ? a + b : op == 1 ? (a > b || a != a ? a : b) : (a < b || a != a ? a : b);
}

struct Wide {
  uint64_t a, b;
};

template <typename T> Work copyKernel(void **arguments) {
  return [nest = take<Nest>(arguments, 0), dst = take<T *>(arguments, 1),
          src = take<const T *>(arguments, 2)] { copyUnits(nest, dst, src); };
}

Work combineKernel(int width, void **arguments) {
  return [=, nest = take<Nest>(arguments, 0), dst = take<float *>(arguments, 1),
          a = take<const float *>(arguments, 2), b = take<const float *>(arguments, 3),
          op = take<int>(arguments, 4)] {
    for (uint64_t i = 0; i < nest.total; ++i)
      for (int e = 0; e < width; ++e)
        dst[locate(nest, i, 0) + e] =
            combine(op, a[locate(nest, i, 1) + e], b[locate(nest, i, 2) + e]);
  };
}

float identity(int op) {
  constexpr float kMost = std::numeric_limits<float>::infinity();
  return op == 0 ? 0 : op == 1 ? -kMost : kMost;
}

/// `width` neighbours of each unit that is kept, or (`blockPerOutput`) of each that is reduced.
Work reduceKernel(int width, bool blockPerOutput, void **arguments) {
  return [=, kept = take<Nest>(arguments, 0), reduced = take<Nest>(arguments, 1),
          dst = take<float *>(arguments, 2), src = take<const float *>(arguments, 3),
          op = take<int>(arguments, 4)] {
    int results = blockPerOutput ? 1 : width, terms = blockPerOutput ? width : 1;
    for (uint64_t i = 0; i < kept.total; ++i)
      for (int e = 0; e < results; ++e) {
        const float *from = src + locate(kept, i, 1) + e;
        float sum = identity(op);
        for (uint64_t r = 0; r < reduced.total; ++r)
          for (int t = 0; t < terms; ++t)
            sum = combine(op, sum, from[locate(reduced, r, 0) + t]);
        dst[locate(kept, i, 0) + e] = sum;
      }
  };
}

/// Stands for any program's PTX: 42 in each row of its first operand, of f32.
Work rowsKernel(void **arguments) {
  return [rows = take<int64_t>(arguments, 0), width = take<int64_t>(arguments, 1),
          out = take<float *>(arguments, 2), stride = take<int64_t>(arguments, 3)] {
    for (int64_t row = 0; row < rows; ++row)
      std::fill_n(out + row * stride, width, 42.0f);
  };
}

/// A kernel of an embedder: y = x times the row's place in the whole tensor.
Work multiplyByRowKernel(void **arguments) {
  return [y = take<tandem_kernel_operand>(arguments, 0),
          x = take<tandem_kernel_operand>(arguments, 1)] {
    for (int64_t row = 0; row < y.shape[0]; ++row)
      for (int64_t column = 0; column < y.shape[1]; ++column)
        static_cast<float *>(y.data)[row * y.strides[0] + column] =
            static_cast<const float *>(x.data)[row * x.strides[0] + column] *
            static_cast<float>(y.offset[0] + row);
  };
}

/// Each row times the number of rows from it to the end of the whole tensor.
Work multiplyFromEndKernel(void **arguments) {
  return [y = take<tandem_kernel_operand>(arguments, 0),
          x = take<tandem_kernel_operand>(arguments, 1)] {
    for (int64_t row = 0; row < y.shape[0]; ++row)
      for (int64_t column = 0; column < y.shape[1]; ++column)
        static_cast<float *>(y.data)[row * y.strides[0] + column] =
            static_cast<const float *>(x.data)[row * x.strides[0] + column] *
            static_cast<float>(y.extent[0] - y.offset[0] - row);
  };
}

void raise(uint64_t *slot, uint64_t target, bool plain) {
  ++tandem::fake::number(plain ? "plain-raises" : "raises");
  if (plain)
    return __atomic_store_n(slot, target, __ATOMIC_RELEASE);
  uint64_t now = load(slot);
  while (now < target && !__atomic_compare_exchange_n(slot, &now, target, false, __ATOMIC_SEQ_CST,
                                                      __ATOMIC_SEQ_CST)) {
  }
}

/// As stopSignals() of KernelAbort.h.
void stopSignals(uint64_t *stopped) {
  if (load(stopped) == tandem::gpu::kStopped)
    return;
  __atomic_store_n(stopped, tandem::gpu::kStopping, __ATOMIC_SEQ_CST);
  for (int i = 1; i <= tandem::gpu::kSignalWords; ++i)
    __atomic_store_n(stopped + i, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(stopped, tandem::gpu::kStopped, __ATOMIC_SEQ_CST);
}

/// Counts the kernels that wait.
class Waits {
public:
  Waits() { ++tandem::fake::number("waits"); }
  ~Waits() { --tandem::fake::number("waits"); }
  Waits(const Waits &) = delete;
  Waits &operator=(const Waits &) = delete;
};

/// False for a wait that an abort ends.
bool goesOn(const uint64_t *flag, uint64_t *stopped) {
  if (!load(flag) && !load(stopped))
    return true;
  stopSignals(stopped);
  return false;
}

Work raiseKernel(void **arguments) {
  return [slot = take<uint64_t *>(arguments, 0), epoch = take<uint64_t *>(arguments, 1),
          perRun = take<uint64_t>(arguments, 2), value = take<uint64_t>(arguments, 3),
          stopped = take<const uint64_t *>(arguments, 4), plain = take<uint64_t>(arguments, 5)] {
    if (load(stopped))
      return;
    raise(slot, (epoch ? load(epoch) : 0) * perRun + value, plain);
  };
}

Work waitKernel(void **arguments) {
  return [slot = take<uint64_t *>(arguments, 0), epoch = take<uint64_t *>(arguments, 1),
          perRun = take<uint64_t>(arguments, 2), value = take<uint64_t>(arguments, 3),
          progress = take<uint64_t *>(arguments, 4), command = take<uint64_t>(arguments, 5),
          flag = take<const uint64_t *>(arguments, 6), stopped = take<uint64_t *>(arguments, 7)] {
    uint64_t target = (epoch ? load(epoch) : 0) * perRun + value;
    Waits waits;
    __atomic_store_n(progress, command, __ATOMIC_RELAXED);
    while (load(slot) < target && goesOn(flag, stopped))
      nap();
    __atomic_store_n(progress, ~uint64_t(0), __ATOMIC_RELAXED);
  };
}

/// Unit `i` of a step: each of its targets.
template <typename T>
void moveUnit(const tandem::gpu::ExchangeStepArguments &step, const Nest &nest,
              const tandem::gpu::ExchangeStore *stores, int width, uint64_t i) {
  for (int k = 0; k < step.numStores; ++k)
    for (int e = 0; e < width; ++e) {
      const T *source = static_cast<const T *>(stores[k].source) + locate(nest, i, 1) + e;
      T &to = static_cast<T *>(stores[k].target)[locate(nest, i, 0) + e];
      if constexpr (std::is_same_v<T, float>) {
        if (step.reduces) {
          float sum = identity(step.op);
          for (int64_t term = 0; term < step.terms; ++term)
            sum = combine(step.op, sum, source[term * step.termStride]);
          to = sum;
          continue;
        }
      }
      to = *source;
    }
}

/// One block after the other would not end: each waits for signals that others raise. So one thread
/// does the work of all blocks, step by step. Where they signal on their own, it does so after each
/// block's units.
template <typename T>
void exchangeSteps(const tandem::gpu::ExchangeArguments &exchange, int width) {
  bool counts = exchange.countsRun;
  uint64_t number = exchange.epoch ? load(exchange.epoch) + counts : 0;
  auto targetOf = [&](const tandem::gpu::ExchangeSignal &signal) {
    return number * signal.perRun + signal.value;
  };
  const tandem::gpu::ExchangeSignal *waits = exchange.waits, *signals = exchange.signals;
  const tandem::gpu::ExchangeStore *stores = exchange.stores;
  auto flagBlocks = static_cast<uint64_t>(exchange.flagBlocks);
  auto blockOf = [&](uint64_t unit) {
    uint64_t thread = unit / (width == 1 ? static_cast<uint64_t>(exchange.unitsPerThread) : 1);
    return thread / tandem::gpu::kExchangeThreads % flagBlocks;
  };
  for (int s = 0; s < exchange.numSteps; ++s) {
    const tandem::gpu::ExchangeStepArguments &step = exchange.steps[s];
    const Nest &nest = exchange.nests[step.nest];
    for (uint64_t block = 0; block < std::max<uint64_t>(flagBlocks, 1); ++block) {
      for (int i = 0; i < step.numWaits; ++i) {
        uint64_t target = targetOf(waits[i]);
        Waits counted;
        __atomic_store_n(exchange.progress, exchange.command, __ATOMIC_RELAXED);
        while (load(waits[i].at + block) < target)
          if (goesOn(exchange.abortFlag, exchange.stopped))
            nap();
          else
            break;
        __atomic_store_n(exchange.progress, ~uint64_t(0), __ATOMIC_RELAXED);
      }
      if (load(exchange.stopped)) // an abort raises all signals
        return;
      for (uint64_t i = 0; step.numStores > 0 && i < nest.total; ++i)
        if (flagBlocks == 0 || blockOf(i) == block)
          moveUnit<T>(step, nest, stores, width, i);
      if (step.numSignals > 0 && flagBlocks == 0)
        __atomic_fetch_add(&exchange.arrivals[s], 1, __ATOMIC_RELAXED);
      for (int i = 0; i < step.numSignals && !load(exchange.stopped); ++i)
        raise(signals[i].at + block, targetOf(signals[i]), exchange.plain);
    }
    if (step.numSignals > 0 && std::exchange(counts, false))
      __atomic_store_n(exchange.epoch, number, __ATOMIC_RELEASE);
    waits += step.numWaits;
    stores += step.numStores;
    signals += step.numSignals;
  }
}

template <typename T> Work exchangeKernel(int width, void **arguments) {
  return [=, exchange = take<tandem::gpu::ExchangeArguments>(arguments, 0)] {
    exchangeSteps<T>(exchange, width);
  };
}

/// One thread, which sends all before it awaits any.
template <typename T> void exchangeLL(const tandem::gpu::LLArguments &exchange, int width) {
  constexpr uint64_t kElements = 16 / sizeof(T); // of a unit
  using Unit = std::array<T, kElements>;
  using Words = std::array<uint32_t, 4>;
  if (load(exchange.stopped)) {
    stopSignals(exchange.stopped);
    return;
  }
  uint64_t run = exchange.epoch ? load(exchange.epoch) + uint64_t(exchange.countsRun) : 0;
  uint64_t number = run * exchange.perRun + exchange.value, units = exchange.units;
  auto ranks = static_cast<uint64_t>(exchange.ranks), own = static_cast<uint64_t>(exchange.own);
  // Where element e of unit p lies in an operand; none behind the last element.
  auto at = [&](uint64_t p, uint64_t e, int operand) {
    uint64_t element = p * kElements + e, unit = element / uint64_t(width);
    return unit < exchange.nest.total
               ? locate(exchange.nest, unit, operand) + int64_t(element % uint64_t(width))
               : int64_t(-1);
  };
  auto wordOf = [&](uint64_t place, uint64_t from, uint64_t p, uint64_t w) {
    return exchange.buffers[place] + number % 2 * exchange.bufferWords +
           2 * ((from * 2 + w / 2) * units + p) + w % 2;
  };
  auto read = [&](uint64_t rank, uint64_t p) {
    Unit unit{};
    for (uint64_t e = 0; e < kElements; ++e)
      if (at(p, e, 1) >= 0)
        unit[e] = static_cast<const T *>(exchange.sources[rank])[at(p, e, 1)];
    return unit;
  };
  auto write = [&](void *place, uint64_t p, int operand, const Unit &unit) {
    for (uint64_t e = 0; place && e < kElements; ++e)
      if (at(p, e, operand) >= 0)
        static_cast<T *>(place)[at(p, e, operand)] = unit[e];
  };
  for (uint64_t p = 0; p < units; ++p)
    for (uint64_t r = 0; r < ranks; ++r) {
      Unit unit = read(r, p);
      if (r == own) {
        write(exchange.slots[r], p, 2, unit);
        write(exchange.copies[r], p, 2, unit);
        continue;
      }
      auto words = __builtin_bit_cast(Words, unit);
      for (uint64_t w = 0; w < words.size(); ++w)
        __atomic_store_n(wordOf(r, own, p, w), number << 32 | words[w], __ATOMIC_RELAXED);
    }
  for (uint64_t p = 0; p < units; ++p) {
    Unit sum{};
    if constexpr (std::is_same_v<T, float>)
      sum.fill(identity(exchange.op));
    for (uint64_t r = 0; r < ranks; ++r) {
      Unit unit = read(own, p);
      if (r != own) {
        Words words;
        for (uint64_t w = 0; w < words.size(); ++w) {
          uint64_t word = 0;
          while ((word = __atomic_load_n(wordOf(own, r, p, w), __ATOMIC_ACQUIRE)) >> 32 !=
                 (number & 0xffffffff)) {
            __atomic_store_n(exchange.progress, exchange.command, __ATOMIC_RELAXED);
            if (!goesOn(exchange.abortFlag, exchange.stopped))
              return;
            nap();
          }
          words[w] = static_cast<uint32_t>(word);
        }
        unit = __builtin_bit_cast(Unit, words);
        write(exchange.slots[r], p, 2, unit);
        write(exchange.copies[r], p, 2, unit);
      }
      if constexpr (std::is_same_v<T, float>)
        for (uint64_t e = 0; e < kElements; ++e)
          sum[e] = combine(exchange.op, sum[e], unit[e]);
    }
    write(exchange.sum, p, 0, sum);
  }
  __atomic_store_n(exchange.progress, ~uint64_t(0), __ATOMIC_RELAXED);
  if (exchange.countsRun)
    __atomic_store_n(exchange.epoch, run, __ATOMIC_RELEASE);
}

template <typename T> Work llExchangeKernel(int width, void **arguments) {
  return [=, exchange = take<tandem::gpu::LLArguments>(arguments, 0)] {
    exchangeLL<T>(exchange, width);
  };
}

Work wordsKernel(void **arguments) {
  return [run = take<tandem::gpu::RunWords>(arguments, 0)] {
    uint64_t number = load(run.epoch) + 1;
    __atomic_store_n(run.epoch, number, __ATOMIC_RELEASE);
    for (int i = 0; i < run.count; ++i) {
      const tandem::gpu::SignalWord &word = run.words[i];
      __atomic_store_n(word.at, number * word.perRun + word.value, __ATOMIC_SEQ_CST);
      if (__atomic_load_n(run.stopped, __ATOMIC_SEQ_CST))
        __atomic_store_n(word.at, 0, __ATOMIC_SEQ_CST);
    }
  };
}

std::map<std::string, std::function<Work(void **)>> allKernels() {
  std::map<std::string, std::function<Work(void **)>> all;
  for (const char *bits : {"_32", "_64"}) {
    all[std::string("copy_8") + bits] = copyKernel<uint8_t>;
    all[std::string("copy_16") + bits] = copyKernel<uint16_t>;
    all[std::string("copy_32") + bits] = copyKernel<uint32_t>;
    all[std::string("copy_64") + bits] = copyKernel<uint64_t>;
    all[std::string("copy_128") + bits] = copyKernel<Wide>;
    for (int exponentBits : {4, 5})
      for (bool toBf16 : {false, true})
        all[std::string("convert_") + (exponentBits == 4 ? "f8E4M3FN" : "f8E5M2") +
            (toBf16 ? "_bf16" : "_f16") + bits] = [=](void **arguments) {
          return convertKernel(exponentBits, toBf16, arguments);
        };
  }
  for (const char *pack : {"1", "4"})
    for (const char *bits : {"32", "64"}) {
      std::string tail = std::string("_f32_") + pack + "_" + bits;
      int width = *pack - '0';
      all["combine" + tail] = [=](void **arguments) { return combineKernel(width, arguments); };
      all["reduce_thread_per_output" + tail] = [=](void **arguments) {
        return reduceKernel(width, false, arguments);
      };
      all["reduce_block_per_output" + tail] = [=](void **arguments) {
        return reduceKernel(width, true, arguments);
      };
    }
  all["exchange_f32_1"] = [](void **arguments) { return exchangeKernel<float>(1, arguments); };
  all["exchange_f32_4"] = [](void **arguments) { return exchangeKernel<float>(4, arguments); };
  all["exchange_i8_1"] = [](void **arguments) { return exchangeKernel<int8_t>(1, arguments); };
  all["exchange_i8_16"] = [](void **arguments) { return exchangeKernel<int8_t>(16, arguments); };
  all["ll_f32_1"] = [](void **arguments) { return llExchangeKernel<float>(1, arguments); };
  all["ll_f32_4"] = [](void **arguments) { return llExchangeKernel<float>(4, arguments); };
  all["ll_i8_1"] = [](void **arguments) { return llExchangeKernel<int8_t>(1, arguments); };
  all["ll_i8_16"] = [](void **arguments) { return llExchangeKernel<int8_t>(16, arguments); };
  all["rows"] = rowsKernel;
  all["multiply_by_row"] = multiplyByRowKernel;
  all["multiply_from_end"] = multiplyFromEndKernel;
  all["signal_raise"] = raiseKernel;
  all["signal_wait"] = waitKernel;
  all["run_words"] = wordsKernel;
  return all;
}

} // namespace

const std::map<std::string, std::function<Work(void **)>> &tandem::fake::knownKernels() {
  static const auto all = allKernels();
  return all;
}

std::vector<size_t> tandem::fake::declaredSizes(const std::string &ptx, const std::string &entry) {
  std::vector<size_t> sizes;
  size_t begin = ptx.find(".entry " + entry + "(");
  if (begin == std::string::npos)
    return sizes;
  // `.param .u64 name`, `.param .align 8 .b8 name[16]`
  begin = ptx.find('(', begin);
  std::string text = ptx.substr(begin, ptx.find(')', begin) - begin);
  std::regex one(R"(\.param\s+(?:\.align\s+\d+\s+)?\.[a-z](\d+)[^,\[]*(?:\[(\d+)\])?)");
  for (std::sregex_iterator it(text.begin(), text.end(), one), end; it != end; ++it)
    sizes.push_back(std::stoul((*it)[1]) / 8 * ((*it)[2].matched ? std::stoul((*it)[2]) : 1));
  return sizes;
}

namespace {
/// By the address that a CUfunction is.
struct Function {
  std::string name;
  std::vector<size_t> sizes;
  bool operator<(const Function &other) const {
    return std::tie(name, sizes) < std::tie(other.name, other.sizes);
  }
};

std::vector<size_t> sizesOf(const std::string &kernel) {
  auto is = [&](const char *prefix) { return kernel.rfind(prefix, 0) == 0; };
  if (is("copy_") || is("convert_"))
    return {sizeof(Nest), 8, 8};
  if (is("combine_"))
    return {sizeof(Nest), 8, 8, 8, 4};
  if (is("reduce_"))
    return {sizeof(Nest), sizeof(Nest), 8, 8, 4};
  if (is("multiply_by_row") || is("multiply_from_end"))
    return {sizeof(tandem_kernel_operand), sizeof(tandem_kernel_operand)};
  if (is("run_words"))
    return {sizeof(tandem::gpu::RunWords)};
  if (is("ll_"))
    return {sizeof(tandem::gpu::LLArguments)};
  if (is("exchange_"))
    return {sizeof(tandem::gpu::ExchangeArguments)};
  if (is("signal_"))
    return std::vector<size_t>(is("signal_wait") ? 8 : 6, 8);
  return {};
}
} // namespace

CUfunction tandem::fake::functionOf(const std::string &name, std::vector<size_t> declared) {
  static std::mutex mutex;
  static std::set<Function> functions; // stay where they are
  std::lock_guard<std::mutex> lock(mutex);
  auto known = functions.insert({name, declared.empty() ? sizesOf(name) : std::move(declared)});
  return reinterpret_cast<CUfunction>(const_cast<Function *>(&*known.first));
}

const std::string &tandem::fake::nameOf(CUfunction function) {
  return reinterpret_cast<const Function *>(function)->name;
}

const std::vector<size_t> &tandem::fake::argumentSizes(CUfunction function) {
  return reinterpret_cast<const Function *>(function)->sizes;
}
