//===- ComputeOps.cpp - matmuls, reductions and kernels -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include "tandem/Support/ElementTypes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

static ArrayRef<int64_t> shapeOf(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getShape();
}
static Type elementOf(Value buffer) { return cast<MemRefType>(buffer.getType()).getElementType(); }

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

// Batch extents as in NumPy: aligned at the last dimension, equal or 1.
static FailureOr<SmallVector<int64_t>> broadcastBatch(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> batch(a);
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &extent = batch[a.size() - b.size() + i];
    if (extent != b[i] && extent != 1 && b[i] != 1)
      return failure();
    if (extent == 1)
      extent = b[i];
  }
  return batch;
}

LogicalResult MatmulOp::verify() {
  Type element = elementOf(getLhs()), result = elementOf(getOutput());
  for (Value buffer : getOperands().drop_back()) {
    if (buffer != getBias() && shapeOf(buffer).size() < 2)
      return emitOpError() << "expected operands of rank 2 or more, found "
                           << printShape(shapeOf(buffer));
    Type mine = elementOf(buffer);
    if (buffer == getOutput() && isa<FloatType>(element) && !element.isF64() && result.isF32())
      continue;
    if (buffer == getBias() && mine == result)
      continue;
    if (isFp8(element)) {
      // The output and the bias are wider. A bias is not rounded where the output is f32 for the
      // sake of its sums.
      bool isWide = mine.isF32() || mine.isF16() || mine.isBF16();
      bool fits = buffer == getOutput() ? isWide
                  : buffer == getBias() ? isWide && result.isF32()
                                        : isFp8(mine);
      if (fits)
        continue;
      return emitOpError() << "expected "
                           << (buffer == getOutput() ? "an output of f32, f16 or bf16"
                               : buffer == getBias() ? "a bias of the output's type"
                                                     : "factors of f8E4M3FN or f8E5M2")
                           << ", found " << mine;
    }
    if (elementOf(buffer) != element || !isa<FloatType>(element))
      return emitOpError() << "expected equal floating point element types (or an output of f32), "
                              "found "
                           << elementOf(buffer) << " and " << element;
  }
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), rhs = shapeOf(getRhs());
  int64_t m = lhs[lhs.size() - 2], k = lhs.back(), rhsK = rhs[rhs.size() - 2], n = rhs.back();
  if (getTransposeA())
    std::swap(m, k);
  if (getTransposeB())
    std::swap(rhsK, n);
  if (k != rhsK)
    return emitOpError() << "expected equal contracted extents, found " << k << " and " << rhsK;
  FailureOr<SmallVector<int64_t>> expected = broadcastBatch(lhs.drop_back(2), rhs.drop_back(2));
  if (failed(expected))
    return emitOpError() << "expected batch extents that are equal or 1, found "
                         << printShape(lhs.drop_back(2)) << " and " << printShape(rhs.drop_back(2));
  expected->append({m, n});
  if (failed(verifyShape(*this, "an output", getOutput(), *expected)))
    return failure();
  if (!getBias())
    return success();
  if (shapeOf(getBias()).size() < 2)
    return verifyShape(*this, "a bias", getBias(), {n});
  if (getAccumulate())
    return emitOpError() << "expected no 'accumulate' beside a bias of the output's shape";
  if (elementOf(getBias()) != result)
    return emitOpError() << "expected a bias of the output's shape to have its type, found "
                         << elementOf(getBias());
  return verifyShape(*this, "a bias", getBias(), *expected);
}

//===----------------------------------------------------------------------===//
// Gated matmul
//===----------------------------------------------------------------------===//

LogicalResult GatedMatmulOp::verify() {
  constexpr int64_t most = std::numeric_limits<uint32_t>::max(); // as in a stream program
  if (int64_t reserved = getReservedAttr().getInt(); reserved < 0 || reserved > most)
    return emitOpError() << "expected to reserve 0 to " << most << " SMs, found " << reserved;
  return success();
}

