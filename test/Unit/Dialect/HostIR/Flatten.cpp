//===- Flatten.cpp - host programs evaluated for one rank -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostMachine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;
using namespace tandem::hostir::test;

int64_t View::numElements() const {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  return elements;
}

std::vector<int64_t> View::indices() const {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < numElements(); ++i) {
    int64_t rest = i, index = offset;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      index += rest % shape[d] * strides[d];
    result.push_back(index);
  }
  return result;
}

namespace {
class Flattener {
public:
  Flattener(ProgramOp program, int64_t rank) : program(program), rank(rank) {
    result.numStreams = static_cast<int>(1 + program.getWorkers());
  }

  RankProgram run() {
    for (auto [i, argument] : llvm::enumerate(program.getArguments()))
      views[argument] = makeView(cast<MemRefType>(argument.getType()), static_cast<int>(1 + i), 0);
    block(program.getBody().front());
    return std::move(result);
  }

private:
  static View makeView(MemRefType type, int space, int64_t offset) {
    View view{space, offset, type.getShape().vec(), {}, -1};
    SmallVector<int64_t> strides;
    int64_t ignored;
    if (type.getNumElements() == 0)
      strides.assign(type.getRank(), 0);
    else
      EXPECT_TRUE(succeeded(type.getStridesAndOffset(strides, ignored)));
    view.strides.assign(strides.begin(), strides.end());
    return view;
  }

  int64_t number(Value value) {
    EXPECT_TRUE(numbers.count(value)) << "a number that is not known";
    return numbers[value];
  }
  int64_t number(OpFoldResult value) {
    if (auto attr = dyn_cast<Attribute>(value))
      return cast<IntegerAttr>(attr).getInt();
    return number(cast<Value>(value));
  }
  int stream(Value value) {
    auto worker = value.getDefiningOp<WorkerStreamOp>();
    if (!worker)
      return 0;
    auto workers = static_cast<int64_t>(program.getWorkers());
    return static_cast<int>(1 + number(worker.getIndex()) % workers);
  }

  void block(Block &block) {
    for (Operation &op : block)
      visit(op);
  }

