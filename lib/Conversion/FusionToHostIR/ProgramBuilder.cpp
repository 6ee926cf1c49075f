//===- ProgramBuilder.cpp - builds the body of one host program -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/Support/SaveAndRestore.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tandem;

ProgramBuilder::ProgramBuilder(hostir::ProgramOp program, int64_t workers, int64_t worldSize)
    : program(program), builder(program.getContext()), workers(workers), worldSize(worldSize) {
  builder.setInsertionPointToEnd(&program.getBody().front());
  mainStream = atEntry([&] { return hostir::MainStreamOp::create(builder, program.getLoc()); });
}

/// Creates an op at the program's entry, after earlier ones.
template <typename MakeFn> Value ProgramBuilder::atEntry(MakeFn make) {
  OpBuilder::InsertionGuard guard(builder);
  if (lastOfEntry)
    builder.setInsertionPointAfter(lastOfEntry);
  else
    builder.setInsertionPointToStart(&program.getBody().front());
  auto op = make();
  lastOfEntry = op;
  return op->getResult(0);
}

/// Buffers are allocated in the program's outermost block, also for code under a condition.
Value ProgramBuilder::alloc(Location loc, MemRefType type) {
  OpBuilder::InsertionGuard guard(builder);
  if (Block *body = &program.getBody().front(); builder.getInsertionBlock() != body)
    builder.setInsertionPoint(
        body->findAncestorOpInBlock(*builder.getInsertionBlock()->getParentOp()));
  return hostir::AllocOp::create(builder, loc, type, mainStream);
}

Value ProgramBuilder::getOrAllocBuffer(Value value) {
  Value &buffer = buffers[value];
  if (!buffer) {
    auto type = cast<RankedTensorType>(value.getType());
    auto shape = fusion::getLocalShape(type);
    buffer = alloc(value.getLoc(), MemRefType::get(*shape, type.getElementType()));
  }
  return buffer;
}

Value ProgramBuilder::allocSymmetric(Location loc, ArrayRef<int64_t> shape, Type element) {
  auto space = hostir::SymmetricAttr::get(builder.getContext());
  return alloc(loc, MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space));
}

int64_t ProgramBuilder::takeSignals(int64_t count) {
  int64_t first = numSignals;
  numSignals += count;
  return first;
}

Value ProgramBuilder::getIndex(int64_t value) {
  return arith::ConstantIndexOp::create(builder, program.getLoc(), value);
}

Value ProgramBuilder::getDeviceIndex(MeshAttr mesh, StringAttr axis) {
  Value &index = deviceIndices[{mesh, axis}];
  if (!index)
    index = atEntry(
        [&] { return hostir::DeviceIndexOp::create(builder, program.getLoc(), mesh, axis); });
  return index;
}

Value ProgramBuilder::getGroupPosition(Location loc, MeshAttr mesh, ArrayRef<StringAttr> axes) {
  if (axes.empty())
    return getIndex(0);
  Value position;
  for (StringAttr axis : axes) {
    Value index = getDeviceIndex(mesh, axis);
    position = math(loc).linear(position, mesh.axisSize(axis.getValue()), index);
  }
  return position;
}

