//===- Attention.cpp - lowering of fusion.attention -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The running maximum and sum are those of Milakov and Gimelshein, Online normalizer calculation
// for softmax, 2018; keys that arrive in slices, of Liu, Zaharia and Abbeel, Ring attention, 2023.
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace tandem;

static ArrayRef<int64_t> getShape(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getShape();
}

/// `buffer`, dense, with new last dimensions of `extents` that repeat it.
static Value repeatLast(OpBuilder &builder, Location loc, Value buffer, ArrayRef<int64_t> extents) {
  SmallVector<int64_t> shape(getShape(buffer)), strides = computeStrides(shape);
  shape.append(extents.begin(), extents.end());
  strides.append(extents.size(), 0);
  return reinterpret(builder, loc, buffer, 0, shape, strides);
}

/// The digits that are left of a view when it is copied.
static LocalDims getDense(const LocalDims &dims) {
  LocalDims dense;
  for (const SmallVector<LocalDigit> &digits : dims) {
    SmallVector<LocalDigit> &mine = dense.emplace_back();
    for (const LocalDigit &digit : digits)
      if (digit.isKept())
        mine.push_back({digit.index ? digit.length : digit.size, {}, digit.label});
  }
  return dense;
}

static SmallVector<int64_t> getExtents(const LocalDims &dims) {
  return llvm::map_to_vector(dims, [](ArrayRef<LocalDigit> digits) {
    int64_t extent = 1;
    for (const LocalDigit &digit : digits)
      extent *= digit.size;
    return extent;
  });
}

/// A kernel's key with a number, all digits of which count.
static std::string getKey(StringRef what, double value) {
  return llvm::formatv("{0} {1:x}", what, llvm::bit_cast<uint64_t>(value)).str();
}

namespace {
/// What has been folded: for each row the maximum of its scores, the sum of exp(scale * (score -
/// maximum)), and the sum of the rows of v with these weights. All in f32.
struct Softmax {
  Value maximum, sum, out;
  LocalDims rows;    ///< of maximum and sum: the batch dimensions and M
  LocalDims columns; ///< of out: E
};

/// The tokens of a dimension that a view has.
struct Tokens {
  SmallVector<LocalDigit> digits; ///< of a buffer with one element per token of the sequence
  /// The number of the first, if they follow each other; else null.
  Value first;
  int64_t count = 0;
};

/// Folds slices of keys and values into a softmax.
class AttentionFold {
public:
  AttentionFold(fusion::AttentionOp op, LoopEmitter &loop, Value stream)
      : op(op), loc(op.getLoc()), loop(loop), program(loop.program), builder(loop.getBuilder()),
        stream(stream), f32(builder.getF32Type()), rank(op.getType().getRank()),
        scale(op.getScale() ? op.getScale()->convertToDouble()
                            : 1 / std::sqrt(double(op.getQuery().getType().getDimSize(rank - 1)))) {
  }

  /// Before the first slice.
  void clear(const Softmax &softmax) {
    // At most any finite score, but a number: the difference of two such maxima is 0.
    fill(softmax.maximum, std::numeric_limits<float>::lowest());
    fill(softmax.sum, 0);
    fill(softmax.out, 0);
  }
  bool isEmpty();
  /// The tokens in their order of dimension M (with `key_count`, of N), for all slices; null if
  /// rows read all keys. On the main stream.
  Value makeTokens();
  LogicalResult fold(OpDims dims, Softmax softmax, Value tokens);
  /// The result of a softmax into the view `result`, whose dimensions `out` has, and `sum` those of
  /// the rows.
  void finish(Value sum, Value out, Value result);

private:
  Value alloc(ArrayRef<int64_t> shape, Type element) {
    return hostir::AllocOp::create(builder, loc, shape, element, stream);
  }
  Value number(double value) {
    return arith::ConstantOp::create(builder, loc, builder.getFloatAttr(f32, value));
  }
  Value integer(int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(int32_t(value)));
  }
  void launch(StringRef key, ValueRange inputs, Value out,
              function_ref<Value(ValueRange)> compute) {
    auto types = llvm::map_to_vector(
        inputs, [](Value in) { return cast<MemRefType>(in.getType()).getElementType(); });
    Type result = cast<MemRefType>(out.getType()).getElementType();
    hostir::KernelOp kernel =
        program.getKernel(loc, llvm::formatv("attention.{0}.{1}", key, result).str(), "attention",
                          types, result, compute);
    program.launch(loc, kernel, inputs, out, stream);
  }
  void fill(Value buffer, double value) {
    launch(getKey("fill", value), {}, buffer, [&](ValueRange) { return number(value); });
  }
  /// exp(scale * (x - m)).
  Value emitWeight(Value x, Value m) {
    return hostir::ExpDifferenceOp::create(builder, loc, x, m, number(scale));
  }

