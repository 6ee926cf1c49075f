//===- LocalizeBuffers.cpp - shrinks buffers to one iteration ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "SliceBoxes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tandem::hostir {
#define GEN_PASS_DEF_LOCALIZEBUFFERS
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"
} // namespace tandem::hostir

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

namespace {

/// An operand of a command that is a view of the buffer.
struct Access {
  OpOperand *operand;
  /// The op of the part's block that is or contains the command.
  Operation *inBlock;
  int64_t place; // of the command, in the text
  StridedBox box;
  /// Whether it is a conditional message.
  bool isOptional = false;
  /// Its offset in the dense slice of its part.
  LinearIndex offset = {};
};

/// The accesses of one slice in one block.
struct Part {
  std::vector<Access> accesses; // in the text's order
  SmallVector<BoxDim> slice;    // normalized
  /// The number of an access to the whole slice.
  size_t whole = 0;
  /// The op of the block after which the first access's stream is ordered after all accesses.
  Operation *last = nullptr;
  Value stream() const { return getStream(accesses.front().operand->getOwner()); }
  Block *block() const { return accesses.front().inBlock->getBlock(); }
};

using TextPlaces = llvm::DenseMap<Operation *, int64_t>;

/// Analyses one buffer and rewrites it.
class Localizer {
public:
  Localizer(AllocOp alloc, const TextPlaces &places) : alloc(alloc), places(places) {}

