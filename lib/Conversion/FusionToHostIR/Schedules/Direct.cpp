//===- Direct.cpp - resharding few bytes by one kernel ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include "tandem/Program/Expand.h"
#include "tandem/Program/FusedExchange.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

namespace {

/// A loop with one reduce-scatter or all-reduce, or with all-gathers among the same devices, which
/// one kernel does.
struct DirectLoop {
  const StreamLoop &loop;
  mutable fusion::ReshardOp reshard; ///< the only one, or the first gather
  fusion::SliceReshard plan;
  SmallVector<fusion::ReshardOp> others; ///< more gathers
  /// Two-shot: the dimension that is cut into a part per device. If its parts would have gaps, all
  /// elements may be cut as one row instead (`DirectEmission::flatten`).
  std::optional<int64_t> cut;
  int64_t blocks = 1;
  program::ExchangeProtocol protocol = program::ExchangeProtocol::Simple;
  SmallVector<Operation *> producers, consumers;
};

/// All is on the main stream.
class DirectEmission {
public:
  DirectEmission(const DirectLoop &all, ProgramBuilder &program)
      : all(all), program(program), builder(program.getBuilder()), loc(all.reshard.getLoc()),
        body(all.loop, program), stream(program.getMainStream()), devices(all.plan.groupSize()) {}

  LogicalResult emit();

private:
  /// Views have no dimension for the devices, and so may have dimensions of extent 1.
  bool isAllReduce() const { return all.plan.kind == fusion::ReshardKind::AllReduce; }
  bool gathers() const { return all.plan.kind == fusion::ReshardKind::AllGather; }
  SmallVector<fusion::ReshardOp> getReshards() const {
    SmallVector<fusion::ReshardOp> reshards{all.reshard};
    reshards.append(all.others);
    return reshards;
  }

  LogicalResult prepare();
  /// Of what a device adds up.
  SmallVector<int64_t> getSumShape();
  LogicalResult emitOps(ArrayRef<Operation *> ops);
  LogicalResult exchange();
  /// What a device has of a value, and what it gets. `outside`: memory of the embedder that gets a
  /// copy of it; may be null.
  struct Ends {
    Value own, target, outside;
  };
  FailureOr<Ends> getEnds(fusion::ReshardOp op, Value stored);
  /// Makes the ends one row each, if their parts along `cut` have gaps and the whole has none:
  /// parts of the row have none either. True if it did.
  bool flatten(Ends &value);
  /// Whether these copies fit into the kernel: moves of two shapes, and so many stores.
  bool copiesInKernel(const Ends &value) const;
  hostir::ExchangeKind getKind() const;

  const DirectLoop &all;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  LoopEmitter body;
  Value stream;
  int64_t devices;
  /// Symmetric, of the results' shapes, where peers store parts of the results.
  SmallVector<Value> results;
  Value slots; ///< symmetric: the partial sums of all devices, [device, ...]
};

} // namespace

LogicalResult DirectEmission::prepare() {
  if (all.cut || gathers())
    for (fusion::ReshardOp op : getReshards()) {
      Value result = program.allocSymmetric(loc, *fusion::getLocalShape(op.getType()),
                                            op.getType().getElementType());
      results.push_back(result);
      // A result of the program is in the embedder's memory, which peers cannot access.
      if (!program.getBuffer(op.getResult()))
        program.setBuffer(op.getResult(), result);
    }
  if (failed(body.prepare()))
    return failure();
  if (all.plan.reduces()) {
    SmallVector<int64_t> shape = getSumShape();
    shape.insert(shape.begin(), devices);
    slots = program.allocSymmetric(loc, shape, all.reshard.getType().getElementType());
  }
  return success();
}

SmallVector<int64_t> DirectEmission::getSumShape() {
  Block scratch;
  OpBuilder there(builder.getContext());
  there.setInsertionPointToStart(&scratch);
  FailureOr<ReshardPlan> slice = planReshard(all.reshard, SliceIndex(), there);
  Value target = makeView(there, loc, program.getBuffer(all.reshard.getResult()), slice->target,
                          isAllReduce());
  auto shape = llvm::to_vector(cast<MemRefType>(target.getType()).getShape());
  if (all.cut)
    shape[*all.cut] /= devices;
  return shape;
}

/// All dimensions from `first` on as one.
static SmallVector<ReassociationIndices> groupFrom(MemRefType type, int64_t first) {
  SmallVector<ReassociationIndices> groups(first + 1);
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    groups[std::min(dim, first)].push_back(dim);
  return groups;
}

static Value collapseFrom(OpBuilder &builder, Location loc, Value buffer, int64_t first) {
  return memref::CollapseShapeOp::create(builder, loc, buffer,
                                         groupFrom(cast<MemRefType>(buffer.getType()), first));
}