Value ProgramBuilder::getChannel(MeshAttr mesh, ArrayRef<StringAttr> axes,
                                 hostir::Capability capability, unsigned number) {
  SmallVector<Attribute> names(axes.begin(), axes.end());
  ArrayAttr axesAttr = builder.getArrayAttr(names);
  Value &channel = channels[{mesh, {axesAttr, {static_cast<unsigned>(capability), number}}}];
  if (!channel) {
    std::string name = mesh.getName().str();
    for (StringAttr axis : axes)
      name += "." + axis.str();
    name += "." + hostir::stringifyCapability(capability).str();
    // Two meshes may have the same name.
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

void ProgramBuilder::emitOnMesh(Location loc, MeshAttr mesh, function_ref<void()> body) {
  if (mesh.numDevices() == worldSize || mesh == activeMesh)
    return body();
  llvm::SaveAndRestore active(activeMesh, mesh);
  onlyIf(loc, hostir::InMeshOp::create(builder, loc, mesh), body);
}

void ProgramBuilder::onlyIf(Location loc, Value condition, function_ref<void()> body) {
  if (!condition)
    return body();
  auto ifOp = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(ifOp.thenBlock()->getTerminator());
  body();
}

LogicalResult ProgramBuilder::overlap(Location loc, int64_t streams, MeshAttr mesh,
                                      function_ref<LogicalResult()> body) {
  fork(loc, streams);
  LogicalResult done = onMesh(loc, mesh, body);
  join(loc, streams);
  return done;
}

LogicalResult ProgramBuilder::loop(Location loc, int64_t lower, int64_t upper,
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

LogicalResult ProgramBuilder::steps(Location loc, int64_t count,
                                    function_ref<LogicalResult(Value, bool, bool)> body) {
  if (failed(body(getIndex(0), /*isFirst=*/true, /*isLast=*/count == 1)) ||
      failed(loop(loc, 1, count - 1, [&](Value step) { return body(step, false, false); })))
    return failure();
  return count > 1 ? body(getIndex(count - 1), /*isFirst=*/false, /*isLast=*/true) : success();
}

int64_t ProgramBuilder::getNumStreams(int64_t most, int64_t iterations) {
  int64_t streams = std::min(workers, iterations);
  return most ? std::min(streams, most) : streams;
}

Value ProgramBuilder::getStream(Location loc, Value iteration, int64_t streams) {
  // The pool's index is modulo its size.
  if (streams < workers)
    iteration = math(loc).mod(iteration, streams);
  return getWorker(loc, iteration);
}

Value ProgramBuilder::getWorker(Location loc, Value number) {
  return hostir::WorkerStreamOp::create(builder, loc, number);
}

void ProgramBuilder::fork(Location loc, int64_t count) {
  (void)loop(loc, 0, std::min(count, workers), [&](Value worker) {
    Value stream = getWorker(loc, worker);
    hostir::SyncOp::create(builder, loc, stream, mainStream);
    return success();
  });
}

void ProgramBuilder::join(Location loc, int64_t count) {
  (void)loop(loc, 0, std::min(count, workers), [&](Value worker) {
    Value stream = getWorker(loc, worker);
    hostir::SyncOp::create(builder, loc, mainStream, stream);
    return success();
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

hostir::KernelOp ProgramBuilder::getKernel(Location loc, StringRef key, StringRef name,
                                           TypeRange inputs, Type result,
                                           function_ref<Value(ValueRange)> compute) {
  hostir::KernelOp &kernel = kernels[key];
  if (kernel)
    return kernel;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(program);
  OperationState state(loc, hostir::KernelOp::getOperationName());
  auto &properties = state.getOrAddProperties<hostir::KernelOp::Properties>();
  properties.sym_name = builder.getStringAttr(program.getSymName() + "." + name);
  properties.sym_visibility = builder.getStringAttr("private");
  properties.function_type = TypeAttr::get(builder.getFunctionType(inputs, result));
  Block *body = new Block();
  state.addRegion()->push_back(body);
  kernel = cast<hostir::KernelOp>(builder.create(state));
  // Makes the name unique.
  if (!symbols)
    symbols.emplace(program->getParentOp());
  symbols->insert(kernel);
  for (Type input : inputs)
    body->addArgument(input, loc);
  builder.setInsertionPointToStart(body);
  Value computed = compute(body->getArguments());
  hostir::YieldOp::create(builder, loc, computed);
  return kernel;
}

hostir::KernelOp ProgramBuilder::getCastKernel(Location loc, Type from, Type to) {
  std::string key;
  llvm::raw_string_ostream(key) << "cast " << from << "->" << to;
  bool isWider = from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth();
  return getKernel(loc, key, isWider ? "extf" : "truncf", from, to, [&](ValueRange inputs) {
    return isWider ? arith::ExtFOp::create(builder, loc, to, inputs.front()).getResult()
                   : arith::TruncFOp::create(builder, loc, to, inputs.front()).getResult();
  });
}

void ProgramBuilder::launch(Location loc, hostir::KernelOp kernel, ValueRange inputs, Value output,
                            Value stream) {
  hostir::LaunchOp::create(builder, loc, FlatSymbolRefAttr::get(kernel.getSymNameAttr()), inputs,
                           ValueRange(output), stream);
}