/// A matmul in a gated one; `first`: the one before it in the text, or null.
static LogicalResult verifyPart(MatmulOp op, MatmulOp first) {
  for (Value buffer : {op.getLhs(), op.getRhs(), op.getOutput()})
    if (shapeOf(buffer).size() != 2)
      return op.emitOpError() << "expected buffers of rank 2 in a gated matmul, found "
                              << printShape(shapeOf(buffer));
  if (op.getBias() || op.getTransposeA())
    return op.emitOpError() << "expected no " << (op.getBias() ? "bias" : "'transpose_a'")
                            << " in a gated matmul";
  if (first && (elementOf(op.getLhs()) != elementOf(first.getLhs()) ||
                elementOf(op.getOutput()) != elementOf(first.getOutput()) ||
                op.getTransposeB() != first.getTransposeB())) {
    InFlightDiagnostic diag = op.emitOpError()
                              << "expected the element types and 'transpose_b' of the other "
                                 "matmuls of its gated matmul";
    diag.attachNote(first.getLoc()) << "another one";
    return diag;
  }
  return success();
}

/// A use of a buffer other than by gated matmuls that write it and puts of gated matmuls that read
/// it; null: there is none.
static Operation *findOtherUse(Value root) {
  SmallVector<Value> views{root};
  while (!views.empty()) {
    for (OpOperand &use : views.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (isView(user)) {
        llvm::append_range(views, user->getResults());
        continue;
      }
      bool writes = isa<MatmulOp>(user) && use.get() == cast<MatmulOp>(user).getOutput(),
           sends = isa<PutOp>(user) && use.get() == cast<PutOp>(user).getSource();
      if (!isa<DeallocOp>(user) && !((writes || sends) && user->getParentOfType<GatedMatmulOp>()))
        return user;
    }
  }
  return nullptr;
}

/// gated_matmul_c4; `root`: the put's source is a view of it.
static LogicalResult verifyStage(PutOp put, Value root) {
  if (!root.getDefiningOp<AllocOp>())
    return put.emitOpError() << "expected a source in an allocated buffer in a gated matmul";
  Operation *other = findOtherUse(root);
  if (!other)
    return success();
  InFlightDiagnostic diag =
      put.emitOpError() << "expected a source that only matmuls and puts of gated matmuls use, as "
                           "its contents are not kept";
  diag.attachNote(other->getLoc()) << "another use";
  return diag;
}