  /// A view of values whose last `columns` dimensions are columns, copied if these are several.
  Value makeMatrices(Value values, int64_t columns);
  SmallVector<LocalDigit> addDevices(unsigned operand, ArrayRef<LocalDigit> digits);
  Tokens getTokens(ArrayRef<LocalDigit> digits, int64_t extent);
  void cutByChunks(ArrayRef<SmallVector<LocalDigit> *> lists);
  LogicalResult foldBlock(const OpDims &dims, const Softmax &softmax, Value tokens,
                          const SmallVector<LocalDigit> &rows, const SmallVector<LocalDigit> &keys);
  LogicalResult emitBlock(const OpDims &dims, const Softmax &softmax, Value tokens,
                          const Tokens *rows, const Tokens *keys);
  void mask(Value scores, Value masked, Value tokens, const Tokens &rows, const Tokens &keys);
  int64_t getChunk() {
    return op.getZigzag() ? op.getType().getDimSize(rank - 2) / 2 / int64_t(*op.getZigzag()) : 0;
  }

  fusion::AttentionOp op;
  Location loc;
  LoopEmitter &loop;
  ProgramBuilder &program;
  OpBuilder &builder;
  Value stream;
  Type f32;
  int64_t rank;
  double scale;
};

class AttentionLowering : public OpLowering {
  LogicalResult prepare(Operation *op, LoopEmitter &loop) const override;
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const override;
  bool accumulates(Operation *op) const override;
  LogicalResult prepareAccumulation(Operation *op, Value out, LoopEmitter &loop) const override;
  LogicalResult accumulate(Operation *op, unsigned operand, const SliceIndex &index, Value out,
                           LoopEmitter &loop) const override;
  LogicalResult finishAccumulation(Operation *op, Value out, LoopEmitter &loop) const override;
  Type getAccumulatorElement(Operation *op) const override {
    return Float32Type::get(op->getContext());
  }
  bool readsPlaces() const override { return true; }
};
} // namespace

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

/// Whether there is nothing to fold: no row to compute, or no key to read.
bool AttentionFold::isEmpty() {
  return op.getType().getNumElements() == 0 || op.getKey().getType().getDimSize(rank - 2) == 0;
}