  void visit(Operation &op) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (int64_t i = number(loop.getLowerBound()); i < number(loop.getUpperBound());
           i += number(loop.getStep())) {
        numbers[loop.getInductionVar()] = i;
        block(*loop.getBody());
      }
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      Region &region =
          number(branch.getCondition()) ? branch.getThenRegion() : branch.getElseRegion();
      if (!region.empty())
        block(region.front());
    } else if (isa<memref::MemRefDialect>(op.getDialect())) {
      views[op.getResult(0)] = viewOf(op);
    } else if (isa<TranslatePositionOp>(op) || isa<arith::ArithDialect>(op.getDialect())) {
      evaluate(op);
    } else if (auto index = dyn_cast<DeviceIndexOp>(op)) {
      MeshAttr mesh = index.getMesh();
      numbers[index] = mesh.coordinates(mesh.position(rank))[mesh.axisIndex(index.getAxis())];
    } else if (auto member = dyn_cast<InMeshOp>(op)) {
      numbers[member] = member.getMesh().position(rank) >= 0;
    } else {
      command(op);
    }
  }

  void evaluate(Operation &op) {
    SmallVector<Attribute> operands;
    for (Value operand : op.getOperands())
      operands.push_back(IntegerAttr::get(operand.getType(), number(operand)));
    SmallVector<OpFoldResult> results;
    ASSERT_TRUE(succeeded(op.fold(operands, results)) && results.size() == 1);
    auto attr = dyn_cast<Attribute>(results[0]);
    if (!attr) {
      numbers[op.getResult(0)] = number(cast<Value>(results[0]));
      return;
    }
    APInt value = cast<IntegerAttr>(attr).getValue();
    numbers[op.getResult(0)] =
        value.getBitWidth() == 1 ? value.getZExtValue() : value.getSExtValue();
  }

  // With the strides that the type says and the offset that the operands say.
  View viewOf(Operation &op) {
    View source = views[op.getOperand(0)];
    View view = makeView(cast<MemRefType>(op.getResult(0).getType()), source.space, source.offset);
    view.instance = source.instance;
    if (auto subview = dyn_cast<memref::SubViewOp>(op))
      for (auto [offset, stride] : llvm::zip_equal(subview.getMixedOffsets(), source.strides))
        view.offset += number(offset) * stride;
    // Counted from the start of the buffer, which is what the passes cast.
    if (auto cast = dyn_cast<memref::ReinterpretCastOp>(op))
      view.offset += number(cast.getMixedOffsets().front());
    return view;
  }

  void alloc(AllocOp op) {
    int on = stream(op.getStream());
    auto offset = static_cast<int64_t>(*op.getOffset());
    if (op.getPitch())
      offset += static_cast<int64_t>(*op.getPitch()) * (on - 1);
    View view = makeView(op.getType(), 0, offset / 4);
    view.instance = static_cast<int>(result.instances.size());
    result.instances.push_back(
        {op, offset, offset + 4 * view.numElements(), result.commands.size(), on});
    views[op] = view;
  }

  void message(Operation &op, Value buffer, Value peer, GroupOp group) {
    auto channel = group.getChannel().getDefiningOp<ChannelOp>();
    MeshAttr mesh = channel.getMesh();
    // The device at a position of the group: this device's coordinates with those of the axes
    // replaced.
    SmallVector<int64_t> coordinates = mesh.coordinates(mesh.position(rank));
    int64_t rest = number(peer);
    SmallVector<StringRef> axes(channel.getAxes().getAsValueRange<StringAttr>());
    for (StringRef axis : llvm::reverse(axes)) {
      coordinates[mesh.axisIndex(axis)] = rest % mesh.axisSize(axis);
      rest /= mesh.axisSize(axis);
    }
    EXPECT_EQ(rest, 0) << "a peer outside of the group";
    int64_t position = 0;
    for (auto [axis, coordinate] : llvm::zip_equal(mesh.getAxes(), coordinates))
      position = position * axis.size + coordinate;
    result.commands.back().messages.push_back(
        {isa<SendOp>(op), views[buffer], mesh.worldRank(position), channel.getName().str()});
  }

  void group(GroupOp op) {
    result.commands.push_back({Command::Group, op, stream(op.getStream()), -1, {}, {}});
    inGroup = op;
    block(op.getBody().front());
    inGroup = {};
  }

  void command(Operation &op) {
    auto add = [&](Command::Kind kind, Value on, std::initializer_list<Value> buffers) {
      Command &command = result.commands.emplace_back();
      command = {kind, &op, stream(on), -1, {}, {}};
      for (Value buffer : buffers)
        command.views.push_back(views[buffer]);
    };
    if (auto allocOp = dyn_cast<AllocOp>(op)) {
      alloc(allocOp);
    } else if (auto groupOp = dyn_cast<GroupOp>(op)) {
      group(groupOp);
    } else if (auto send = dyn_cast<SendOp>(op)) {
      message(op, send.getBuffer(), send.getPeer(), inGroup);
    } else if (auto recv = dyn_cast<RecvOp>(op)) {
      message(op, recv.getBuffer(), recv.getPeer(), inGroup);
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      add(Command::Copy, copy.getStream(), {copy.getSource(), copy.getTarget()});
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      add(Command::Accumulate, accumulate.getStream(),
          {accumulate.getSource(), accumulate.getTarget()});
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      add(Command::Reduce, reduce.getStream(), {reduce.getSource(), reduce.getTarget()});
    } else if (auto matmul = dyn_cast<MatmulOp>(op)) {
      add(Command::Matmul, matmul.getStream(),
          {matmul.getLhs(), matmul.getRhs(), matmul.getOutput()});
    } else if (auto sync = dyn_cast<SyncOp>(op)) {
      add(Command::Sync, sync.getWaiter(), {});
      result.commands.back().signaler = stream(sync.getSignaler());
    } else {
      ASSERT_TRUE((isa<MainStreamOp, WorkerStreamOp, ChannelOp, DeallocOp, scf::YieldOp>(op)))
          << op.getName().getStringRef().str();
    }
  }

  ProgramOp program;
  int64_t rank;
  GroupOp inGroup;
  RankProgram result;
  llvm::DenseMap<Value, int64_t> numbers;
  struct Views {
    std::map<void *, View> map;
    View &operator[](Value value) { return map[value.getAsOpaquePointer()]; }
  } views;
};
} // namespace

RankProgram test::flatten(ProgramOp program, int64_t rank) {
  return Flattener(program, rank).run();
}
