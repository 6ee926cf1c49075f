//===- Expression.cpp - the elementwise kernels of the CPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs expression code tile by tile: each instruction is a loop over the tile, and a tile's
// registers fit the first-level cache. Prepared once: inputs are loaded at first use, values with
// disjoint live ranges share registers, contiguous 32-bit operands are used in place, and
// tile-invariant values are computed once.
//
//===----------------------------------------------------------------------===//

#include "../Host/Tile.h"
#include "CpuDevice.h"
#include "TileNest.h"

#include "tandem/Program/Program.h"
#include "tandem/Program/stream_program_generated.h"
#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace tandem::cpu {

namespace {

constexpr uint32_t kNone = 0xffffffffu;
/// Bytes of a tile's registers: part of a 32 KiB cache that leaves room for streamed data.
constexpr int64_t kRegisterBytes = 20 * 1024;
constexpr int64_t kMinTile = 64, kMaxTile = 2048;

/// `from`: the type of the first operand, if any. Null for instructions that do not compute.
TileFunction functionOf(const TileFunctions &functions, const sp::ExprInstr &instr,
                        sp::RegisterType from) {
  auto type = static_cast<size_t>(instr.type());
  switch (instr.op()) {
#define TANDEM_CASE(name)                                                                          \
  case sp::ExprOp::name:                                                                           \
    return functions.name.of[type];
    TANDEM_TILE_FUNCTIONS(TANDEM_CASE)
#undef TANDEM_CASE
  case sp::ExprOp::convert:
    return functions.convert[type].of[static_cast<size_t>(from)];
  case sp::ExprOp::convert_odd:
    return functions.convertOdd.of[static_cast<size_t>(from)];
  case sp::ExprOp::convert_unsigned:
    return functions.convertUnsigned[type].of[static_cast<size_t>(from)];
  default:
    return nullptr;
  }
}

bool isLoad(sp::ExprOp op) { return op == sp::ExprOp::load; }
bool isStore(sp::ExprOp op) { return op == sp::ExprOp::store; }
unsigned widthOf(sp::RegisterType type) {
  return type == sp::RegisterType::f64 || type == sp::RegisterType::i64 ? 8 : 4;
}
/// Whether memory and registers hold the same bytes.
bool isStoredAsIs(DType type) { return sizeOf(type) >= 4; }

/// Location of a value: a register of the tile, or an operand's memory.
struct Place {
  bool isMemory = false;
  uint32_t index = kNone;
};

struct Step {
  TileFunction function; ///< null: a load of `operand`
  Place result, operands[3];
  uint32_t operand = kNone;
};

struct Store {
  uint32_t operand;
  Place value;
};

struct Constant {
  uint32_t reg;
  unsigned width; ///< bytes
  uint64_t bits;
};

/// The plan of an expression for operands of known layouts.
struct Plan {
  std::vector<Constant> constants;
  std::vector<Step> prologue; ///< loads of tile-invariant operands
  std::vector<Step> steps;
  std::vector<Store> stores;
  uint32_t numRegisters = 0;
};

class Planner {
public:
  Planner(const std::vector<sp::ExprInstr> &code, uint32_t outputs, const std::vector<DType> &types,
          const TileNest &nest, const TileFunctions &functions)
      : code(code), outputs(outputs), types(types), nest(nest), functions(functions),
        places(code.size()), isNeeded(code.size(), false), lastUse(code.size(), 0) {}

  Plan run() {
    findUses();
    findDirectStores();
    for (uint32_t i = 0; i < code.size(); ++i)
      if (isNeeded[i] && function(i))
        compute(i);
    for (const sp::ExprInstr &instr : code)
      if (isStore(instr.op()) && directOutput[instr.a()] != instr.b())
        plan.stores.push_back({instr.b(), place(instr.a())});
    return std::move(plan);
  }

private:
  template <typename Fn> void forOperands(const sp::ExprInstr &instr, Fn fn) const {
    uint32_t used[] = {instr.a(), instr.b(), instr.c()};
    for (unsigned k = 0; k < registersRead(instr.op()); ++k)
      fn(k, used[k]);
  }

  void findUses() {
    auto end = static_cast<uint32_t>(code.size());
    for (uint32_t i = end; i-- > 0;) {
      if (!isStore(code[i].op()) && !isNeeded[i])
        continue;
      forOperands(code[i], [&](unsigned, uint32_t r) {
        isNeeded[r] = true;
        // Stores come last: an output may alias an input that is read later.
        lastUse[r] = std::max(lastUse[r], isStore(code[i].op()) ? end : i);
      });
    }
  }