Value AttentionFold::makeTokens() {
  if (isEmpty() || (!op.getCausal() && !op.getKeyCount()))
    return {};
  int64_t count = op.getKey().getType().getDimSize(rank - 2);
  Type i32 = builder.getI32Type();
  Value order = program.alloc(loc, MemRefType::get(count, i32));
  auto part = [&](int64_t first, int64_t size) {
    int64_t one = 1;
    auto type =
        memref::SubViewOp::inferResultType(cast<MemRefType>(order.getType()), first, size, one);
    return memref::SubViewOp::create(builder, loc, cast<MemRefType>(type), order, first, size, one)
        .getResult();
  };
  launch("first", {}, part(0, 1), [&](ValueRange) { return integer(0); });
  // As many again, higher by their number.
  for (int64_t known = 1; known < count; known *= 2)
    launch(llvm::formatv("from {0}", known).str(), part(0, std::min(known, count - known)),
           part(known, std::min(known, count - known)), [&](ValueRange in) {
             return arith::AddIOp::create(builder, loc, in[0], integer(known)).getResult();
           });
  int64_t chunk = getChunk();
  if (!chunk)
    return order;
  Value tokens = program.alloc(loc, MemRefType::get(count, i32));
  launch(llvm::formatv("zigzag {0} {1}", count, chunk).str(), order, tokens, [&](ValueRange in) {
    Value number = arith::DivSIOp::create(builder, loc, in[0], integer(chunk));
    Value inside = arith::RemSIOp::create(builder, loc, in[0], integer(chunk));
    Value pair = arith::DivSIOp::create(builder, loc, number, integer(2));
    Value isLate = arith::RemSIOp::create(builder, loc, number, integer(2));
    Value late = arith::SubIOp::create(builder, loc, integer(count / chunk - 1), pair);
    Value isEarly =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, isLate, integer(0));
    Value place = arith::SelectOp::create(builder, loc, isEarly, pair, late);
    Value first = arith::MulIOp::create(builder, loc, place, integer(chunk));
    return arith::AddIOp::create(builder, loc, first, inside).getResult();
  });
  return tokens;
}

/// Adds the device digits of dimension rank - 2 of an operand to its local digits, which has the
/// tokens of all devices then.
SmallVector<LocalDigit> AttentionFold::addDevices(unsigned operand, ArrayRef<LocalDigit> digits) {
  auto type = cast<RankedTensorType>(op->getOperand(operand).getType());
  fusion::AxesAttr axes = fusion::getAxes(type);
  auto resolved =
      fusion::resolveDim(axes.getDims()[rank - 2], type.getDimSize(rank - 2), axes.getMesh());
  SmallVector<LocalDigit> all;
  int64_t label = 0;
  for (const fusion::ResolvedDigit &digit : *resolved) {
    if (digit.kind == fusion::DigitKind::Device) {
      all.push_back({digit.size, program.getDeviceIndex(axes.getMesh(), digit.axis)});
      ++label; // its two sides are not contiguous
      continue;
    }
    // A stream digit may come in parts, and one of several slices with the digit inside.
    for (int64_t span = 1; span < digit.span() && !digits.empty(); digits = digits.drop_front()) {
      all.push_back(digits.front());
      all.back().label = DigitLabel(label++);
      span *= digits.front().size;
    }
    ++label;
  }
  return all;
}

/// The tokens of a view with these digits of all `extent` tokens.
Tokens AttentionFold::getTokens(ArrayRef<LocalDigit> digits, int64_t extent) {
  Tokens tokens;
  tokens.digits.assign(digits.begin(), digits.end());
  int64_t inner = extent, chunk = getChunk();
  bool sawKept = false, isContiguous = true;
  SmallVector<int64_t> distances; // of the values of digits with an index
  auto isAligned = [&](int64_t count) {
    return llvm::all_of(distances, [&](int64_t distance) { return distance % count == 0; });
  };
  hostir::IndexBuilder index(builder, loc);
  tokens.count = 1;
  tokens.first = index.constant(0);
  for (const LocalDigit &digit : digits) {
    inner /= digit.size;
    if (digit.isKept())
      tokens.count *= digit.index ? digit.length : digit.size;
    isContiguous &= !sawKept || digit.size == 1 || !digit.index;
    sawKept |= digit.isKept() && digit.size > 1;
    if (!digit.index)
      continue;
    distances.push_back(inner * std::max<int64_t>(digit.chunk, 1));
    tokens.first = index.add(tokens.first, index.mul(digit.index, distances.back()));
  }
  // In a chunk: neither longer than it, nor across its end.
  if (!isContiguous || (chunk && (chunk % tokens.count != 0 || !isAligned(tokens.count)))) {
    tokens.first = {};
    return tokens;
  }
  if (!chunk)
    return tokens;
  // As in makeTokens().
  Value number = index.div(tokens.first, chunk), inside = index.mod(tokens.first, chunk);
  Value pair = index.div(number, 2), isLate = index.mod(number, 2);
  // pair, or last - pair: pair + isLate * (last - 2 * pair).
  Value last = index.constant(op.getType().getDimSize(rank - 2) / chunk - 1);
  Value rest = index.sub(last, index.mul(pair, 2));
  Value place = index.add(pair, index.createOrFold<arith::MulIOp>(isLate, rest));
  tokens.first = index.linear(place, chunk, inside);
  return tokens;
}

