//===- Kernels.cpp - the GPU's own kernels, from the host's side ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace tandem::gpu {

namespace {

/// The widest access of a thread, in bytes.
constexpr unsigned kWidest = 16;

/// The kernels with 32-bit indices are the fast ones.
const char *bitsFor(uint64_t units) { return units < (uint64_t(1) << 31) ? "32" : "64"; }

/// Elements per unit of the variants of a kernel, widest first.
std::vector<unsigned> packsOf(unsigned widest) {
  return widest > 1 ? std::vector<unsigned>{widest, 1} : std::vector<unsigned>{1};
}

/// All bits of the addresses.
uintptr_t bitsOf(std::initializer_list<const void *> addresses) {
  uintptr_t all = 0;
  for (const void *address : addresses)
    all |= reinterpret_cast<uintptr_t>(address);
  return all;
}

/// The widest variant whose units begin at addresses with these bits.
template <typename Variant>
const Variant &pick(const std::vector<Variant> &variants, uintptr_t addresses) {
  addresses |= kWidest;
  uint64_t alignment = addresses & (~addresses + 1);
  for (const Variant &variant : variants)
    if (variant.bytes <= alignment)
      return variant;
  return variants.back(); // always fits: elements are aligned
}

/// The types whose kernels handle fused exchanges (program::exchangeKernelType).
constexpr DType kExchanged[] = {DType::F32, DType::F16, DType::BF16, DType::I8};
static_assert(kMostExchangeSteps == program::kMostExchangeSteps &&
                  kMostExchangeNests == program::kMostExchangeShapes &&
                  kMostExchangeStores == program::kMostExchangeStores &&
                  kMostExchangeWaits == program::kMostExchangeWaits &&
                  kMostExchangeSignals == program::kMostExchangeSignals,
              "the simulator knows the limits, too");

} // namespace

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Kernels>> Kernels::load(Driver &driver) {
  std::unique_ptr<Kernels> kernels(new Kernels(driver));
  TANDEM_RETURN_IF_ERROR(driver.loadModule(driver.vendor().kernels(), &kernels->module));
  std::vector<std::string> names{"widen_f16", "widen_bf16", "signal_raise", "signal_wait",
                                 "run_words"};
  for (DType type : kExchanged)
    for (unsigned pack : {1u, kWidest / sizeOf(type)}) {
      names.push_back(fmt::format("exchange_{}_{}", toString(type), pack));
      names.push_back(fmt::format("ll_{}_{}", toString(type), pack));
    }
  for (const char *bits : {"32", "64"}) {
    for (const char *width : {"8", "16", "32", "64", "128"})
      names.push_back(fmt::format("copy_{}_{}", width, bits));
    for (DType from : {DType::F8E4M3FN, DType::F8E5M2})
      for (DType to : {DType::F16, DType::BF16})
        names.push_back(fmt::format("convert_{}_{}_{}", toString(from), toString(to), bits));
    for (unsigned number = 0; number < kNumDTypes; ++number) {
      auto type = static_cast<DType>(number);
      if (!isReducible(type))
        continue;
      for (unsigned pack : {1u, kWidest / sizeOf(type)})
        for (const char *kernel :
             {"combine", "reduce_thread_per_output", "reduce_block_per_output"})
          names.push_back(fmt::format("{}_{}_{}_{}", kernel, toString(type), pack, bits));
    }
  }
  for (const std::string &name : names)
    TANDEM_RETURN_IF_ERROR(
        driver.function(kernels->module, name.c_str(), &kernels->functions[name]));
  return kernels;
}

Kernels::~Kernels() {
  if (module)
    driver.unloadModule(module).ignore();
}

Expected<FunctionHandle> Kernels::get(const std::string &name) const {
  auto found = functions.find(name);
  if (found == functions.end())
    return Status(Code::Internal, fmt::format("no kernel \"{}\"", name));
  return found->second;
}

Status Kernels::launch(FunctionHandle function, uint64_t units, StreamHandle stream,
                       void **arguments) const {
  return launchBlocks(function, (units + kThreads - 1) / kThreads, stream, arguments);
}

