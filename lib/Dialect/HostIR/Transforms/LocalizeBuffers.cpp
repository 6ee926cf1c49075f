//===- LocalizeBuffers.cpp - slices in place of whole buffers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "StridedBox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::tandem::hostir {
#define GEN_PASS_DEF_LOCALIZEBUFFERS
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"
} // namespace mlir::tandem::hostir

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::hostir;

namespace {

/// One operand of a command that is a view of the buffer.
struct Access {
  OpOperand *operand;
  /// What stands for the command in the block of its part: itself, or what holds it.
  Operation *inBlock;
  int64_t place; // of the command, in the text
  StridedBox box;
  /// Where it begins in the slice of its part, kept densely: a sum of loop indices.
  SmallVector<std::pair<Value, int64_t>> offset = {};
};

/// The accesses of one slice in one block.
struct Part {
  SmallVector<Access, 2> accesses; // in the text's order
  SmallVector<BoxDim> slice;       // normalized
  /// The op of the block behind which the stream of the first access is ordered after all of them.
  Operation *last = nullptr;
  Value stream() const { return getStream(accesses.front().operand->getOwner()); }
  Block *block() const { return accesses.front().inBlock->getBlock(); }
};

using TextPlaces = llvm::DenseMap<Operation *, int64_t>;

/// Decides about one buffer, and rewrites it.
class Localizer {
public:
  Localizer(AllocOp alloc, const TextPlaces &places) : alloc(alloc), places(places) {}

  /// Empty if the buffer can be localized, else why not.
  std::string analyze();
  void rewrite();
  size_t numParts() const { return parts.size(); }

private:
  std::string collect(Value view);
  std::string addAccess(OpOperand &use);
  std::string checkParts();
  bool continuesPart(Access &access);
  std::string checkPart(Part &part);
  void rewritePart(Part &part);

  AllocOp alloc;
  const TextPlaces &places;
  std::vector<Access> accesses;
  std::vector<Part> parts;
  SmallVector<Operation *> views; // sources before their views
};

} // namespace

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

// Whether the command writes every element of the operand and reads none.
static bool writesWhole(OpOperand &operand) {
  Value value = operand.get();
  return llvm::TypeSwitch<Operation *, bool>(operand.getOwner())
      .Case([&](CopyOp op) { return &operand == &op.getTargetMutable(); })
      .Case([&](RecvOp op) { return true; })
      .Case([&](MatmulOp op) { return &operand == &op.getOutputMutable() && !op.getAccumulate(); })
      .Case([&](ReduceOp op) { return &operand == &op.getTargetMutable(); })
      .Case([&](LaunchOp op) { return llvm::is_contained(op.getOutputs(), value); })
      .Case([&](CollectiveOp op) {
        return &operand == &op.getOutputMutable() && op.getKind() != CollectiveKind::Reduce &&
               op.getKind() != CollectiveKind::Gather;
      })
      .Default([](Operation *) { return false; });
}

std::string Localizer::addAccess(OpOperand &use) {
  Operation *op = use.getOwner();
  bool isPutTarget = isa<PutOp>(op) && &use == &cast<PutOp>(op).getTargetMutable();
  if (!isa<HostIRDialect>(op->getDialect()) || !getStream(op) || isPutTarget)
    return ("'" + op->getName().getStringRef() + "' uses it").str();
  std::optional<StridedBox> box = computeBox(use.get());
  if (!box)
    return "a view of it is not understood";
  // A slice cannot begin inside of a group.
  if (op->getParentOfType<GroupOp>() && !isa<GroupOp>(op->getParentOp()))
    return "a message that may not be sent uses it";
  Operation *inBlock = op;
  if (isa<SendOp, RecvOp>(op)) {
    inBlock = op->getParentOp();
    if (!isa<GroupOp>(inBlock))
      return "a loop or condition in a group uses it";
  }
  accesses.push_back({&use, inBlock, places.lookup(op), std::move(*box)});
  return "";
}

std::string Localizer::collect(Value view) {
  for (OpOperand &use : view.getUses()) {
    Operation *user = use.getOwner();
    if (isa<DeallocOp>(user))
      continue;
    if (isView(user)) {
      views.push_back(user);
      if (std::string why = collect(user->getResult(0)); !why.empty())
        return why;
      continue;
    }
    if (std::string why = addAccess(use); !why.empty())
      return why;
  }
  return "";
}

// The first sync of `waiter` after `signaler` in the ops from `from` up to (without) `to`; null if
// there is none.
static Operation *findSync(Block::iterator from, Block::iterator to, Value waiter, Value signaler) {
  for (Operation &op : llvm::make_range(from, to))
    if (auto sync = dyn_cast<SyncOp>(op); sync && isSameStream(sync.getWaiter(), waiter) &&
                                          isSameStream(sync.getSignaler(), signaler))
      return sync;
  return nullptr;
}