  /// Empty if the buffer can be shrunk, else the reason.
  std::string analyze();
  void rewrite();
  size_t numParts() const { return parts.size(); }

private:
  std::string collect(Value view);
  std::string addAccess(OpOperand &use);
  std::string checkParts();
  bool continuesPart(const Access &access);
  static std::string checkFirst(const Part &part);
  static std::string checkPart(Part &part);
  std::string checkOnePart();
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
static bool writesWhole(const Access &access) {
  OpOperand &operand = *access.operand;
  Value value = operand.get();
  return llvm::TypeSwitch<Operation *, bool>(operand.getOwner())
      .Case([&](CopyOp op) { return &operand == &op.getTargetMutable(); })
      .Case([&](RecvOp op) { return !access.isOptional; })
      .Case([&](MatmulOp op) { return &operand == &op.getOutputMutable() && !op.getAccumulate(); })
      .Case([&](ReduceOp op) { return &operand == &op.getTargetMutable(); })
      .Case([&](LaunchOp op) { return llvm::is_contained(op.getOutputs(), value); })
      .Case([&](CallOp op) { return llvm::is_contained(op.getOutputs(), value); })
      .Case([&](CollectiveOp op) {
        return &operand == &op.getOutputMutable() && op.getKind() != CollectiveKind::Reduce &&
               op.getKind() != CollectiveKind::Gather;
      })
      .Default([](Operation *) { return false; });
}

std::string Localizer::addAccess(OpOperand &use) {
  Operation *op = use.getOwner();
  bool isPutTarget = isa<PutOp>(op) && &use == &cast<PutOp>(op).getTargetMutable();
  if (!isa<HostIRDialect>(op->getDialect()) || !getStream(op) || isPutTarget ||
      isa<PeerExchangeOp>(op))
    return ("'" + op->getName().getStringRef() + "' uses it").str();
  if (cast<MemRefType>(use.get().getType()).getNumElements() == 0)
    return "a view of it has no elements";
  std::optional<StridedBox> box = computeBox(use.get());
  if (!box)
    return "a view of it cannot be analysed";
  // A slice cannot be allocated inside a group.
  auto group = op->getParentOfType<GroupOp>();
  accesses.push_back({&use, group ? group : op, places.lookup(op), std::move(*box)});
  accesses.back().isOptional = group && op->getParentOp() != group;
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

// The first sync of `waiter` after `signaler` in the ops [from, to), or null.
static Operation *findSync(Block::iterator from, Block::iterator to, Value waiter, Value signaler) {
  for (Operation &op : llvm::make_range(from, to))
    if (auto sync = dyn_cast<SyncOp>(op); sync && isSameStream(sync.getWaiter(), waiter) &&
                                          isSameStream(sync.getSignaler(), signaler))
      return sync;
  return nullptr;
}

/// Whether the first access writes the whole slice.
std::string Localizer::checkFirst(const Part &part) {
  const Access &first = part.accesses.front();
  if (!writesWhole(first))
    return "its first access in a block does not write the whole slice";
  if (part.accesses.size() > 1 && part.accesses[1].inBlock == first.inBlock)
    return "the command that writes it first uses it twice";
  return "";
}

std::string Localizer::checkPart(Part &part) {
  const Access &first = part.accesses.front();
  part.last = part.accesses.back().inBlock;
  for (const Access &access : part.accesses) {
    if (!compactStrides(part.slice, access.box.dims))
      return "a view of it cannot be analysed";
    Value stream = getStream(access.operand->getOwner());
    if (isSameStream(stream, part.stream()))
      continue;
    // Another stream may use it between two syncs of the block: after its begin and before its end.
    Block::iterator use = access.inBlock->getIterator();
    if (!findSync(first.inBlock->getIterator(), use, stream, part.stream()))
      return "another stream uses a slice without a sync in the block";
    Operation *end = findSync(use, part.block()->end(), part.stream(), stream);
    if (!end)
      return "another stream uses a slice, and no sync in the block orders the end of this use";
    if (part.last->isBeforeInBlock(end))
      part.last = end;
  }
  return "";
}

// Whether the access belongs to the last part: same block (or nested in it), same slice.
bool Localizer::continuesPart(const Access &access) {
  if (parts.empty())
    return false;
  Part &part = parts.back();
  Operation *inBlock = part.block()->findAncestorOpInBlock(*access.inBlock);
  if (!inBlock)
    return false;
  const LinearIndex &begin = part.accesses.front().box.offset;
  bool isSame = part.slice == access.box.normalized() && begin == access.box.offset;
  std::optional<LinearIndex> offset =
      isSame ? LinearIndex() : placeInSlice(access.box, begin, part.slice);
  if (!offset)
    return false;
  part.accesses.push_back(access);
  part.accesses.back().inBlock = inBlock;
  part.accesses.back().offset = std::move(*offset);
  return true;
}

std::string Localizer::checkParts() {
  llvm::sort(accesses, [](const Access &a, const Access &b) {
    return std::pair(a.place, a.operand->getOperandNumber()) <
           std::pair(b.place, b.operand->getOperandNumber());
  });
  // All of one block and slice, without accesses of other parts in between.
  for (const Access &access : accesses)
    if (!continuesPart(access))
      parts.push_back({{access}, access.box.normalized()});
  for (Part &part : parts)
    for (const std::string &why : {checkFirst(part), checkPart(part)})
      if (!why.empty())
        return why;
  return "";
}

static int64_t numElements(ArrayRef<BoxDim> slice) {
  int64_t elements = 1;
  for (const BoxDim &dim : slice)
    elements *= dim.size;
  return elements;
}

// Whether a value does not change during one run of the block.
static bool isFixedIn(Value value, Block &block) {
  return value.getParentRegion()->isAncestor(block.getParent());
}

// The innermost block that contains all accesses.
static Block *findCommonBlock(ArrayRef<Access> accesses) {
  Block *block = accesses.front().inBlock->getBlock();
  auto has = [&](const Access &access) { return block->findAncestorOpInBlock(*access.inBlock); };
  while (block && !llvm::all_of(accesses, has)) {
    Operation *parent = block->getParentOp();
    block = parent ? parent->getBlock() : nullptr;
  }
  return block;
}

/// Treats all accesses as one part of a block whose runs use disjoint slices. Then a run reads only
/// elements that it wrote itself, piece by piece, or undefined ones.
std::string Localizer::checkOnePart() {
  Block *block = findCommonBlock(accesses);
  if (!block || block == alloc->getBlock())
    return "no loop has all of its uses";
  std::optional<size_t> whole;
  for (auto [i, access] : llvm::enumerate(accesses)) {
    auto isFixed = [&](const auto &term) { return isFixedIn(term.first, *block); };
    if (llvm::all_of(access.box.offset.terms, isFixed) &&
        (!whole || numElements(access.box.dims) > numElements(accesses[*whole].box.dims)))
      whole = i;
  }
  if (!whole)
    return "no access of it in the loop takes one slice";
  const LinearIndex &begin = accesses[*whole].box.offset;
  Part part{accesses, accesses[*whole].box.normalized(), *whole};
  if (!areSlicesDisjoint(begin, part.slice, block, alloc->getBlock()))
    return "iterations may share elements of it";
  for (Access &access : part.accesses) {
    std::optional<LinearIndex> offset = placeInSlice(access.box, begin, part.slice);
    if (!offset)
      return "an access in the loop may lie outside the slice";
    access.offset = std::move(*offset);
    access.inBlock = block->findAncestorOpInBlock(*access.inBlock);
  }
  if (!isFixedIn(part.stream(), *block))
    return "its stream changes inside the loop";
  parts.clear();
  parts.push_back(std::move(part));
  return checkPart(parts.front());
}

std::string Localizer::analyze() {
  if (!alloc.getStream().getDefiningOp<MainStreamOp>() || isSymmetric(alloc.getType()))
    return "it is not a plain buffer of the main stream";
  if (std::string why = collect(alloc); !why.empty())
    return why;
  if (accesses.empty())
    return "it is not used";
  if (std::string why = checkParts(); !why.empty())
    if (std::string other = checkOnePart(); !other.empty())
      return why + "; " + other;
  for (const Part &part : parts)
    if (numElements(part.slice) >= alloc.getType().getNumElements())
      return "a block uses all of it";
  return "";
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

static OpFoldResult sumOf(OpBuilder &builder, Location loc, const LinearIndex &index) {
  if (index.terms.empty())
    return builder.getIndexAttr(index.constant);
  IndexBuilder math(builder, loc);
  Value sum;
  for (auto [value, factor] : index.terms)
    sum = math.add(sum, math.mul(value, factor));
  return math.add(sum, index.constant);
}

void Localizer::rewritePart(Part &part) {
  Access &first = part.accesses.front();
  OpBuilder builder(first.inBlock);
  Location loc = alloc.getLoc();
  Type element = alloc.getType().getElementType();
  auto typeOf = [&](const Access &access, int64_t offset = 0) {
    auto layout = StridedLayoutAttr::get(builder.getContext(), offset,
                                         *compactStrides(part.slice, access.box.dims));
    return MemRefType::get(cast<MemRefType>(access.operand->get().getType()).getShape(), element,
                           layout);
  };
  // The whole view's own shape if its dimensions are in address order, the usual case.
  MemRefType whole = typeOf(part.accesses[part.whole]);
  SmallVector<int64_t> shape(whole.getShape());
  if (!isDense(whole)) {
    shape.clear();
    for (const BoxDim &dim : llvm::reverse(part.slice))
      shape.push_back(dim.size);
  }
  Value slice = AllocOp::create(builder, loc, shape, element, part.stream());
  Value stream = part.stream();
  for (Access &access : part.accesses) {
    bool moves = !access.offset.terms.empty();
    MemRefType type = typeOf(access, moves ? ShapedType::kDynamic : access.offset.constant);
    if (access.offset == LinearIndex() && type.getShape() == ArrayRef(shape) && isDense(type)) {
      access.operand->set(slice);
      continue;
    }
    OpBuilder::InsertionGuard guard(builder);
    if (moves) {
      Operation *user = access.operand->getOwner();
      builder.setInsertionPoint(isa<GroupOp>(user->getParentOp()) ? user->getParentOp() : user);
    }
    OpFoldResult offset = sumOf(builder, loc, access.offset);
    auto asFold = [&](ArrayRef<int64_t> numbers) {
      return getAsIndexOpFoldResult(builder.getContext(), numbers);
    };
    auto strides = cast<StridedLayoutAttr>(type.getLayout()).getStrides();
    access.operand->set(memref::ReinterpretCastOp::create(
        builder, loc, type, slice, offset, asFold(type.getShape()), asFold(strides)));
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
    bool changed = false;
    for (AllocOp alloc : allocs) {
      Localizer localizer(alloc, places);
      std::string why = localizer.analyze();
      if (!why.empty()) {
        ++numKept;
        if (log)
          logger(*this, alloc) << "kept whole: " << why;
        continue;
      }
      ++numLocalized;
      if (log)
        logger(*this, alloc) << "replaced by a slice in " << localizer.numParts() << " places";
      localizer.rewrite();
      changed = true;
    }
    if (!changed)
      markAllAnalysesPreserved();
  }
};
} // namespace