/// With `zigzag`, cuts the innermost digits at the chunks, inside of which tokens follow each
/// other.
void AttentionFold::cutByChunks(ArrayRef<SmallVector<LocalDigit> *> lists) {
  constexpr int64_t kNoNeighbour = 1000; // a label that follows no other
  int64_t chunk = getChunk();
  auto getInnermost = [](SmallVector<LocalDigit> &list) {
    auto *digit = list.end();
    while (digit != list.begin())
      if ((--digit)->isKept())
        return digit;
    return list.end();
  };
  auto canCut = [&](SmallVector<LocalDigit> *list) {
    auto *digit = getInnermost(*list);
    return digit != list->end() && !digit->index && digit->size > chunk && digit->size % chunk == 0;
  };
  if (!chunk || !llvm::all_of(lists, canCut))
    return;
  for (SmallVector<LocalDigit> *list : lists) {
    auto *digit = getInnermost(*list);
    digit->size /= chunk;
    list->insert(std::next(digit), LocalDigit{chunk, {}, DigitLabel(kNoNeighbour)});
  }
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

LogicalResult AttentionFold::fold(OpDims dims, Softmax softmax, Value tokens) {
  if (isEmpty())
    return success();
  SmallVector<LocalDigit> rows, keys;
  if (tokens)
    keys = addDevices(1, dims.operands[1][rank - 2]);
  if (op.getCausal())
    rows = addDevices(0, dims.operands[0][rank - 2]);
  for (auto [operand, mine] : llvm::zip_equal(op->getOperands(), dims.operands))
    (void)loop.getSource(operand, mine);
  fusion::AxesRule rule = *fusion::getAxesRule(op);
  SmallVector<LocalDigit> &m = dims.operands[0][rank - 2], &stateM = softmax.rows[rank - 2];
  SmallVector<LocalDigit> &n = dims.operands[1][rank - 2], &valueN = dims.operands[2][rank - 2];
  dims.result = softmax.rows;
  dims.result.append(softmax.columns);
  if (failed(alignDims(builder, op, rule.operands, rule.results[0], dims)))
    return failure();
  softmax.rows.assign(dims.result.begin(), std::prev(dims.result.end()));
  softmax.columns.assign(1, dims.result.back());
  SmallVector<SmallVector<LocalDigit> *> ofM{&m, &stateM}, ofN{&n, &valueN};
  if (tokens) {
    ofN.push_back(&keys);
    if (op.getCausal())
      ofM.push_back(&rows);
    if (failed(alignDigits(builder, loc, ofM)) || failed(alignDigits(builder, loc, ofN)))
      return op->emitError("expected slices of rows and of keys with digits of common sizes");
    cutByChunks(ofM);
    cutByChunks(ofN);
  }
  return forEachRun(program, loc, ofM, [&](Value) {
    return forEachRun(program, loc, ofN,
                      [&](Value) { return foldBlock(dims, softmax, tokens, rows, keys); });
  });
}

/// Skips blocks without scores, and masks those that have some.
LogicalResult AttentionFold::foldBlock(const OpDims &dims, const Softmax &softmax, Value order,
                                       const SmallVector<LocalDigit> &rowDigits,
                                       const SmallVector<LocalDigit> &keyDigits) {
  if (!order)
    return emitBlock(dims, softmax, order, nullptr, nullptr);
  Tokens rows, keys = getTokens(keyDigits, op.getKey().getType().getDimSize(rank - 2));
  Value firstRead, lastRead; // keys, of the first and the last row
  if (op.getCausal()) {
    rows = getTokens(rowDigits, op.getType().getDimSize(rank - 2));
    firstRead = rows.first;
    if (rows.first)
      lastRead = arith::AddIOp::create(builder, loc, rows.first, program.getIndex(rows.count - 1));
  } else {
    firstRead = lastRead = program.getIndex(static_cast<int64_t>(*op.getKeyCount()) - 1);
  }
  auto emitMasked = [&] { return emitBlock(dims, softmax, order, &rows, &keys); };
  if (!firstRead || !keys.first)
    return emitMasked();
  auto isAtMost = [&](Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ule, a, b).getResult();
  };
  FirstSlice isRead{false, isAtMost(keys.first, lastRead)};
  return ifFirst(
      builder, loc, isRead,
      [&] {
        Value last =
            arith::AddIOp::create(builder, loc, keys.first, program.getIndex(keys.count - 1));
        FirstSlice isWhole{false, isAtMost(last, firstRead)};
        return ifFirst(
            builder, loc, isWhole,
            [&] { return emitBlock(dims, softmax, order, nullptr, nullptr); }, emitMasked);
      },
      [] { return success(); });
}