bool DirectEmission::flatten(Ends &value) {
  auto type = cast<MemRefType>(value.target.getType());
  auto isDense = [](Value buffer) {
    auto type = cast<MemRefType>(buffer.getType());
    return type.hasStaticShape() && hostir::isDense(type) &&
           memref::CollapseShapeOp::isGuaranteedCollapsible(type, groupFrom(type, 0));
  };
  if (!all.cut || llvm::all_of(type.getShape().take_front(*all.cut),
                               [](int64_t extent) { return extent == 1; }))
    return false;
  SmallVector<Value *> ends{&value.own, &value.target};
  if (value.outside)
    ends.push_back(&value.outside);
  if (!llvm::all_of(ends, [&](Value *end) { return isDense(*end); }))
    return false;
  for (Value *end : ends)
    *end = collapseFrom(builder, loc, *end, 0);
  return true;
}

hostir::ExchangeKind DirectEmission::getKind() const {
  using Kind = hostir::ExchangeKind;
  if (gathers())
    return Kind::AllGather;
  if (!isAllReduce())
    return Kind::ReduceScatter;
  return all.cut ? Kind::TwoShotAllReduce : Kind::OneShotAllReduce;
}

bool DirectEmission::copiesInKernel(const Ends &value) const {
  if (gathers())
    return 2 * devices * static_cast<int64_t>(results.size()) <= program::kMostExchangeStores;
  auto isDense = [](Value buffer) { return hostir::isDense(cast<MemRefType>(buffer.getType())); };
  auto type = cast<MemRefType>(value.target.getType());
  auto before = type.getShape().take_front(type.getRank() == 1 ? 0 : *all.cut);
  return 3 * devices - 1 <= program::kMostExchangeStores && isDense(value.own) &&
         isDense(value.target) && isDense(value.outside) &&
         llvm::all_of(before, [](int64_t extent) { return extent == 1; });
}

FailureOr<DirectEmission::Ends> DirectEmission::getEnds(fusion::ReshardOp op, Value stored) {
  Explained<ReshardPlan> slice = planReshard(op, SliceIndex(), builder);
  if (failed(slice))
    return slice.report();
  Value target = program.getBuffer(op.getResult()), there = stored ? stored : target;
  Ends ends;
  ends.own = makeView(builder, loc, program.getBuffer(op.getInput()), slice->source, isAllReduce());
  ends.target = makeView(builder, loc, there, slice->target, isAllReduce());
  if (there != target)
    ends.outside = makeView(builder, loc, target, slice->target, isAllReduce());
  return ends;
}

LogicalResult DirectEmission::exchange() {
  SmallVector<Ends> values;
  for (auto [i, op] : llvm::enumerate(getReshards())) {
    FailureOr<Ends> ends = getEnds(op, results.empty() ? Value() : results[i]);
    if (failed(ends))
      return failure();
    values.push_back(*ends);
  }
  if (flatten(values.front()))
    slots = collapseFrom(builder, loc, slots, 1);
  bool allCopy = llvm::all_of(
      values, [&](const Ends &value) { return value.outside && copiesInKernel(value); });
  SmallVector<Value> own, targets, copies;
  for (const Ends &value : values) {
    own.push_back(value.own);
    targets.push_back(value.target);
    if (allCopy)
      copies.push_back(value.outside);
  }
  int64_t cut = !all.cut || cast<MemRefType>(own[0].getType()).getRank() == 1 ? 0 : *all.cut;
  MLIRContext *context = builder.getContext();
  hostir::PeerExchangeOp::create(
      builder, loc, getKind(), own, targets, copies, slots, /*value=*/Value(), cut,
      program.takeSignals(devices * (all.cut ? 2 : 1)), all.blocks,
      static_cast<hostir::ExchangeProtocol>(all.protocol),
      program.getChannel(all.plan.mesh, all.plan.axes, hostir::Capability::OneSided), stream,
      all.plan.reduces() ? ReduceKindAttr::get(context, all.plan.reduction) : ReduceKindAttr());
  for (const Ends &value : values)
    if (value.outside && !allCopy)
      hostir::CopyOp::create(builder, loc, value.target, value.outside, stream);
  return success();
}

LogicalResult DirectEmission::emitOps(ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (failed(body.emitSlice(op, nullptr, stream)))
      return failure();
  return success();
}