std::string Localizer::checkPart(Part &part) {
  const Access &first = part.accesses.front();
  if (!writesWhole(*first.operand))
    return "its first access in a block does not write the whole slice";
  if (part.accesses.size() > 1 && part.accesses[1].inBlock == first.inBlock)
    return "the command that writes it first uses it twice";
  part.last = part.accesses.back().inBlock;
  for (const Access &access : part.accesses) {
    if (!compactStrides(part.slice, access.box.dims))
      return "a view of it is not understood";
    Value stream = getStream(access.operand->getOwner());
    if (isSameStream(stream, part.stream()))
      continue;
    // Another stream may use it between syncs of the block: after its begin, and before its end.
    Block::iterator use = access.inBlock->getIterator();
    if (!findSync(first.inBlock->getIterator(), use, stream, part.stream()))
      return "another stream uses a slice without a sync in the block";
    Operation *end = findSync(use, part.block()->end(), part.stream(), stream);
    if (!end)
      return "another stream uses a slice, and no sync in the block says when that is over";
    if (part.last->isBeforeInBlock(end))
      part.last = end;
  }
  return "";
}

// Iterations of the loop whose index `value` is, if it counts them from 0.
static std::optional<int64_t> countOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop = argument ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()) : scf::ForOp();
  if (!loop || argument != loop.getInductionVar() ||
      getConstantIntValue(loop.getLowerBound()) != 0 || getConstantIntValue(loop.getStep()) != 1)
    return std::nullopt;
  return getConstantIntValue(loop.getUpperBound());
}

// Whether `box` lies in the slice of `part`, whatever the indices of the loops around it that are
// not around the part; where it begins in the slice is put in `offset`.
static bool liesIn(const StridedBox &box, const Part &part,
                   SmallVectorImpl<std::pair<Value, int64_t>> &offset) {
  LinearIndex begin = box.offset;
  begin.add(part.accesses.front().box.offset, -1);
  if (begin.constant != 0)
    return false;
  // For each piece of the slice, the last index that is taken of it.
  SmallVector<int64_t> last(part.slice.size(), 0);
  auto take = [&](int64_t stride, int64_t count, int64_t &denseStride) {
    int64_t dense = 1;
    std::optional<size_t> found;
    for (auto [i, piece] : llvm::enumerate(part.slice)) {
      if (stride > 0 && stride % piece.stride == 0 &&
          last[i] + stride / piece.stride * (count - 1) < piece.size) {
        found = i;
        denseStride = dense * (stride / piece.stride);
      }
      dense *= piece.size;
    }
    if (found)
      last[*found] += stride / part.slice[*found].stride * (count - 1);
    return found.has_value();
  };
  int64_t dense = 0;
  for (const BoxDim &dim : box.dims)
    if (dim.size != 1 && !take(dim.stride, dim.size, dense))
      return false;
  for (auto [value, coefficient] : begin.terms) {
    std::optional<int64_t> count = countOf(value);
    if (!count || *count < 1 || !take(coefficient, *count, dense))
      return false;
    offset.emplace_back(value, dense);
  }
  return true;
}

// Whether the access is one of the last part's, which it joins then: of the part's block (or of
// conditions and loops in it), and of its slice.
bool Localizer::continuesPart(Access &access) {
  if (parts.empty())
    return false;
  Part &part = parts.back();
  Operation *inBlock = part.block()->findAncestorOpInBlock(*access.inBlock);
  if (!inBlock)
    return false;
  bool isSame = part.slice == access.box.normalized() &&
                part.accesses.front().box.offset == access.box.offset;
  if (!isSame && !liesIn(access.box, part, access.offset))
    return false;
  access.inBlock = inBlock;
  part.accesses.push_back(access);
  return true;
}

std::string Localizer::checkParts() {
  llvm::sort(accesses, [](const Access &a, const Access &b) {
    return std::pair(a.place, a.operand->getOperandNumber()) <
           std::pair(b.place, b.operand->getOperandNumber());
  });
  // Of one block and one slice, without anything of another part in between.
  for (Access &access : accesses)
    if (!continuesPart(access))
      parts.push_back({{access}, access.box.normalized()});
  for (Part &part : parts)
    if (std::string why = checkPart(part); !why.empty())
      return why;
  return "";
}

static int64_t numElements(ArrayRef<BoxDim> slice) {
  int64_t elements = 1;
  for (const BoxDim &dim : slice)
    elements *= dim.size;
  return elements;
}

