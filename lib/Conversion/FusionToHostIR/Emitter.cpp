//===- Emitter.cpp - emits the slices of ops into a host program -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace tandem;

Emitter::Emitter(hostir::ProgramOp program, int64_t workers, int64_t worldSize)
    : program(program), builder(program.getContext()), workers(workers), worldSize(worldSize) {
  builder.setInsertionPointToEnd(&program.getBody().front());
  mainStream = atEntry([&] { return hostir::MainStreamOp::create(builder, program.getLoc()); });
}

/// Makes an op at the entry, behind those made there before.
template <typename MakeFn> Value Emitter::atEntry(MakeFn make) {
  OpBuilder::InsertionGuard guard(builder);
  if (lastOfEntry)
    builder.setInsertionPointAfter(lastOfEntry);
  else
    builder.setInsertionPointToStart(&program.getBody().front());
  auto op = make();
  lastOfEntry = op;
  return op->getResult(0);
}

/// Buffers live in the program's own block, also those of a part that not all ranks run.
Value Emitter::allocOnMain(Location loc, MemRefType type) {
  OpBuilder::InsertionGuard guard(builder);
  if (Block *body = &program.getBody().front(); builder.getInsertionBlock() != body)
    builder.setInsertionPoint(
        body->findAncestorOpInBlock(*builder.getInsertionBlock()->getParentOp()));
  return hostir::AllocOp::create(builder, loc, type, mainStream, IntegerAttr(), IntegerAttr());
}

Value Emitter::getOrAllocBuffer(Value value) {
  Value &buffer = buffers[value];
  if (!buffer) {
    auto type = cast<RankedTensorType>(value.getType());
    auto shape = fusion::getLocalShape(type);
    buffer = allocOnMain(value.getLoc(), MemRefType::get(*shape, type.getElementType()));
  }
  return buffer;
}

Value Emitter::allocSymmetric(Location loc, ArrayRef<int64_t> shape, Type element) {
  auto space = hostir::SymmetricAttr::get(builder.getContext());
  return allocOnMain(loc, MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space));
}

int64_t Emitter::takeSignals(int64_t count) {
  int64_t first = numSignals;
  numSignals += count;
  return first;
}

Value Emitter::getIndex(int64_t value) {
  return arith::ConstantIndexOp::create(builder, program.getLoc(), value);
}

Value Emitter::getDeviceIndex(fusion::MeshAttr mesh, StringAttr axis) {
  Value &index = deviceIndices[{mesh, axis}];
  if (!index)
    index = atEntry(
        [&] { return hostir::DeviceIndexOp::create(builder, program.getLoc(), mesh, axis); });
  return index;
}

Value Emitter::getGroupPosition(Location loc, fusion::MeshAttr mesh, ArrayRef<StringAttr> axes) {
  Value position;
  for (StringAttr axis : axes) {
    Value index = getDeviceIndex(mesh, axis);
    if (position) {
      Value outer =
          arith::MulIOp::create(builder, loc, position, getIndex(mesh.axisSize(axis.getValue())));
      index = arith::AddIOp::create(builder, loc, outer, index);
    }
    position = index;
  }
  return position;
}

Value Emitter::getChannel(fusion::MeshAttr mesh, ArrayRef<StringAttr> axes,
                          hostir::Capability capability) {
  SmallVector<Attribute> names(axes.begin(), axes.end());
  ArrayAttr axesAttr = builder.getArrayAttr(names);
  Value &channel = channels[{mesh, {axesAttr, static_cast<unsigned>(capability)}}];
  if (!channel) {
    std::string name = mesh.getName().str();
    for (StringAttr axis : axes)
      name += "." + axis.str();
    name += "." + hostir::stringifyCapability(capability).str();
    // Two meshes may bear one name.
    for (std::string plain = name; !channelNames.insert(name).second;)
      name = plain + "." + std::to_string(channelNames.size());
    channel = atEntry([&] {
      return hostir::ChannelOp::create(
          builder, program.getLoc(), builder.getStringAttr(name), mesh, axesAttr,
          builder.getArrayAttr({hostir::CapabilityAttr::get(builder.getContext(), capability)}),
          builder.getStringAttr(""));
    });
  }
  return channel;
}