Value AttentionFold::makeMatrices(Value values, int64_t columns) {
  ArrayRef<int64_t> shape = getShape(values);
  if (columns == 1)
    return values;
  Value copy = alloc(shape, cast<MemRefType>(values.getType()).getElementType());
  hostir::CopyOp::create(builder, loc, values, copy, stream);
  SmallVector<int64_t> merged(shape.drop_back(columns));
  merged.push_back(computeProduct(shape.take_back(columns)));
  return reinterpret(builder, loc, copy, 0, merged, computeStrides(merged));
}

LogicalResult AttentionFold::emitBlock(const OpDims &dims, const Softmax &softmax, Value order,
                                       const Tokens *rows, const Tokens *keys) {
  auto view = [&](unsigned operand) {
    LocalDims found;
    return makeView(builder, loc, loop.getSource(op->getOperand(operand), found),
                    dims.operands[operand], true);
  };
  Value q = view(0), k = view(1), v = makeMatrices(view(2), getViewRanks(dims.operands[2]).back());
  Value maximum = makeView(builder, loc, softmax.maximum, softmax.rows, true);
  Value sum = makeView(builder, loc, softmax.sum, softmax.rows, true);
  // A slice has all columns of its buffer, whatever digits they are made of.
  LocalDims outDims = softmax.rows;
  outDims.push_back({{getExtents(softmax.columns)[0], {}}});
  Value out = makeView(builder, loc, softmax.out, outDims, true);
  SmallVector<int64_t> rowShape(getShape(maximum)), shape(rowShape);
  shape.push_back(getShape(k).drop_back().back());
  int64_t last = static_cast<int64_t>(shape.size()) - 1;

  Value scores = alloc(shape, f32);
  hostir::MatmulOp::create(builder, loc, q, k, Value(), scores, stream, false, true, false);
  if (keys) {
    Value masked = alloc(shape, f32);
    mask(scores, masked, order, *rows, *keys);
    scores = masked;
  }
  auto reduce = [&](ReduceKind kind, Value from) {
    Value to = alloc(rowShape, f32);
    hostir::ReduceOp::create(builder, loc, ReduceKindAttr::get(builder.getContext(), kind), from,
                             to, builder.getDenseI64ArrayAttr(last), stream);
    return to;
  };
  // What was added with the old maximum is scaled to the new one.
  Value higher = reduce(ReduceKind::Max, scores), now = alloc(rowShape, f32);
  launch("maximum", {maximum, higher}, now, [&](ValueRange in) {
    return arith::MaximumFOp::create(builder, loc, in[0], in[1]).getResult();
  });
  Value change = alloc(rowShape, f32);
  auto weigh = [&](ValueRange in) { return emitWeight(in[0], in[1]); };
  launch(getKey("weight", scale), {maximum, now}, change, weigh);
  hostir::CopyOp::create(builder, loc, now, maximum, stream);
  auto multiply = [&](ValueRange in) {
    return arith::MulFOp::create(builder, loc, in[0], in[1]).getResult();
  };
  launch("multiply", {sum, change}, sum, multiply);
  launch("multiply", {out, repeatLast(builder, loc, change, getShape(out).back())}, out, multiply);

  Value weights = alloc(shape, f32);
  launch(getKey("weight", scale), {scores, repeatLast(builder, loc, now, shape.back())}, weights,
         weigh);
  hostir::AccumulateOp::create(builder, loc,
                               ReduceKindAttr::get(builder.getContext(), ReduceKind::Sum),
                               reduce(ReduceKind::Sum, weights), sum, stream);
  Type element = op.getType().getElementType();
  if (element != f32) {
    Value narrow = alloc(shape, element);
    program.launch(loc, program.getCastKernel(loc, f32, element), weights, narrow, stream);
    weights = narrow;
  }
  hostir::MatmulOp::create(builder, loc, weights, v, Value(), out, stream, false, false, true);
  return success();
}