LogicalResult DirectEmission::emit() {
  if (failed(prepare()) || failed(emitOps(all.producers)))
    return failure();
  if (failed(program.onMesh(loc, all.plan.mesh, [&] { return exchange(); })))
    return failure();
  return emitOps(all.consumers);
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

namespace {

/// For few bytes. One kernel of each device stores to the others what they need, and adds what they
/// have stored (docs/fused-exchange.md).
class Direct : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    using Option = fusion::ScheduleOption;
    return {"direct",
            {{"shots", Option::Kind::Word, 0, {"auto", "one", "two"}},
             {"blocks", Option::Kind::Integer},
             {"protocol", Option::Kind::Word, 0, {"simple", "block", "ll"}}},
            {{{"shots", "two"}, {fusion::LoopKind::AllReduce}, {{"protocol", "ll"}}}}};
  }
  size_t getMostGathers() const override { return program::kMostExchangeShapes; }
  Explained<SchedulePlan> match(const StreamLoop &loop) const override;
  void getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const override;
};

/// Of the local parts of the reshards' operands and results: the larger ones, which a device has as
/// a whole, and the smaller ones, which it sends to each other device.
struct Bytes {
  int64_t whole = 0, sent = 0;
};

} // namespace

static std::optional<Bytes> countBytes(ArrayRef<fusion::ReshardOp> reshards) {
  Bytes sum;
  for (fusion::ReshardOp reshard : reshards) {
    SmallVector<int64_t, 2> sizes;
    for (RankedTensorType type : {reshard.getInput().getType(), reshard.getType()}) {
      FailureOr<SmallVector<int64_t>> shape = fusion::getLocalShape(type);
      if (failed(shape))
        return std::nullopt;
      sizes.push_back(llvm::divideCeil(type.getElementTypeBitWidth(), 8) *
                      llvm::product_of(*shape));
    }
    sum.whole += std::max(sizes[0], sizes[1]);
    sum.sent += std::min(sizes[0], sizes[1]);
  }
  return sum;
}

/// Whether one kernel can do the reshards of the loop, of the first of which `plan` is.
static Obstacle verifyTogether(const StreamLoop &loop, ArrayRef<fusion::ReshardOp> reshards,
                               const fusion::SliceReshard &plan) {
  if (reshards.size() > 1 && llvm::any_of(reshards, [&](fusion::ReshardOp reshard) {
        return loop.contains(reshard.getInput().getDefiningOp());
      }))
    return loop.explain()
           << "schedule direct: expected two gathers to be of what is there before the loop";
  for (fusion::ReshardOp other : reshards.drop_front()) {
    Explained<fusion::SliceReshard> found = classifySlices(other);
    if (failed(found))
      return found.explanation();
    if (plan.kind != fusion::ReshardKind::AllGather || found->kind != plan.kind ||
        found->mesh != plan.mesh || found->axes != plan.axes)
      return loop.explain()
             << "schedule direct: expected one reshard, or gathers among the same devices, "
                "found others";
  }
  if (reshards.size() > program::kMostExchangeShapes)
    return loop.explain() << "schedule direct: expected at most " << program::kMostExchangeShapes
                          << " gathers, found " << reshards.size();
  return std::nullopt;
}

/// The first dimension of a device's part that can be cut into a part per device: if those before
/// it have an extent of 1, the parts are dense.
static std::optional<int64_t> findCut(RankedTensorType type, int64_t devices) {
  FailureOr<SmallVector<int64_t>> shape = fusion::getLocalShape(type);
  for (auto [dim, extent] : llvm::enumerate(*shape))
    if (extent > 0 && extent % devices == 0)
      return static_cast<int64_t>(dim);
  return std::nullopt;
}

/// The dimension that an all-reduce cuts: none for one shot. `bytes`: of the value.
static Explained<std::optional<int64_t>> chooseCut(const DirectLoop &all, int64_t bytes) {
  int64_t devices = all.plan.groupSize();
  std::optional<int64_t> cut = findCut(all.reshard.getType(), devices);
  StringRef shots = all.loop.schedule.getWord("shots");
  if (shots == "two" && !cut)
    return all.loop.explain()
           << "schedule direct, two shots: expected a dimension that is a multiple of the "
           << devices << " devices, found none";
  bool isLL = all.protocol == program::ExchangeProtocol::LL;
  // Between two devices both forms send as much.
  if (shots == "one" ||
      (shots != "two" && (devices == 2 || isLL || bytes <= all.loop.thresholds.oneShot)))
    cut.reset();
  return cut;
}