  /// A result goes directly to its output if no input is read after it: see findUses.
  void findDirectStores() {
    directOutput.assign(code.size(), kNone);
    uint32_t lastRead = 0;
    for (uint32_t i = 0; i < code.size(); ++i)
      if (isNeeded[i])
        forOperands(code[i], [&](unsigned, uint32_t r) {
          if (isLoad(code[r].op()))
            lastRead = i;
        });
    for (const sp::ExprInstr &instr : code) {
      if (!isStore(instr.op()))
        continue;
      uint32_t value = instr.a(), output = instr.b();
      if (function(value) && value >= lastRead && isStoredAsIs(types[output]) &&
          nest.isAdjacent(output) && directOutput[value] == kNone)
        directOutput[value] = output;
    }
  }

  void compute(uint32_t i) {
    Step step{function(i), {}, {}, kNone};
    bool sameWidth = true;
    forOperands(code[i], [&](unsigned k, uint32_t r) {
      step.operands[k] = place(r);
      sameWidth &= widthOf(typeOf(r)) == widthOf(typeOf(i));
    });
    auto releaseAll = [&] { forOperands(code[i], [&](unsigned, uint32_t r) { release(i, r); }); };
    // The result may reuse an operand's register of equal element width: each element is read
    // before it is written.
    if (sameWidth)
      releaseAll();
    places[i] =
        directOutput[i] == kNone ? Place{false, newRegister()} : Place{true, directOutput[i]};
    if (!sameWidth)
      releaseAll();
    step.result = places[i];
    plan.steps.push_back(step);
  }

  Place place(uint32_t r) {
    if (places[r].index != kNone)
      return places[r];
    const sp::ExprInstr &instr = code[r];
    if (instr.op() == sp::ExprOp::constant) {
      places[r] = {false, plan.numRegisters++};
      plan.constants.push_back({places[r].index, widthOf(instr.type()), instr.bits()});
      lastUse[r] = kNone;
    } else {
      places[r] = load(r);
    }
    return places[r];
  }

  Place load(uint32_t r) {
    uint32_t operand = outputs + code[r].a();
    if (isStoredAsIs(types[operand]) && nest.isAdjacent(operand))
      return {true, operand};
    if (nest.steps(operand).isInvariant && nest.hasWholeRows()) {
      // Never freed: tile-invariant.
      Place place{false, plan.numRegisters++};
      plan.prologue.push_back({nullptr, place, {}, operand});
      lastUse[r] = kNone;
      return place;
    }
    Place place{false, newRegister()};
    plan.steps.push_back({nullptr, place, {}, operand});
    return place;
  }

  uint32_t newRegister() {
    if (freeRegisters.empty())
      return plan.numRegisters++;
    uint32_t r = freeRegisters.back();
    freeRegisters.pop_back();
    return r;
  }

  sp::RegisterType typeOf(uint32_t r) const { return resultType(code[r].op(), code[r].type()); }
  TileFunction function(uint32_t i) const {
    bool reads = registersRead(code[i].op()) > 0;
    return functionOf(functions, code[i], reads ? typeOf(code[i].a()) : sp::RegisterType::f32);
  }

  void release(uint32_t i, uint32_t r) {
    if (lastUse[r] != i || places[r].isMemory)
      return;
    freeRegisters.push_back(places[r].index);
    lastUse[r] = kNone; // an instruction may use it twice
  }

  const std::vector<sp::ExprInstr> &code;
  uint32_t outputs;
  const std::vector<DType> &types;
  const TileNest &nest;
  const TileFunctions &functions;
  std::vector<Place> places; ///< per instruction; index kNone: not yet assigned
  std::vector<bool> isNeeded;
  std::vector<uint32_t> lastUse;
  std::vector<uint32_t> directOutput; ///< per instruction, or kNone
  std::vector<uint32_t> freeRegisters;
  Plan plan;
};

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// A tile's elements, contiguous.
template <typename T>
void gather(T *to, const std::byte *from, const TileNest::Steps &steps, int64_t rows,
            int64_t columns) {
  const auto *base = reinterpret_cast<const T *>(from);
  if (steps.row == 1 && steps.column > 1) {
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < rows; ++r)
        to[r * columns + c] = base[c * steps.column + r];
    return;
  }
  for (int64_t r = 0; r < rows; ++r, to += columns, base += steps.row) {
    if (steps.column == 1)
      std::memcpy(to, base, static_cast<size_t>(columns) * sizeof(T));
    else if (steps.column == 0)
      std::fill_n(to, columns, *base);
    else
      for (int64_t c = 0; c < columns; ++c)
        to[c] = base[c * steps.column];
  }
}