void AttentionFold::mask(Value scores, Value masked, Value order, const Tokens &rows,
                         const Tokens &keys) {
  ArrayRef<int64_t> shape = getShape(scores);
  int64_t row = static_cast<int64_t>(shape.size()) - 2, count = getShape(order)[0];
  auto makeNumbers = [&](int64_t along, const Tokens &tokens) {
    SmallVector<int64_t> whole(shape), strides(shape.size(), 0);
    whole[along] = count;
    strides[along] = 1;
    LocalDims dims;
    for (int64_t extent : shape)
      dims.push_back({{extent, {}}});
    dims[along] = tokens.digits;
    return makeView(builder, loc, reinterpret(builder, loc, order, 0, whole, strides), dims, true);
  };
  auto select = [&](Value score, Value key, Value lastRead) {
    Value reads = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sle, key, lastRead);
    Value none = number(-std::numeric_limits<double>::infinity());
    return arith::SelectOp::create(builder, loc, reads, score, none).getResult();
  };
  Value keyNumbers = makeNumbers(row + 1, keys);
  if (op.getCausal())
    return launch("mask", {scores, keyNumbers, makeNumbers(row, rows)}, masked,
                  [&](ValueRange in) { return select(in[0], in[1], in[2]); });
  auto read = static_cast<int64_t>(*op.getKeyCount());
  launch(llvm::formatv("mask {0}", read).str(), {scores, keyNumbers}, masked,
         [&](ValueRange in) { return select(in[0], in[1], integer(read - 1)); });
}

void AttentionFold::finish(Value sum, Value out, Value result) {
  ArrayRef<int64_t> columns = getShape(out).drop_front(getShape(sum).size());
  launch(
      "finish", {out, repeatLast(builder, loc, sum, columns)}, result, [&](ValueRange in) -> Value {
        Value mean = arith::DivFOp::create(builder, loc, in[0], in[1]);
        // A row that reads no key. Otherwise the weight of the greatest score is 1.
        Value zero = number(0);
        Value isEmpty = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, in[1], zero);
        mean = arith::SelectOp::create(builder, loc, isEmpty, zero, mean);
        Type element = op.getType().getElementType();
        if (element == f32)
          return mean;
        return arith::TruncFOp::create(builder, loc, element, mean);
      });
}

//===----------------------------------------------------------------------===//
// The lowering
//===----------------------------------------------------------------------===//

static LocalDims withoutLast(const LocalDims &dims) {
  return LocalDims(dims.begin(), std::prev(dims.end()));
}

LogicalResult AttentionLowering::prepare(Operation *operation, LoopEmitter &loop) const {
  auto op = cast<fusion::AttentionOp>(operation);
  Value tokens;
  loop.program.onMesh(op.getLoc(), fusion::getAxes(op.getResult()).getMesh(), [&] {
    tokens = AttentionFold(op, loop, loop.program.getMainStream()).makeTokens();
  });
  loop.setState(op, {tokens});
  return OpLowering::prepare(op, loop);
}