LogicalResult GatedMatmulOp::verifyRegions() {
  MatmulOp first;
  SmallPtrSet<Value, 4> staged; // buffers
  WalkResult walk = getBody().walk([&](Operation *op) {
    if (isView(op) || isa<AllocOp, DeallocOp>(op) ||
        isa_and_present<arith::ArithDialect, scf::SCFDialect>(op->getDialect()))
      return WalkResult::advance();
    if (!isa<MatmulOp, WaitSignalOp, PutOp, SignalOp>(op)) {
      op->emitOpError() << "expected only waits for signals, matmuls, puts, signals, buffers, "
                           "views, 'arith' and 'scf' in a gated matmul";
      return WalkResult::interrupt();
    }
    if (hostir::getStream(op) != getStream()) {
      op->emitOpError() << "expected the stream of its gated matmul";
      return WalkResult::interrupt();
    }
    if (auto matmul = dyn_cast<MatmulOp>(op)) {
      if (failed(verifyPart(matmul, first)))
        return WalkResult::interrupt();
      first = first ? first : matmul;
    }
    if (auto put = dyn_cast<PutOp>(op)) {
      Value root = getViewRoot(put.getSource());
      if (staged.insert(root).second && failed(verifyStage(put, root)))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  if (!first)
    return emitOpError() << "expected at least one matmul, found none";
  return success();
}

//===----------------------------------------------------------------------===//
// Accumulate and reduce
//===----------------------------------------------------------------------===//

LogicalResult AccumulateOp::verify() {
  return verifySameShapeAndElementType(*this, getSource(), getTarget());
}

LogicalResult ReduceOp::verify() {
  ArrayRef<int64_t> source = shapeOf(getSource());
  auto rank = static_cast<int64_t>(source.size());
  int64_t previous = -1;
  for (int64_t dim : getDims()) {
    if (dim < 0 || dim >= rank)
      return emitOpError() << "expected dims in a buffer of rank " << rank << ", found " << dim;
    if (dim <= previous)
      return emitOpError() << "expected ascending, distinct dims, found " << dim << " after "
                           << previous;
    previous = dim;
  }
  SmallVector<int64_t> expected;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(getDims(), dim))
      expected.push_back(source[dim]);
  if (failed(verifySameElementType(*this, getSource(), getTarget())))
    return failure();
  return verifyShape(*this, "a target", getTarget(), expected);
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verify() {
  if (getOutputs().empty())
    return emitOpError() << "expected at least one output, found none";
  ArrayRef<int64_t> shape = shapeOf(getOutputs().front());
  for (Value buffer : llvm::concat<Value>(getInputs(), getOutputs()))
    if (failed(verifyShape(*this, "all buffers", buffer, shape)))
      return failure();
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "expected the name of a 'hostir.kernel', found " << getKernelAttr();
  auto matches = [](ValueRange buffers, ArrayRef<Type> scalars) {
    return llvm::equal(llvm::map_range(buffers, elementOf), scalars);
  };
  if (matches(getInputs(), kernel.getArgumentTypes()) &&
      matches(getOutputs(), kernel.getResultTypes()))
    return success();
  InFlightDiagnostic diag = emitOpError()
                            << "expected buffers with the element types of the kernel, "
                            << kernel.getFunctionType() << ", found (";
  llvm::interleaveComma(llvm::map_range(getInputs(), elementOf), diag);
  diag << ") -> (";
  llvm::interleaveComma(llvm::map_range(getOutputs(), elementOf), diag);
  diag << ")";
  diag.attachNote(kernel.getLoc()) << "the kernel";
  return diag;
}

//===----------------------------------------------------------------------===//
// Call
//===----------------------------------------------------------------------===//

LogicalResult CallOp::verify() {
  if (getOutputs().empty())
    return emitOpError() << "expected at least one output, found none";
  if (std::optional<StringRef> effects = getEffects();
      effects && *effects != "reads" && *effects != "writes")
    return emitOpError() << "expected effects \"reads\" or \"writes\", found \"" << *effects << '"';
  SmallVector<Value> buffers(getOutputs());
  llvm::append_range(buffers, getInputs());
  ArrayRef<int64_t> dims = getDims(), extents = getExtents();
  size_t ranks = 0;
  for (Value buffer : buffers)
    ranks += shapeOf(buffer).size();
  if (dims.size() != ranks)
    return emitOpError() << "expected dims of " << ranks << " dimensions, found " << dims.size();
  if (getOffsets().size() != extents.size())
    return emitOpError() << "expected " << extents.size() << " offsets, one per extent, found "
                         << getOffsets().size();
  SmallVector<int64_t> parts; // of the output, per parallel dimension
  for (auto [dim, extent] : llvm::zip(dims, shapeOf(getOutputs().front()))) {
    auto next = static_cast<int64_t>(parts.size());
    if (dim < 0)
      continue;
    if (dim != next)
      return emitOpError() << "expected " << next << " as the number of the output's next parallel "
                           << "dimension, found " << dim;
    parts.push_back(extent);
  }
  auto numExtents = static_cast<int64_t>(parts.size());
  if (extents.size() != parts.size())
    return emitOpError() << "expected " << numExtents
                         << " extents, as many as parallel dimensions, found " << extents.size();
  ArrayRef<int64_t> rest = dims;
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    ArrayRef<int64_t> shape = shapeOf(buffer);
    int64_t next = 0; // of the parallel dimensions
    for (auto [dim, extent] : llvm::zip(rest.take_front(shape.size()), shape)) {
      if (dim < -1 || dim >= numExtents)
        return emitOpError() << "expected dims from -1 to " << numExtents - 1 << ", found " << dim;
      if (dim >= 0 && i < getOutputs().size() && dim != next++)
        return emitOpError() << "expected parallel dimension " << next - 1 << " next in output "
                             << i << ", found " << dim;
      if (dim >= 0 && extent != parts[dim])
        return emitOpError() << "expected equal extents of parallel dimension " << dim << ", found "
                             << parts[dim] << " and " << extent;
    }
    if (i < getOutputs().size() && next != numExtents)
      return emitOpError() << "expected " << numExtents << " parallel dimensions of output " << i
                           << ", found " << next;
    rest = rest.drop_front(shape.size());
    if (auto type = cast<MemRefType>(buffer.getType()); !getStrided() && !isDense(type))
      return emitOpError() << "expected dense buffers, or 'strided', found " << type;
  }
  for (auto [offset, extent, part] : llvm::zip_equal(getOffsets(), extents, parts)) {
    APInt value;
    if (matchPattern(offset, m_ConstantInt(&value)) &&
        (value.isNegative() || value.getSExtValue() > extent - part))
      return emitOpError() << "expected an offset from 0 to " << extent - part << ", found "
                           << value.getSExtValue();
  }
  return success();
}