std::string Localizer::analyze() {
  if (!alloc.getStream().getDefiningOp<MainStreamOp>() || isSymmetric(alloc.getType()))
    return "it is not a plain buffer of the main stream";
  if (std::string why = collect(alloc); !why.empty())
    return why;
  if (accesses.empty())
    return "nobody uses it";
  if (std::string why = checkParts(); !why.empty())
    return why;
  for (const Part &part : parts)
    if (numElements(part.slice) >= alloc.getType().getNumElements())
      return "a block uses all of it";
  return "";
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

// Whether the strides are those of a row-major buffer of this shape. Those of extents of 1 say
// nothing.
static bool isRowMajor(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  int64_t expected = 1;
  for (auto [extent, stride] : llvm::zip_equal(llvm::reverse(shape), llvm::reverse(strides))) {
    if (extent != 1 && stride != expected)
      return false;
    expected *= extent;
  }
  return true;
}

static Value sumOf(OpBuilder &builder, Location loc, ArrayRef<std::pair<Value, int64_t>> terms) {
  Value sum;
  for (auto [value, factor] : terms) {
    Value size = arith::ConstantIndexOp::create(builder, loc, factor);
    Value term = arith::MulIOp::create(builder, loc, value, size);
    sum = sum ? arith::AddIOp::create(builder, loc, sum, term).getResult() : term;
  }
  return sum;
}

void Localizer::rewritePart(Part &part) {
  Access &first = part.accesses.front();
  OpBuilder builder(first.inBlock);
  Location loc = alloc.getLoc();
  Type element = alloc.getType().getElementType();
  // The first view's own shape if its dimensions lie in the order of their addresses, as nearly all
  // do.
  auto type = MemRefType::get(cast<MemRefType>(first.operand->get().getType()).getShape(), element);
  SmallVector<int64_t> strides = *compactStrides(part.slice, first.box.dims);
  if (!isRowMajor(type.getShape(), strides)) {
    SmallVector<int64_t> shape;
    for (const BoxDim &dim : llvm::reverse(part.slice))
      shape.push_back(dim.size);
    type = MemRefType::get(shape, element);
  }
  Value slice = AllocOp::create(builder, loc, type, part.stream(), IntegerAttr(), IntegerAttr());
  Value stream = part.stream();
  for (Access &access : part.accesses) {
    auto old = cast<MemRefType>(access.operand->get().getType());
    SmallVector<int64_t> wanted = *compactStrides(part.slice, access.box.dims);
    if (access.offset.empty() && old.getShape() == type.getShape() &&
        isRowMajor(old.getShape(), wanted)) {
      access.operand->set(slice);
      continue;
    }
    bool moves = !access.offset.empty();
    auto layout =
        StridedLayoutAttr::get(builder.getContext(), moves ? ShapedType::kDynamic : 0, wanted);
    auto viewType = MemRefType::get(old.getShape(), element, layout);
    OpBuilder::InsertionGuard guard(builder);
    OpFoldResult offset = builder.getIndexAttr(0);
    if (moves) {
      builder.setInsertionPoint(isa<GroupOp>(access.operand->getOwner()->getParentOp())
                                    ? access.operand->getOwner()->getParentOp()
                                    : access.operand->getOwner());
      offset = sumOf(builder, loc, access.offset);
    }
    auto asFold = [&](ArrayRef<int64_t> numbers) {
      return getAsIndexOpFoldResult(builder.getContext(), numbers);
    };
    access.operand->set(memref::ReinterpretCastOp::create(builder, loc, viewType, slice, offset,
                                                          asFold(old.getShape()), asFold(wanted)));
  }
  builder.setInsertionPointAfter(part.last);
  DeallocOp::create(builder, loc, slice, stream);
}

void Localizer::rewrite() {
  for (Part &part : parts)
    rewritePart(part);
  for (Operation *view : llvm::reverse(views))
    view->erase();
  for (Operation *user : llvm::make_early_inc_range(alloc->getUsers()))
    user->erase(); // deallocs
  alloc.erase();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct LocalizeBuffers : public hostir::impl::LocalizeBuffersBase<LocalizeBuffers> {
  using LocalizeBuffersBase::LocalizeBuffersBase;

  void runOnOperation() override {
    TextPlaces places;
    SmallVector<AllocOp> allocs;
    getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      places[op] = static_cast<int64_t>(places.size());
      if (auto alloc = dyn_cast<AllocOp>(op))
        allocs.push_back(alloc);
    });
    for (AllocOp alloc : allocs) {
      Localizer localizer(alloc, places);
      std::string why = localizer.analyze();
      if (!why.empty()) {
        ++numKept;
        if (log)
          say(*this, alloc) << "kept whole: " << why;
        continue;
      }
      ++numLocalized;
      if (log)
        say(*this, alloc) << "replaced by a slice in " << localizer.numParts() << " places";
      localizer.rewrite();
    }
  }
};
} // namespace