Explained<SchedulePlan> Direct::match(const StreamLoop &loop) const {
  SmallVector<fusion::ReshardOp> reshards = loop.reshards();
  if (std::optional<SchedulePlan> plan = planIfNothingMoves(loop))
    return *plan;
  if (reshards.empty())
    return loop.explain() << "schedule direct: expected a reshard, found none";
  if (!loop.streamSizes.empty())
    return loop.explain() << "schedule direct: expected a reshard without stream digits, found "
                          << loop.numSlices() << " slices";
  fusion::ReshardOp reshard = reshards.front();
  Explained<fusion::SliceReshard> plan = classifySlices(reshard);
  if (failed(plan))
    return plan.explanation();
  if (Obstacle why = verifyTogether(loop, reshards, *plan))
    return why;
  bool isAllReduce = plan->kind == fusion::ReshardKind::AllReduce;
  if (!isAllReduce && plan->kind != fusion::ReshardKind::AllGather &&
      plan->kind != fusion::ReshardKind::ReduceScatter)
    return loop.explain()
           << "schedule direct: expected an all-gather, a reduce-scatter or an all-reduce, "
              "found another reshard";
  std::optional<Bytes> ofAll = countBytes(reshards);
  if (!ofAll)
    return loop.explain() << "schedule direct: expected known extents, found " << reshard.getType();
  using Protocol = program::ExchangeProtocol;
  auto protocol =
      static_cast<Protocol>(hostir::symbolizeExchangeProtocol(loop.schedule.getWord("protocol"))
                                .value_or(hostir::ExchangeProtocol::Simple));
  DirectLoop all{loop, reshard, std::move(*plan), {}, {}, 1, protocol, {}, {}};
  all.others.append(std::next(reshards.begin()), reshards.end());
  int64_t bytes = ofAll->whole, sent = ofAll->sent;
  if (protocol == Protocol::LL && !all.others.empty())
    return loop.explain() << "schedule direct, protocol = ll: expected one gather, found "
                          << reshards.size();
  if (protocol == Protocol::LL && (all.plan.groupSize() > program::kMaxLLRanks ||
                                   static_cast<uint64_t>(sent) > program::kMaxLLBytes))
    return loop.explain() << "schedule direct, protocol = ll: expected at most "
                          << program::kMaxLLRanks << " devices and " << program::kMaxLLBytes
                          << " bytes, found " << all.plan.groupSize() << " and " << sent;
  if (isAllReduce) {
    Explained<std::optional<int64_t>> cut = chooseCut(all, bytes);
    if (failed(cut))
      return cut.explanation();
    all.cut = *cut;
  }
  all.blocks = loop.schedule.getInteger("blocks");
  if (all.blocks > 1024)
    return loop.explain() << "schedule direct: expected at most 1024 thread blocks, found "
                          << all.blocks;
  const program::Thresholds &sizes = loop.thresholds;
  if (all.blocks == 0 && protocol == Protocol::Simple && bytes <= sizes.oneBlock)
    all.blocks = 1;
  if (all.blocks == 0)
    all.blocks =
        std::clamp<int64_t>(protocol == Protocol::LL ? llvm::divideCeil(sent, sizes.blockLL)
                                                     : llvm::divideCeil(bytes, sizes.block),
                            1, sizes.mostBlocks);
  std::tie(all.producers, all.consumers) = loop.splitAround(reshard);
  for (fusion::ReshardOp other : all.others)
    llvm::erase(all.consumers, other.getOperation());
  return SchedulePlan{[all = std::move(all)](ProgramBuilder &program) {
                        return DirectEmission(all, program).emit();
                      },
                      {Capability::OneSided, program::capabilityOf(protocol)}};
}

/// Only machines with its kernel have a price for it.
void Direct::getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  SmallVector<fusion::ReshardOp> reshards = loop.reshards();
  if (!loop.streamSizes.empty() || reshards.empty())
    return;
  std::optional<Bytes> bytes = countBytes(reshards);
  if (!bytes || bytes->whole > loop.thresholds.kernel)
    return;
  MLIRContext *context = loop.op->getContext();
  fusion::ReshardKind kind = classifyReshard(reshards.front()).kind;
  bool isAllReduce = kind == fusion::ReshardKind::AllReduce;
  // Other sums have no kernel.
  Type type = reshards.front().getType().getElementType();
  bool canUseLL =
      reshards.size() == 1 &&
      (kind == fusion::ReshardKind::AllGather || type.isF32() || type.isF16() || type.isBF16()) &&
      static_cast<uint64_t>(bytes->sent) <= program::kMaxLLBytes;
  for (StringRef protocol : {"simple", "block", "ll"})
    for (StringRef shots : {"one", "two"}) {
      bool isLL = protocol == "ll", two = shots == "two";
      if ((two && (isLL || !isAllReduce)) || (isLL && !canUseLL))
        continue;
      SmallVector<std::string, 2> options;
      if (isAllReduce)
        options.push_back(("shots = " + shots).str());
      if (protocol != "simple")
        options.push_back(("protocol = " + protocol).str());
      candidates.push_back({getAttr(context, llvm::join(options, ", "))});
    }
}

std::unique_ptr<Schedule> tandem::createDirectSchedule() { return std::make_unique<Direct>(); }
