//===- CostModel.cpp - ops as work ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CostModelImpl.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallSet.h"

// `using namespace mlir` would make `tandem` ambiguous here.
using namespace mlir;

namespace tandem {

CostModel::CostModel(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
CostModel::~CostModel() = default;

std::shared_ptr<const CostModel> CostModel::load(StringRef name, const Options &options,
                                                 std::string &error) {
  auto machine = machine::Machine::load(machine::pathOf(name.str()));
  tandem::Status status =
      machine ? machine->checkRanks(static_cast<uint32_t>(options.ranks)) : machine.status();
  if (!status.ok()) {
    error = status.message();
    return nullptr;
  }
  return std::shared_ptr<const CostModel>(new CostModel(
      std::unique_ptr<Implementation>(new Implementation{std::move(*machine), options})));
}

StringRef CostModel::getName() const { return implementation->machine.name; }
const CostModel::Options &CostModel::getOptions() const { return implementation->options; }

static tandem::DType getDType(Type type) {
  return type.isF16()    ? tandem::DType::F16
         : type.isBF16() ? tandem::DType::BF16
         : type.isF32()  ? tandem::DType::F32
                         : tandem::DType::I32;
}

static double getBytes(RankedTensorType type, ArrayRef<int64_t> shape) {
  unsigned element = (type.getElementTypeBitWidth() + 7) / 8;
  double bytes = element;
  for (int64_t extent : shape)
    bytes *= static_cast<double>(extent);
  return bytes;
}

double getLocalBytes(RankedTensorType type) {
  FailureOr<SmallVector<int64_t>> shape = fusion::getLocalShape(type);
  return succeeded(shape) && !ShapedType::isDynamicShape(*shape) ? getBytes(type, *shape) : 0;
}

namespace {
/// The devices that talk to the first one of a mesh along some of its axes.
struct Group {
  uint32_t size = 1, nodes = 1;
};
} // namespace

static Group getGroup(const machine::Machine &machine, MeshAttr mesh, ArrayRef<StringAttr> axes) {
  llvm::SmallSet<uint32_t, 8> nodes;
  Group group{0, 1};
  for (int64_t position = 0, e = mesh.numDevices(); position < e; ++position) {
    SmallVector<int64_t> at = mesh.coordinates(position);
    bool isMember = llvm::all_of(llvm::enumerate(mesh.getAxes()), [&](auto axis) {
      return at[axis.index()] == 0 || axes.empty() || llvm::is_contained(axes, axis.value().name);
    });
    if (!isMember)
      continue;
    ++group.size;
    nodes.insert(machine.nodeOf(static_cast<uint32_t>(mesh.worldRank(position))));
  }
  group.nodes = std::max<uint32_t>(1, nodes.size());
  return group;
}

LoopItem CostModel::getReshard(RankedTensorType from, RankedTensorType to, int64_t slices,
                               bool oneOwner) const {
  fusion::Reshard reshard = fusion::classifyReshard(from, to);
  double source = getLocalBytes(from) / static_cast<double>(slices),
         target = getLocalBytes(to) / static_cast<double>(slices);
  const machine::Machine &machine = implementation->machine;
  LoopItem item;
  if (reshard.isLocal()) {
    item.seconds = machine.memorySeconds(machine::MemoryWork::Copy, 2 * target);
    return item;
  }
  // One device's mesh on the other side says nothing of the group.
  bool isToRoot =
      reshard.kind == fusion::ReshardKind::Reduce || reshard.kind == fusion::ReshardKind::Gather;
  Group group = getGroup(machine, fusion::getAxes(isToRoot ? from : to).getMesh(), reshard.axes);
  item.kind = LoopItem::Kind::Collective;
  item.group = group.size;
  item.groupNodes = group.nodes;
  using Collective = LoopItem::Collective;
  auto is = [&](Collective kind, double bytes) {
    item.collective = kind;
    item.bytes = bytes;
    return item;
  };
  switch (reshard.kind) {
  case fusion::ReshardKind::AllGather:
    item.oneOwner = oneOwner;
    return oneOwner ? is(Collective::Broadcast, target) : is(Collective::AllGather, source);
  case fusion::ReshardKind::AllReduce:
    return is(Collective::AllReduce, target);
  case fusion::ReshardKind::ReduceScatter:
    item.oneOwner = oneOwner;
    return oneOwner ? is(Collective::Reduce, target * group.size)
                    : is(Collective::ReduceScatter, target);
  case fusion::ReshardKind::AllToAll:
    return is(Collective::AllToAll, source / group.size);
  case fusion::ReshardKind::Broadcast:
    return is(Collective::Broadcast, target);
  case fusion::ReshardKind::Reduce:
    return is(Collective::Reduce, target);
  case fusion::ReshardKind::Gather:
    return is(Collective::Gather, source);
  case fusion::ReshardKind::Scatter:
    return is(Collective::Scatter, target);
  default:
    // Each device gets what it lacks.
    item.kind = LoopItem::Kind::Messages;
    item.bytes = target;
    return item;
  }
}

LoopItem CostModel::inMessages(const LoopItem &item) {
  if (item.kind != LoopItem::Kind::Collective || item.reduces())
    return item;
  LoopItem messages = item;
  messages.kind = LoopItem::Kind::Messages;
  // What comes from the others, or at a root goes to them.
  messages.bytes = (item.group - 1) * item.bytes;
  messages.copied = item.bytes;
  messages.oneOwner = false;
  return messages;
}

/// Matmuls that a slice of a contracted dimension takes, one for each run of it that lies together.
static uint32_t getNumRuns(RankedTensorType type, unsigned dim) {
  auto digits = fusion::getLocalDigits(type);
  if (failed(digits))
    return 1;
  int64_t runs = 1, kept = 1;
  bool isApart = false;
  for (const fusion::LocalDigit &digit : (*digits)[dim]) {
    if (digit.isStream) {
      isApart |= kept > 1 && digit.size > 1;
      if (digit.ragged && isApart) // a slice's indices are what a serial digit would be
        runs = kept;
    } else if (digit.size > 1) {
      runs = isApart ? kept : 1;
      kept *= digit.size;
    }
  }
  return static_cast<uint32_t>(runs);
}

double CostModel::getLeastGain(bool oneSided) const {
  const machine::Machine &machine = implementation->machine;
  auto takesSms = [](machine::Mover mover) { return mover == machine::Mover::Sm; };
  bool beside = oneSided ? takesSms(machine.oneSided.mover)
                         : takesSms(machine.twoSided.mover) || takesSms(machine.collectives.mover);
  return beside ? std::max(kLeastGain, machine.leastGainBesideSms) : kLeastGain;
}

static double getMatmulSeconds(const machine::Machine &machine, const LoopItem &item) {
  double seconds =
      machine.matmulSeconds(getDType(item.element), 1, item.rows, item.columns, item.contracted);
  return std::max(seconds, item.rows * item.columns * item.contracted * item.leastRate);
}

static LoopItem getMatmul(const machine::Machine &machine, fusion::MatmulOp op,
                          ArrayRef<RankedTensorType> operands, RankedTensorType result,
                          int64_t slices, std::optional<unsigned> accumulated) {
  LoopItem item;
  item.element = operands[0].getElementType();
  auto out =
      slices > 1 && !accumulated ? fusion::getSliceShape(result) : fusion::getLocalShape(result);
  FailureOr<SmallVector<int64_t>> in = accumulated ? fusion::getSliceShape(operands[*accumulated])
                                                   : fusion::getLocalShape(operands[0]);
  if (failed(out) || failed(in))
    return item;
  item.rows = 1;
  for (int64_t extent : ArrayRef(*out).drop_back())
    item.rows *= static_cast<double>(extent);
  item.columns = static_cast<double>(out->back());
  unsigned dim = accumulated && *accumulated == 1 ? op.rhsK() : op.lhsK();
  if (accumulated)
    item.repeat = getNumRuns(operands[*accumulated], dim);
  item.contracted = static_cast<double>((*in)[dim]) / item.repeat;
  if (slices > 1) {
    LoopItem whole = getMatmul(machine, op, operands, result, 1, std::nullopt);
    if (double count = whole.rows * whole.columns * whole.contracted; count > 0)
      item.leastRate = whole.seconds / count;
  }
  item.seconds = getMatmulSeconds(machine, item);
  return item;
}

std::optional<LoopItem> CostModel::getCompute(Operation *op, ArrayRef<RankedTensorType> operands,
                                              RankedTensorType result, int64_t slices,
                                              std::optional<unsigned> accumulated) const {
  if (isa<fusion::BroadcastOp, fusion::PermuteOp, fusion::ReshapeOp, fusion::SliceOp>(op))
    return std::nullopt;
  const machine::Machine &machine = implementation->machine;
  LoopItem item;
  if (auto matmul = dyn_cast<fusion::MatmulOp>(op)) {
    item = getMatmul(machine, matmul, operands, result, slices, accumulated);
  } else {
    double bytes = getLocalBytes(result) / static_cast<double>(accumulated ? 1 : slices);
    for (RankedTensorType operand : operands)
      bytes += getLocalBytes(operand) / static_cast<double>(slices);
    machine::MemoryWork work = isa<fusion::ReduceOp>(op)   ? machine::MemoryWork::Reduce
                               : isa<fusion::ConcatOp>(op) ? machine::MemoryWork::Copy
                                                           : machine::MemoryWork::Elementwise;
    item.seconds = machine.memorySeconds(work, bytes);
  }
  item.accumulates = accumulated.has_value();
  return item;
}

LoopItem CostModel::getElementwise(double bytes) const {
  LoopItem item;
  item.seconds = implementation->machine.memorySeconds(machine::MemoryWork::Elementwise, bytes);
  return item;
}

LoopWork CostModel::cut(const LoopWork &work, int64_t count) const {
  LoopWork slices = work;
  auto part = static_cast<double>(count);
  slices.slices *= count;
  for (LoopItem &item : slices.items) {
    item.bytes /= part;
    item.copied /= part;
    item.seconds /= part;
    item.rows /= part;
    if (item.isMatmul() && item.rows > 0)
      item.seconds = getMatmulSeconds(implementation->machine, item);
  }
  return slices;
}

} // namespace tandem