Status Kernels::launchBlocks(FunctionHandle function, uint64_t blocks, StreamHandle stream,
                             void **arguments) const {
  uint64_t most = uint64_t(driver.info().processors) * 32;
  auto grid = static_cast<unsigned>(std::clamp<uint64_t>(blocks, 1, most));
  return driver.launch(function, {grid, 1, kThreads}, stream, arguments);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

Loops::Loops(const std::vector<Layout> &layouts, bool inOrder) : operands(layouts.size()) {
  elements = static_cast<uint64_t>(layouts.front().numElements());
  if (elements > 0)
    dims = mergeLoops(layouts, inOrder);
}

unsigned Loops::pack(unsigned most) const {
  unsigned result = 1;
  for (unsigned candidate = 2; candidate <= most; candidate *= 2) {
    bool fits = inner() % candidate == 0;
    for (size_t k = 0; fits && k < operands; ++k) {
      fits = innerStride(k) == 1;
      for (size_t d = 0; fits && d < outer(); ++d)
        fits = outerStride(k, d) % candidate == 0;
    }
    if (!fits)
      break;
    result = candidate;
  }
  return result;
}

Nest Loops::nest(unsigned pack, bool inUnits) const {
  Nest nest;
  nest.total = elements / pack;
  nest.inner = static_cast<uint64_t>(inner()) / pack;
  nest.outer = static_cast<int32_t>(outer());
  int64_t scale = inUnits ? pack : 1;
  for (size_t k = 0; k < operands; ++k) {
    // Packs are contiguous elements.
    nest.innerStrides[k] = pack == 1 ? innerStride(k) : inUnits ? 1 : pack;
    for (size_t d = 0; d < outer(); ++d)
      nest.strides[k][d] = outerStride(k, d) / scale;
  }
  for (size_t d = 0; d < outer(); ++d)
    nest.extents[d] = static_cast<uint64_t>(dims[d].extent);
  return nest;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

Expected<CopyPlan> CopyPlan::make(const Kernels &kernels, const Layout &dst, const Layout &src) {
  CopyPlan plan;
  Loops loops({dst, src});
  unsigned element = sizeOf(dst.dtype);
  if (loops.total() == 0)
    return plan;
  // The copy engines leave the matmul's SMs alone.
  if (auto rows = program::describeRowCopy(dst, src)) {
    plan.rows = *rows;
    return plan;
  }
  for (unsigned pack = loops.pack(kWidest / element);; pack /= 2) {
    Nest nest = loops.nest(pack, true);
    unsigned width = pack * element;
    TANDEM_ASSIGN_OR_RETURN(FunctionHandle function,
                            kernels.get(fmt::format("copy_{}_{}", width * 8, bitsFor(nest.total))));
    plan.variants.push_back({width, function, nest});
    if (pack == 1)
      return plan;
  }
}

Status CopyPlan::run(const Kernels &kernels, StreamHandle stream, void *dst,
                     const void *src) const {
  if (variants.empty()) {
    if (rows.bytes == 0 || dst == src)
      return Status();
    if (rows.rows == 1)
      return kernels.driver.copyAsync(dst, src, rows.bytes, stream);
    return kernels.driver.copyRowsAsync(dst, rows.dstPitch, src, rows.srcPitch, rows.bytes,
                                        rows.rows, stream);
  }
  const KernelVariant &variant = pick(variants, bitsOf({dst, src}));
  Nest nest = variant.nest;
  void *arguments[] = {argument(nest), argument(dst), argument(src)};
  return kernels.launch(variant.function, nest.total, stream, arguments);
}

Expected<ConvertPlan> ConvertPlan::make(const Kernels &kernels, const Layout &dst,
                                        const Layout &src) {
  ConvertPlan plan;
  Loops loops({dst, src});
  if (loops.total() == 0)
    return plan;
  plan.nest = loops.nest(1, false);
  TANDEM_ASSIGN_OR_RETURN(plan.function,
                          kernels.get(fmt::format("convert_{}_{}_{}", toString(src.dtype),
                                                  toString(dst.dtype), bitsFor(plan.nest.total))));
  return plan;
}

Status ConvertPlan::run(const Kernels &kernels, StreamHandle stream, void *dst,
                        const void *src) const {
  if (!function)
    return Status();
  Nest loops = nest;
  void *arguments[] = {argument(loops), argument(dst), argument(src)};
  return kernels.launch(function, loops.total, stream, arguments);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Expected<CombinePlan> CombinePlan::make(const Kernels &kernels, const Layout &dst, const Layout &a,
                                        const Layout &b, ReduceOp op) {
  CombinePlan plan;
  plan.op = static_cast<int>(op);
  Loops loops({dst, a, b});
  if (loops.total() == 0)
    return plan;
  unsigned element = sizeOf(dst.dtype), most = kWidest / element;
  for (unsigned pack : packsOf(loops.pack(most) == most ? most : 1)) {
    Nest nest = loops.nest(pack, false);
    TANDEM_ASSIGN_OR_RETURN(FunctionHandle function,
                            kernels.get(fmt::format("combine_{}_{}_{}", toString(dst.dtype), pack,
                                                    bitsFor(nest.total))));
    plan.variants.push_back({pack * element, function, nest});
  }
  return plan;
}

Status CombinePlan::run(const Kernels &kernels, StreamHandle stream, void *dst, const void *a,
                        const void *b) const {
  if (variants.empty())
    return Status();
  const KernelVariant &variant = pick(variants, bitsOf({dst, a, b}));
  Nest nest = variant.nest;
  int code = op;
  void *arguments[] = {argument(nest), argument(dst), argument(a), argument(b), argument(code)};
  return kernels.launch(variant.function, nest.total, stream, arguments);
}

Expected<ReducePlan> ReducePlan::make(const Kernels &kernels, const Layout &dst, const Layout &src,
                                      uint64_t mask, ReduceOp op, bool ordered) {
  ReducePlan plan;
  plan.op = static_cast<int>(op);
  Loops kept({dst, src.select(mask, false)}), reduced({src.select(mask, true)}, ordered);
  if (kept.total() == 0)
    return plan;
  unsigned element = sizeOf(dst.dtype), most = kWidest / element;
  // One thread per result reads efficiently if results are contiguous in the source and many. It
  // adds one term after the other; the threads of a block share the terms.
  bool threadPerOutput = ordered || (kept.innerStride(1) == 1 && kept.inner() >= 32);
  plan.blockPerOutput = !threadPerOutput && reduced.total() >= 64 &&
                        (reduced.innerStride(0) == 1 || kept.total() < 4096);
  const Loops &packed = plan.blockPerOutput ? reduced : kept;
  bool aligned = true; // the unpacked loops must keep the alignment too
  const Loops &other = plan.blockPerOutput ? kept : reduced;
  size_t operand = plan.blockPerOutput ? 1 : 0;
  if (other.total() > 1) {
    aligned = other.innerStride(operand) % most == 0;
    for (size_t d = 0; d < other.outer(); ++d)
      aligned = aligned && other.outerStride(operand, d) % most == 0;
  }
  aligned = aligned && packed.total() > 0 && packed.pack(most) == most;
  for (unsigned pack : packsOf(aligned ? most : 1)) {
    Variant variant;
    variant.bytes = pack * element;
    variant.kept = kept.nest(plan.blockPerOutput ? 1 : pack, false);
    variant.reduced = reduced.nest(plan.blockPerOutput ? pack : 1, false);
    uint64_t larger = std::max(variant.kept.total, variant.reduced.total);
    TANDEM_ASSIGN_OR_RETURN(
        variant.function,
        kernels.get(fmt::format("reduce_{}_{}_{}_{}",
                                plan.blockPerOutput ? "block_per_output" : "thread_per_output",
                                toString(dst.dtype), pack, bitsFor(larger))));
    plan.variants.push_back(variant);
  }
  return plan;
}

Status ReducePlan::run(const Kernels &kernels, StreamHandle stream, void *dst,
                       const void *src) const {
  if (variants.empty())
    return Status();
  // With a block per result, results are stored one at a time, so `dst` needs no alignment.
  const Variant &variant = pick(variants, bitsOf({blockPerOutput ? nullptr : dst, src}));
  Nest kept = variant.kept, reduced = variant.reduced;
  int code = op;
  void *arguments[] = {argument(kept), argument(reduced), argument(dst), argument(src),
                       argument(code)};
  if (blockPerOutput)
    return kernels.launchBlocks(variant.function, kept.total, stream, arguments);
  return kernels.launch(variant.function, kept.total, stream, arguments);
}

//===----------------------------------------------------------------------===//
// Fused exchanges
//===----------------------------------------------------------------------===//

/// The same bytes as elements of one byte.
static Layout inBytes(const Layout &layout) {
  Layout bytes = layout;
  bytes.dtype = DType::I8;
  for (unsigned d = 0; d < layout.rank; ++d)
    bytes.strides[d] *= sizeOf(layout.dtype);
  bytes.shape[layout.rank] = sizeOf(layout.dtype);
  bytes.strides[layout.rank] = 1;
  ++bytes.rank;
  return bytes;
}

/// Moves of one type. Those of several types that add nothing become moves of bytes.
static std::vector<program::ExchangeMove> ofOneType(std::vector<program::ExchangeMove> moves) {
  std::set<DType> types;
  bool fits = true;
  for (const program::ExchangeMove &move : moves)
    if (!move.stores.empty()) {
      types.insert(move.out.dtype);
      fits &= !move.reduces && move.out.rank < kMaxRank && move.in.rank < kMaxRank;
    }
  if (types.size() > 1 && fits)
    for (program::ExchangeMove &move : moves) {
      move.out = inBytes(move.out);
      move.in = inBytes(move.in);
    }
  return moves;
}

Expected<ExchangePlan> ExchangePlan::make(const Kernels &kernels,
                                          const std::vector<program::ExchangeMove> &given,
                                          unsigned blocks) {
  ExchangePlan plan;
  plan.blocks = blocks;
  plan.moves = ofOneType(given);
  const std::vector<program::ExchangeMove> &moves = plan.moves;
  auto no = [](const std::string &why) { return Status(Code::Unsupported, why); };
  std::optional<DType> type;
  std::vector<std::pair<Layout, Layout>> shapes; // of targets and sources
  std::vector<Loops> loops;
  unsigned pack = kWidest;
  for (const program::ExchangeMove &move : moves) {
    plan.nestOfStep.push_back(0);
    if (move.stores.empty())
      continue;
    std::pair layouts(move.out, move.in);
    auto known = std::find(shapes.begin(), shapes.end(), layouts);
    plan.nestOfStep.back() = static_cast<int>(known - shapes.begin());
    if (known == shapes.end())
      shapes.push_back(std::move(layouts));
    unsigned most = kWidest / sizeOf(move.out.dtype);
    if (move.termStride % most != 0)
      pack = 1;
    if (!type)
      type = move.out.dtype;
    if (*type != move.out.dtype)
      return no("expected one type in all steps, or dimensions for the bytes of each element");
  }
  for (const auto &[out, in] : shapes) {
    // In order: unit i is the same elements in all steps.
    loops.emplace_back(std::vector<Layout>{out, in}, /*inOrder=*/true);
    if (loops.back().total() >= uint64_t(1) << 31)
      return no("its values are too large");
    unsigned most = kWidest / sizeOf(*type);
    pack = std::min(pack, most);
    if (loops.back().pack(most) != most)
      pack = 1;
  }
  // A barrier moves nothing: any type will do. program::whyNoKernel() has checked others.
  DType handled = *program::exchangeKernelType(type.value_or(DType::I8), /*added=*/false);
  if (!type)
    pack = 1;
  for (unsigned width : packsOf(pack)) {
    Variant &variant = plan.variants.emplace_back();
    variant.bytes = width * sizeOf(handled);
    TANDEM_ASSIGN_OR_RETURN(variant.function,
                            kernels.get(fmt::format("exchange_{}_{}", toString(handled), width)));
    for (const Loops &each : loops)
      variant.nests.push_back(each.total() > 0 ? each.nest(width, false) : Nest());
  }
  return plan;
}

Status ExchangePlan::run(const Kernels &kernels, StreamHandle stream, ExchangeArguments &exchange,
                         unsigned flagBlocks) const {
  exchange.numSteps = static_cast<int32_t>(moves.size());
  uintptr_t addresses = 0;
  size_t stores = 0;
  unsigned elementBytes = 0;
  for (size_t s = 0; s < moves.size(); ++s) {
    ExchangeStepArguments &step = exchange.steps[s];
    step.terms = moves[s].terms;
    step.termStride = moves[s].termStride;
    step.nest = nestOfStep[s];
    step.reduces = moves[s].reduces;
    step.op = moves[s].reduceOp;
    step.numStores = static_cast<int32_t>(moves[s].stores.size());
    if (step.numStores > 0)
      elementBytes = sizeOf(moves[s].out.dtype);
    stores += moves[s].stores.size();
  }
  for (size_t k = 0; k < stores; ++k)
    addresses |= reinterpret_cast<uintptr_t>(exchange.stores[k].target) |
                 reinterpret_cast<uintptr_t>(exchange.stores[k].source);
  // One variant for all steps, in which a thread handles the same elements.
  const Variant &variant = pick(variants, addresses);
  std::copy(variant.nests.begin(), variant.nests.end(), exchange.nests);
  exchange.flagBlocks = static_cast<int32_t>(flagBlocks);
  // The addresses of other ranks may allow another variant: a block has the same elements in both.
  if (flagBlocks > 0 && elementBytes > 0)
    exchange.unitsPerThread = static_cast<int32_t>(kWidest / elementBytes);
  void *arguments[] = {argument(exchange)};
  unsigned grid = flagBlocks > 0 ? flagBlocks : blocks;
  return kernels.driver.launch(variant.function, {grid, 1, kExchangeThreads}, stream, arguments);
}

Expected<LLPlan> LLPlan::make(const Kernels &kernels, const Layout &source, const Layout &slot,
                              const Layout *sum, ReduceOp op) {
  // program::whyNoKernel() has checked that it has one.
  DType handled = *program::exchangeKernelType(source.dtype, /*added=*/false);
  LLPlan plan;
  plan.op = op;
  // In order: unit i is the same elements on all ranks.
  Loops loops({sum ? *sum : slot, source, slot}, /*inOrder=*/true);
  unsigned most = kWidest / sizeOf(handled);
  if (loops.total() == 0 || loops.total() >= uint64_t(1) << 31)
    return Status(Code::Unsupported, "its values are too large, or empty");
  plan.units = (loops.total() + most - 1) / most;
  for (unsigned width : packsOf(loops.pack(most) == most ? most : 1)) {
    KernelVariant &variant = plan.variants.emplace_back();
    variant.bytes = width * sizeOf(handled);
    variant.nest = loops.nest(width, false);
    TANDEM_ASSIGN_OR_RETURN(variant.function,
                            kernels.get(fmt::format("ll_{}_{}", toString(handled), width)));
  }
  return plan;
}

Status LLPlan::run(const Kernels &kernels, StreamHandle stream, LLArguments &exchange,
                   unsigned blocks) const {
  auto addresses = reinterpret_cast<uintptr_t>(exchange.sum);
  for (int r = 0; r < exchange.ranks; ++r)
    addresses |= reinterpret_cast<uintptr_t>(exchange.sources[r]) |
                 reinterpret_cast<uintptr_t>(exchange.slots[r]) |
                 reinterpret_cast<uintptr_t>(exchange.copies[r]);
  const KernelVariant &variant = pick(variants, addresses);
  exchange.nest = variant.nest;
  exchange.units = units;
  exchange.op = static_cast<int32_t>(op);
  void *arguments[] = {argument(exchange)};
  return kernels.driver.launch(variant.function, {blocks, 1, kExchangeThreads}, stream, arguments);
}

} // namespace tandem::gpu
