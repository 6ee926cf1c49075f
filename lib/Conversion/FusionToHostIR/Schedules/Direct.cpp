//===- Direct.cpp - small all-reduces by one kernel -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/OneSided.h"
#include "Support/Peers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Program/ExchangeOffer.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Up to so many bytes each device sends all it has to all others: the second half of a two-shot
/// all-reduce costs more than these bytes. Between two devices both forms send as much.
static constexpr int64_t kMostForOneShot = 256 * 1024;
/// Bytes of the value that a thread block stores, and the most blocks: half of an H100's SMs are
/// left to other kernels, which peers may wait for. With one signal per step, several blocks must
/// count each other before it, which costs 2 us on H100: one block is quicker up to so many bytes.
static constexpr int64_t kBytesOfBlock = 16 * 1024, kMostBlocks = 64, kMostOfOneBlock = 32 * 1024;
/// With words that carry a flag, a thread has one unit of 16 bytes for each peer.
static constexpr int64_t kBytesOfBlockByWords = 8 * 1024;
/// Words carry half a flag, so twice the bytes travel: 0.7 us more at the rate of a link, less than
/// a signal.
static constexpr int64_t kMostByWords = 256 * 1024;
/// Larger values are not worth a price: a ring of a library's collective adds as it sends.
static constexpr int64_t kMostOfCandidate = 16 * 1024 * 1024;

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

namespace {

/// An all-reduce of a whole value.
struct DirectAllReduce {
  const StreamLoop &loop;
  fusion::ReshardOp reshard;
  ReshardPlan plan;
  /// Two-shot: the dimension that is cut into a slice per device.
  std::optional<int64_t> cut;
  int64_t blocks = 1;
  program::ExchangeSignals signals = program::ExchangeSignals::Step;
};

class DirectEmission {
public:
  DirectEmission(const DirectAllReduce &all, ProgramBuilder &program)
      : all(all), program(program), builder(program.getBuilder()),
        loc(fusion::ReshardOp(all.reshard).getLoc()), body(all.loop, program),
        devices(all.plan.groupSize()),
        me(program.getGroupPosition(loc, all.plan.mesh, all.plan.axes)),
        peers(program, loc, me, devices, PeerOrder::Rotated),
        channel(program, loc, all.plan.mesh, all.plan.axes, me, devices, /*sets=*/all.cut ? 2 : 1) {
  }

  LogicalResult emit();

private:
  enum : int64_t { kPartialSums, kSums }; ///< the sets of signals

  LogicalResult prepare();
  void exchange();
  void emitOneShot();
  void emitTwoShots();
  /// Device `device`'s part of a buffer: its slot, or its slice along a dimension.
  Value getSlot(Value buffer, Value device);
  Value getSlice(Value buffer, Value device);
  Value getView(Value buffer, unsigned dim, OpFoldResult offset, int64_t size, bool drops);
  void put(Value source, Value target, Value peer) {
    channel.put(source, target, peer, program.getMainStream());
  }
  void copy(Value source, Value target) {
    hostir::CopyOp::create(builder, loc, source, target, program.getMainStream());
  }
  void reduce(Value target);
  /// Tells all others, and waits for all of them.
  void meet(int64_t set);
  void forEachPeer(function_ref<void(Value peer)> body, bool isSource = false);

  const DirectAllReduce &all;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  LoopEmitter body;
  int64_t devices;
  Value me;
  Peers peers;
  OneSided channel;
  Value slots; ///< symmetric: the partial sums of all devices, [device, ...]
  Value sums;  ///< two-shot, symmetric: the sums, of which each device stores its slice to all
};

} // namespace

LogicalResult DirectEmission::prepare() {
  fusion::ReshardOp op = all.reshard;
  Type element = op.getType().getElementType();
  SmallVector<int64_t> shape = *fusion::getLocalShape(op.getType()), slice = shape;
  if (all.cut)
    slice[*all.cut] /= devices;
  slice.insert(slice.begin(), devices);
  slots = program.allocSymmetric(loc, slice, element);
  if (all.cut) {
    sums = program.allocSymmetric(loc, shape, element);
    // A result of the program is in the embedder's memory, which peers cannot access.
    if (!program.getBuffer(op.getResult()))
      program.setBuffer(op.getResult(), sums);
  }
  return body.prepare();
}