LogicalResult AttentionLowering::emit(Operation *operation, const SliceIndex *index, Value stream,
                                      LoopEmitter &loop) const {
  auto op = cast<fusion::AttentionOp>(operation);
  OpBuilder &builder = loop.getBuilder();
  Location loc = op.getLoc();
  Value result = loop.program.getOrAllocBuffer(op.getResult());
  OpDims dims = getOpDims(op, index, std::nullopt);
  Value view = makeView(builder, loc, result, dims.result, true);
  LocalDims dense = getDense(dims.result);
  SmallVector<int64_t> shape = getExtents(dense);
  auto alloc = [&](ArrayRef<int64_t> extents) {
    return hostir::AllocOp::create(builder, loc, extents, builder.getF32Type(), stream).getResult();
  };
  ArrayRef<int64_t> rows = ArrayRef(shape).drop_back();
  Softmax softmax{alloc(rows), alloc(rows), alloc(shape), withoutLast(dense), {dense.back()}};
  AttentionFold attention(op, loop, stream);
  attention.clear(softmax);
  if (failed(attention.fold(std::move(dims), softmax, loop.getState(op)[0])))
    return failure();
  SmallVector<int64_t> viewShape(getShape(view));
  // Digits that do not follow each other in memory are dimensions of their own.
  ArrayRef<int64_t> viewRows = viewShape;
  while (computeProduct(viewRows) != computeProduct(rows))
    viewRows = viewRows.drop_back();
  auto like = [&](Value buffer, ArrayRef<int64_t> extents) {
    return reinterpret(builder, loc, buffer, 0, extents, computeStrides(extents));
  };
  attention.finish(like(softmax.sum, viewRows), like(softmax.out, viewShape), view);
  return success();
}

// A slice of keys is folded once, into all columns.
bool AttentionLowering::accumulates(Operation *op) const {
  return !fusion::getAxes(op->getResult(0)).getDims().back().hasStream();
}

LogicalResult AttentionLowering::prepareAccumulation(Operation *operation, Value out,
                                                     LoopEmitter &loop) const {
  auto op = cast<fusion::AttentionOp>(operation);
  ProgramBuilder &program = loop.program;
  Type f32 = loop.getBuilder().getF32Type();
  auto alloc = [&] {
    return program.alloc(op.getLoc(), MemRefType::get(getShape(out).drop_back(), f32));
  };
  AttentionFold attention(op, loop, program.getMainStream());
  Softmax softmax{alloc(), alloc(), out, {}, {}};
  attention.clear(softmax);
  loop.setState(op, {softmax.maximum, softmax.sum, attention.makeTokens()});
  return success();
}

LogicalResult AttentionLowering::accumulate(Operation *operation, unsigned operand,
                                            const SliceIndex &index, Value out,
                                            LoopEmitter &loop) const {
  auto op = cast<fusion::AttentionOp>(operation);
  OpDims dims = getOpDims(op, &index, operand);
  ArrayRef<Value> state = loop.getState(op);
  Softmax softmax{state[0], state[1], out, withoutLast(dims.result), {dims.result.back()}};
  return AttentionFold(op, loop, loop.program.getMainStream())
      .fold(std::move(dims), softmax, state[2]);
}

LogicalResult AttentionLowering::finishAccumulation(Operation *operation, Value out,
                                                    LoopEmitter &loop) const {
  auto op = cast<fusion::AttentionOp>(operation);
  AttentionFold(op, loop, loop.program.getMainStream())
      .finish(loop.getState(op)[1], out, loop.program.getBuffer(op.getResult()));
  return success();
}

void tandem::attachAttentionLowering(MLIRContext &context) {
  attachLowering<fusion::AttentionOp, AttentionLowering>(context);
}