void Emitter::onMesh(Location loc, fusion::MeshAttr mesh, function_ref<void()> body) {
  if (mesh.numDevices() == worldSize || mesh == activeMesh)
    return body();
  llvm::SaveAndRestore active(activeMesh, mesh);
  onlyIf(loc, hostir::InMeshOp::create(builder, loc, mesh), body);
}

void Emitter::onlyIf(Location loc, Value condition, function_ref<void()> body) {
  if (!condition)
    return body();
  auto ifOp = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(ifOp.thenBlock()->getTerminator());
  body();
}

LogicalResult Emitter::loop(Location loc, int64_t lower, int64_t upper,
                            function_ref<LogicalResult(Value)> body) {
  if (lower >= upper)
    return success();
  if (upper == lower + 1)
    return body(getIndex(lower));
  Value from = getIndex(lower), to = getIndex(upper), step = getIndex(1);
  auto loop = scf::ForOp::create(builder, loc, from, to, step);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  return body(loop.getInductionVar());
}

int64_t Emitter::getNumStreams(fusion::ScheduleAttr schedule, int64_t iterations) {
  int64_t streams = std::min(workers, iterations);
  return schedule.getStreams() ? std::min(streams, schedule.getStreams()) : streams;
}

Value Emitter::getStream(Location loc, Value iteration, int64_t streams) {
  // The pool counts modulo its own size.
  if (streams < workers)
    iteration = arith::RemUIOp::create(builder, loc, iteration, getIndex(streams));
  return hostir::WorkerStreamOp::create(builder, loc, iteration);
}

void Emitter::fork(Location loc, int64_t count) {
  (void)loop(loc, 0, std::min(count, workers), [&](Value worker) {
    Value stream = hostir::WorkerStreamOp::create(builder, loc, worker);
    hostir::SyncOp::create(builder, loc, stream, mainStream);
    return success();
  });
}

void Emitter::join(Location loc, int64_t count) {
  (void)loop(loc, 0, std::min(count, workers), [&](Value worker) {
    Value stream = hostir::WorkerStreamOp::create(builder, loc, worker);
    hostir::SyncOp::create(builder, loc, mainStream, stream);
    return success();
  });
}

LogicalResult Emitter::emitSlice(Operation *op, const SliceIndex *index, Value stream) {
  fusion::AxesAttr axes = fusion::getAxes(op->getResult(0));
  auto reshard = dyn_cast<fusion::ReshardOp>(op);
  if (reshard && fusion::getAxes(reshard.getInput()).getMesh() != axes.getMesh())
    return emitReshard(reshard, index, stream);
  LogicalResult done = success();
  onMesh(op->getLoc(), axes.getMesh(), [&] {
    done = reshard ? emitReshard(reshard, index, stream) : emitCompute(op, index, stream);
  });
  return done;
}

LogicalResult Emitter::emitCompute(Operation *op, const SliceIndex *index, Value stream) {
  if (isa<fusion::MatmulOp, fusion::ReduceOp>(op)) {
    OpDims dims = getOpDims(op, index, std::nullopt);
    Value out = getOrAllocBuffer(op->getResult(0));
    if (auto matmul = dyn_cast<fusion::MatmulOp>(op))
      return emitMatmul(matmul, std::move(dims), out, FirstSlice(), stream);
    return emitReduce(cast<fusion::ReduceOp>(op), std::move(dims), out, FirstSlice(), stream);
  }
  if (auto concat = dyn_cast<fusion::ConcatOp>(op))
    return emitConcat(concat, index, stream);
  if (isView(op))
    return emitView(op, index, stream);
  if (op->hasTrait<OpTrait::Elementwise>())
    return emitElementwise(op, index, stream);
  return op->emitError("lowering to hostir is not there yet for this op; lowered are fusion ops "
                       "but fusion.call, and elementwise ops of arith and math");
}