Value DirectEmission::getView(Value buffer, unsigned dim, OpFoldResult offset, int64_t size,
                              bool drops) {
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)), sizes,
      strides(type.getRank(), builder.getIndexAttr(1));
  SmallVector<int64_t> shape;
  for (auto [i, extent] : llvm::enumerate(type.getShape())) {
    int64_t taken = i == dim ? size : extent;
    sizes.push_back(builder.getIndexAttr(taken));
    if (i != dim || !drops)
      shape.push_back(taken);
  }
  offsets[dim] = offset;
  auto result = memref::SubViewOp::inferRankReducedResultType(shape, type, offsets, sizes, strides);
  return memref::SubViewOp::create(builder, loc, cast<MemRefType>(result), buffer, offsets, sizes,
                                   strides);
}

Value DirectEmission::getSlot(Value buffer, Value device) {
  return getView(buffer, 0, device, 1, /*drops=*/true);
}

Value DirectEmission::getSlice(Value buffer, Value device) {
  int64_t size = cast<MemRefType>(buffer.getType()).getDimSize(*all.cut) / devices;
  Value first = arith::MulIOp::create(builder, loc, device, program.getIndex(size));
  return getView(buffer, *all.cut, first, size, /*drops=*/false);
}

void DirectEmission::forEachPeer(function_ref<void(Value)> body, bool isSource) {
  (void)program.loop(loc, 1, devices, [&](Value distance) {
    body(isSource ? peers.getSource(distance) : peers.getTarget(distance));
    return success();
  });
}

void DirectEmission::meet(int64_t set) {
  Value zero = program.getIndex(0), main = program.getMainStream();
  forEachPeer([&](Value peer) { channel.signal(peer, zero, main, set); });
  forEachPeer([&](Value peer) { channel.waitFor(peer, zero, main, set); }, /*isSource=*/true);
}

void DirectEmission::reduce(Value target) {
  auto kind = ReduceKindAttr::get(builder.getContext(), all.plan.reduction);
  hostir::ReduceOp::create(builder, loc, kind, slots, target, builder.getDenseI64ArrayAttr({0}),
                           program.getMainStream());
}

void DirectEmission::emitOneShot() {
  fusion::ReshardOp op = all.reshard;
  Value own = program.getBuffer(op.getInput()), slot = getSlot(slots, me);
  copy(own, slot);
  forEachPeer([&](Value peer) { put(own, slot, peer); });
  meet(kPartialSums);
  reduce(program.getBuffer(op.getResult()));
}

void DirectEmission::emitTwoShots() {
  fusion::ReshardOp op = all.reshard;
  Value own = program.getBuffer(op.getInput()), slot = getSlot(slots, me);
  copy(getSlice(own, me), slot);
  forEachPeer([&](Value peer) { put(getSlice(own, peer), slot, peer); });
  meet(kPartialSums);
  Value sum = getSlice(sums, me);
  reduce(sum);
  forEachPeer([&](Value peer) { put(sum, sum, peer); });
  meet(kSums);
}

void DirectEmission::exchange() {
  fusion::ReshardOp op = all.reshard;
  (void)emitFusedExchange(
      program, loc, program.getMainStream(), all.blocks,
      [&] {
        all.cut ? emitTwoShots() : emitOneShot();
        return success();
      },
      static_cast<hostir::ExchangeSignals>(all.signals));
  if (Value result = program.getBuffer(op.getResult()); all.cut && result != sums)
    copy(sums, result);
}

LogicalResult DirectEmission::emit() {
  if (failed(prepare()))
    return failure();
  for (Operation *op : all.loop.ops) {
    if (op == all.reshard)
      program.onMesh(loc, all.plan.mesh, [&] { exchange(); });
    else if (failed(body.emitSlice(op, nullptr, program.getMainStream())))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

namespace {

/// For all-reduces of few bytes: every device stores its partial sums to all others and adds what
/// they have stored, in one kernel (docs/fused-exchange.md).
class Direct : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    using Option = fusion::ScheduleOption;
    return {"direct",
            {{"shots", Option::Kind::Word, 0, {"auto", "one", "two"}},
             {"blocks", Option::Kind::Integer},
             {"signals", Option::Kind::Word, 0, {"step", "block", "word"}}}};
  }
  FailureOr<SchedulePlan> match(const StreamLoop &loop,
                                function_ref<InFlightDiagnostic()> why) const override;
  void getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const override;
};

} // namespace

/// Of the local part of a reshard's result.
static std::optional<int64_t> countBytes(fusion::ReshardOp reshard) {
  RankedTensorType type = reshard.getType();
  FailureOr<SmallVector<int64_t>> shape = fusion::getLocalShape(type);
  if (failed(shape))
    return std::nullopt;
  return llvm::divideCeil(type.getElementTypeBitWidth(), 8) * llvm::product_of(*shape);
}