template <typename T>
void scatter(std::byte *to, const T *from, const TileNest::Steps &steps, int64_t rows,
             int64_t columns) {
  auto *base = reinterpret_cast<T *>(to);
  for (int64_t r = 0; r < rows; ++r, from += columns, base += steps.row) {
    if (steps.column == 1)
      std::memcpy(base, from, static_cast<size_t>(columns) * sizeof(T));
    else
      for (int64_t c = 0; c < columns; ++c)
        base[c * steps.column] = from[c];
  }
}

struct AlignedDelete {
  void operator()(std::byte *p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

//===----------------------------------------------------------------------===//
// Operation
//===----------------------------------------------------------------------===//

std::vector<Layout> layoutsOf(const std::vector<Operand> &operands) {
  std::vector<Layout> layouts;
  for (const Operand &operand : operands)
    layouts.push_back(operand.layout);
  return layouts;
}

class ExpressionOperation final : public HostOperation {
public:
  ExpressionOperation(const std::vector<sp::ExprInstr> &code, uint32_t outputs,
                      const std::vector<Operand> &operands)
      : functions(*tileFunctions().front()), nest(layoutsOf(operands), kMinTile) {
    for (const Operand &operand : operands) {
      slots.push_back(operand.slot);
      types.push_back(operand.layout.dtype);
    }
    for (const sp::ExprInstr &instr : code)
      width = std::max(width, widthOf(instr.type()));
    // Fewer registers allow a larger tile, which may save more registers.
    uint32_t registers = Planner(code, outputs, types, nest, functions).run().numRegisters;
    int64_t tile = kRegisterBytes / (int64_t(width) * std::max(registers, 1u));
    tile = std::clamp(tile / kMinTile * kMinTile, kMinTile, kMaxTile);
    nest = TileNest(layoutsOf(operands), tile);
    plan = Planner(code, outputs, types, nest, functions).run();
    bases.resize(slots.size());
  }

  Status execute(const Frame &frame) override {
    // A stream runs one execution of this operation at a time, so these members are safe.
    for (size_t k = 0; k < slots.size(); ++k)
      bases[k] = static_cast<std::byte *>(frame.pointers[slots[k]]);
    int64_t pitch = nest.rows() * nest.columns() * int64_t(width);
    // One extra row for narrow elements being converted.
    auto bytes = static_cast<size_t>(pitch) * (plan.numRegisters + 1);
    if (!memory)
      memory.reset(new (std::align_val_t(64)) std::byte[bytes]);
    Tile tile{bases.data(), nest.rows(), nest.columns(), pitch, memory.get()};
    for (const Constant &constant : plan.constants)
      withUnsigned(constant.width, [&](auto zero) {
        using T = decltype(zero);
        std::fill_n(static_cast<T *>(tile.reg(constant.reg)), tile.size(),
                    static_cast<T>(constant.bits));
      });
    if (!nest.isEmpty())
      for (const Step &step : plan.prologue)
        load(step, tile);
    nest.run(bases.data(), [&](std::byte *const *at, int64_t rows, int64_t columns) {
      tile.at = at;
      tile.rows = rows;
      tile.columns = columns;
      run(tile);
    });
    return Status();
  }

private:
  struct Tile {
    std::byte *const *at;
    int64_t rows, columns, pitch; ///< pitch: bytes of a register
    std::byte *registers;
    void *reg(uint32_t index) const { return registers + static_cast<int64_t>(index) * pitch; }
    void *find(Place place) const {
      if (place.isMemory)
        return at[place.index];
      return place.index == kNone ? nullptr : reg(place.index);
    }
    int64_t size() const { return rows * columns; }
  };

  void run(const Tile &tile) const {
    for (const Step &step : plan.steps) {
      if (step.function)
        step.function(tile.find(step.result), tile.find(step.operands[0]),
                      tile.find(step.operands[1]), tile.find(step.operands[2]), tile.size());
      else
        load(step, tile);
    }
    for (const Store &s : plan.stores)
      store(s, tile);
  }

  void load(const Step &step, const Tile &tile) const {
    uint32_t k = step.operand;
    void *to = tile.reg(step.result.index), *narrow = tile.reg(plan.numRegisters);
    const std::byte *from = tile.at[k];
    if (isStoredAsIs(types[k]))
      narrow = to;
    if (nest.isAdjacent(k) && narrow != to)
      narrow = tile.at[k]; // only read
    else
      withUnsigned(sizeOf(types[k]), [&](auto zero) {
        gather(static_cast<decltype(zero) *>(narrow), from, nest.steps(k), tile.rows, tile.columns);
      });
    int64_t n = tile.size();
    switch (types[k]) {
    case DType::F16:
      return functions.loadF16(static_cast<float *>(to), static_cast<uint16_t *>(narrow), n);
    case DType::BF16:
      return functions.loadBF16(static_cast<float *>(to), static_cast<uint16_t *>(narrow), n);
    case DType::F8E4M3FN:
      return functions.loadF8E4M3FN(static_cast<float *>(to), static_cast<uint8_t *>(narrow), n);
    case DType::F8E5M2:
      return functions.loadF8E5M2(static_cast<float *>(to), static_cast<uint8_t *>(narrow), n);
    case DType::I8:
      std::copy_n(static_cast<int8_t *>(narrow), n, static_cast<int32_t *>(to));
      return;
    case DType::I16:
      std::copy_n(static_cast<int16_t *>(narrow), n, static_cast<int32_t *>(to));
      return;
    case DType::I1:
      std::transform(static_cast<uint8_t *>(narrow), static_cast<uint8_t *>(narrow) + n,
                     static_cast<int32_t *>(to), [](uint8_t x) { return x != 0; });
      return;
    default:
      return;
    }
  }

  void store(const Store &s, const Tile &tile) const {
    uint32_t k = s.operand;
    const void *from = tile.find(s.value);
    bool direct = nest.isAdjacent(k);
    void *narrow = direct ? tile.at[k] : static_cast<std::byte *>(tile.reg(plan.numRegisters));
    int64_t n = tile.size();
    switch (types[k]) {
    case DType::F16:
      functions.storeF16(static_cast<uint16_t *>(narrow), static_cast<const float *>(from), n);
      break;
    case DType::BF16:
      functions.storeBF16(static_cast<uint16_t *>(narrow), static_cast<const float *>(from), n);
      break;
    case DType::F8E4M3FN:
      functions.storeF8E4M3FN(static_cast<uint8_t *>(narrow), static_cast<const float *>(from), n);
      break;
    case DType::F8E5M2:
      functions.storeF8E5M2(static_cast<uint8_t *>(narrow), static_cast<const float *>(from), n);
      break;
    case DType::I8:
    case DType::I1: { // 0 or 1
      const auto *values = static_cast<const int32_t *>(from);
      std::transform(values, values + n, static_cast<uint8_t *>(narrow),
                     [](int32_t x) { return static_cast<uint8_t>(x); });
      break;
    }
    case DType::I16:
      std::transform(static_cast<const int32_t *>(from), static_cast<const int32_t *>(from) + n,
                     static_cast<uint16_t *>(narrow),
                     [](int32_t x) { return static_cast<uint16_t>(x); });
      break;
    default:
      direct = false;
      narrow = const_cast<void *>(from); // only read
    }
    if (!direct)
      withUnsigned(sizeOf(types[k]), [&](auto zero) {
        scatter(tile.at[k], static_cast<const decltype(zero) *>(narrow), nest.steps(k), tile.rows,
                tile.columns);
      });
  }

  const TileFunctions &functions;
  std::vector<uint32_t> slots;
  std::vector<DType> types;
  TileNest nest;
  Plan plan;
  unsigned width = 4; ///< bytes of a register's element
  std::vector<std::byte *> bases;
  AlignedBytes memory; ///< of the registers; allocated by the first run
};

} // namespace

Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc) {
  if (static_cast<sp::KernelFormat>(desc.format) != sp::KernelFormat::expression)
    return Status(Code::Unsupported,
                  "kernel \"" + std::string(desc.name) +
                      "\": the cpu device runs expressions, not native code for \"" +
                      std::string(desc.target) + "\"");
  // Verified with the program; copied because a byte vector's own fields may be unaligned.
  std::vector<uint64_t> aligned((desc.codeSize + 7) / 8);
  std::memcpy(aligned.data(), desc.code, desc.codeSize);
  const auto *expression = flatbuffers::GetRoot<sp::Expression>(aligned.data());
  std::vector<sp::ExprInstr> code;
  for (const sp::ExprInstr *instr : *expression->code())
    code.push_back(*instr);
  return std::make_unique<ExpressionOperation>(code, expression->outputs(), desc.operands);
}

} // namespace tandem::cpu