/// The last dimension that can be cut into a slice per device.
static std::optional<int64_t> findCut(ArrayRef<int64_t> shape, int64_t devices) {
  for (int64_t dim = static_cast<int64_t>(shape.size()); dim-- > 0;)
    if (shape[dim] > 0 && shape[dim] % devices == 0)
      return dim;
  return std::nullopt;
}

FailureOr<SchedulePlan> Direct::match(const StreamLoop &loop,
                                      function_ref<InFlightDiagnostic()> why) const {
  SmallVector<fusion::ReshardOp> reshards = loop.reshards();
  if (!loop.streamSizes.empty())
    return why() << "schedule direct: expected an all-reduce without stream digits, found "
                 << loop.numSlices() << " slices";
  if (std::optional<SchedulePlan> plan = planIfNothingMoves(loop))
    return *plan;
  if (reshards.size() != 1)
    return why() << "schedule direct: expected one reshard, found " << reshards.size();
  FailureOr<ReshardPlan> plan = planReshard(reshards.front(), why);
  if (failed(plan))
    return failure();
  if (plan->kind != SliceMove::AllReduce)
    return why() << "schedule direct: expected an all-reduce, found another reshard";
  RankedTensorType type = reshards.front().getType();
  FailureOr<SmallVector<int64_t>> shape = fusion::getLocalShape(type);
  if (failed(shape))
    return why() << "schedule direct: expected known extents, found " << type;
  int64_t devices = plan->groupSize();
  int64_t bytes = *countBytes(reshards.front());
  std::optional<int64_t> cut = findCut(*shape, devices);
  StringRef shots = loop.schedule.getWord("shots");
  if (shots == "two" && !cut)
    return why() << "schedule direct, two shots: expected a dimension that is a multiple of the "
                 << devices << " devices, found none";
  StringRef word = loop.schedule.getWord("signals");
  using Signals = program::ExchangeSignals;
  Signals signals = word == "block"  ? Signals::Block
                    : word == "word" ? Signals::Word
                                     : Signals::Step;
  if (signals == Signals::Word && shots == "two")
    return why() << "schedule direct, signals with words: expected one shot, found two";
  if (signals == Signals::Word &&
      (devices > program::kMostWordRanks || static_cast<uint64_t>(bytes) > program::kMostWordValue))
    return why() << "schedule direct, signals with words: expected at most "
                 << program::kMostWordRanks << " devices and " << program::kMostWordValue
                 << " bytes, found " << devices << " and " << bytes;
  if (shots == "one" ||
      (shots != "two" && (devices == 2 || bytes <= kMostForOneShot || signals == Signals::Word)))
    cut.reset();
  int64_t blocks = loop.schedule.getInteger("blocks");
  if (blocks > 1024)
    return why() << "schedule direct: expected at most 1024 thread blocks, found " << blocks;
  if (blocks == 0 && signals == Signals::Step && bytes <= kMostOfOneBlock)
    blocks = 1;
  if (blocks == 0)
    blocks = std::clamp<int64_t>(
        llvm::divideCeil(bytes, signals == Signals::Word ? kBytesOfBlockByWords : kBytesOfBlock), 1,
        kMostBlocks);
  DirectAllReduce all{loop, reshards.front(), std::move(*plan), cut, blocks, signals};
  SchedulePlan result{[all = std::move(all)](ProgramBuilder &program) {
                        return DirectEmission(all, program).emit();
                      },
                      /*isOneSided=*/true};
  result.stores = Stores::InsteadOfCollective;
  result.signals = signals;
  return result;
}

/// Only machines with its kernel have a price for it.
void Direct::getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  SmallVector<fusion::ReshardOp> reshards = loop.reshards();
  if (!loop.streamSizes.empty() || reshards.size() != 1 ||
      countBytes(reshards.front()).value_or(kMostOfCandidate + 1) > kMostOfCandidate)
    return;
  MLIRContext *context = loop.place->getContext();
  for (StringRef signals : {"step", "block", "word"})
    for (StringRef shots : {"one", "two"}) {
      bool byWords = signals == "word";
      if (byWords && (shots == "two" || *countBytes(reshards.front()) > kMostByWords))
        continue;
      NamedAttrList options;
      options.set("shots", StringAttr::get(context, shots));
      if (signals != "step")
        options.set("signals", StringAttr::get(context, signals));
      candidates.push_back({getAttr(context, options)});
    }
}

std::unique_ptr<Schedule> tandem::createDirectSchedule() { return std::make_unique<Direct>(); }
