//===- Gated.cpp - the parts of a gated matmul ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Gated.h"

#include "ProgramImpl.h"
#include "tandem/Program/FusedExchange.h"

#include <algorithm>

namespace tandem::program {

namespace {

/// Finds where each part lies in the product of all.
class Assembler {
public:
  explicit Assembler(const std::vector<GatedPart> &parts)
      : parts(parts), hasPuts(std::any_of(parts.begin(), parts.end(), [](const GatedPart &part) {
          return part.kind == Kind::Put;
        })) {}

  Expected<GatedProduct> run() {
    for (uint32_t i = 0; i < parts.size(); ++i)
      if (Status status = checkMessage(i); !status.ok())
        return status.withPrefix(fmt::format("part {}: ", i));
    TANDEM_RETURN_IF_ERROR(findFirst());
    if (!product.whyNoTargets.empty())
      return product;
    for (uint32_t i = 0; i < parts.size(); ++i)
      if (Status status = add(i); !status.ok())
        return status.withPrefix(fmt::format("part {}: ", i));
    TANDEM_RETURN_IF_ERROR(cover());
    if (hasPuts)
      product.whyNoTargets = findObstacle();
    else
      TANDEM_RETURN_IF_ERROR(checkApart());
    return product;
  }

private:
  using Kind = GatedPart::Kind;

  /// A matmul with elements.
  bool isPart(uint32_t i) const {
    return parts[i].kind == Kind::Matmul && parts[i].out.layout.numElements() > 0 &&
           parts[i].a.layout.numElements() > 0;
  }

  /// Puts and signals are right after what they are about.
  Status checkMessage(uint32_t i) const {
    const GatedPart *last = i > 0 ? &parts[i - 1] : nullptr;
    if (parts[i].kind == Kind::Put &&
        (!last || last->kind != Kind::Matmul || last->out != parts[i].a))
      return invalid("expected to send the output of a matmul right before it");
    if (parts[i].kind == Kind::Signal && (!last || last->kind != Kind::Put))
      return invalid("expected a put right before it");
    return Status();
  }

  Status add(uint32_t i) {
    if (parts[i].kind == Kind::WaitSignal)
      ++product.numGates;
    if (parts[i].kind == Kind::Put && isPart(i - 1))
      product.targets.back().put = i;
    if (parts[i].kind == Kind::Signal && isPart(i - 2))
      product.targets.back().signal = i;
    if (parts[i].kind != Kind::Matmul)
      return Status();
    if (!isPart(i))
      return Status();
    if (hasPuts)
      product.targets.push_back({i});
    return place(i);
  }

  /// The parts with the lowest addresses, and what must be alike.
  Status findFirst() {
    const GatedPart *first = nullptr;
    for (uint32_t i = 0; i < parts.size(); ++i) {
      if (!isPart(i))
        continue;
      const GatedPart &part = parts[i];
      if (!first) {
        first = &part;
        product.firstOut = product.firstA = product.firstB = i;
        continue;
      }
      if (part.transposeB != first->transposeB)
        return invalid("part {}: expected the flag transpose_b of the first matmul", i);
      for (auto view : {&GatedPart::out, &GatedPart::a, &GatedPart::b}) {
        // Each put has a place of its own; findOwn() looks at a.
        if (view == (hasPuts ? &GatedPart::out : &GatedPart::a))
          continue;
        const PlacedView &mine = part.*view, &theirs = first->*view;
        const char *name = view == &GatedPart::out ? "out" : view == &GatedPart::a ? "a" : "b";
        if (mine.buffer != theirs.buffer)
          return invalid("part {}: {}: expected the buffer of the first matmul", i, name);
        if (!isAlike(mine, theirs))
          return invalid(
              "part {}: {}: expected type and strides of the first matmul's {}, found {}", i, name,
              theirs.layout.str(), mine.layout.str());
      }
      auto lower = [&](uint32_t &at, PlacedView GatedPart::*view) {
        if ((part.*view).address < (parts[at].*view).address)
          at = i;
      };
      if (hasPuts)
        lower(product.firstA, &GatedPart::a);
      else
        lower(product.firstOut, &GatedPart::out);
      lower(product.firstB, &GatedPart::b);
    }
    // Puts are for any matmuls: then no kernel may be able to do it.
    auto cannot = [&](std::string why) -> Status {
      if (!hasPuts)
        return invalid("{}", why);
      product.whyNoTargets = std::move(why);
      return Status();
    };
    if (!first)
      return cannot("expected a matmul with elements, found none");
    product.transposeB = first->transposeB;
    product.out = first->out.layout;
    product.a = first->a.layout;
    product.b = first->b.layout;
    if (product.out.rank != 2 || product.a.rank != 2 || product.b.rank != 2)
      return invalid("expected operands of 2 dimensions, found out {}, a {}, b {}",
                     product.out.str(), product.a.str(), product.b.str());
    for (const Layout *layout : {&product.out, &product.a})
      if (layout->strides[1] != 1 || layout->strides[0] < layout->shape[1])
        return cannot(
            fmt::format("expected out and a with contiguous rows, found {}", layout->str()));
    return hasPuts ? Status() : findOwn();
  }

  /// Whether a part's A is in the matrix whose rows from `first` on are those of another part.
  bool liesWith(const GatedPart &part, const GatedPart &first) const {
    if (part.a.buffer != first.a.buffer || !isAlike(part.a, first.a))
      return false;
    int64_t stride = first.a.layout.strides[0], distance = offsetOf(part.a, first.a),
            rows = distance / stride - (distance % stride < 0 ? 1 : 0);
    return rows == rowOf(part) - rowOf(first);
  }

  /// Of the result.
  int64_t rowOf(const GatedPart &part) const {
    return offsetOf(part.out, parts[product.firstOut].out) / product.out.strides[0];
  }

  /// The rows of the first parts may be local, outside of A. Sets the parts where A begins.
  Status findOwn() {
    const uint32_t none = static_cast<uint32_t>(parts.size());
    uint32_t first = none;
    firstOther = none;
    for (uint32_t i = 0; i < parts.size(); ++i) {
      if (!isPart(i))
        continue;
      const PlacedView &a = parts[i].a;
      if (first == none)
        first = product.own.part = product.firstA = i;
      if (firstOther == none && !liesWith(parts[i], parts[first])) {
        firstOther = product.firstA = i;
        product.a = a.layout;
        if (a.layout.rank != 2 || a.layout.dtype != parts[first].a.layout.dtype)
          return invalid("part {}: a: expected 2 dimensions of type {}, found {}", i,
                         toString(parts[first].a.layout.dtype), a.layout.str());
        if (a.layout.strides[1] != 1 || a.layout.strides[0] < a.layout.shape[1])
          return invalid("part {}: a: expected contiguous rows, found {}", i, a.layout.str());
      }
      uint32_t &lowest = firstOther == none ? product.own.part : product.firstA;
      const PlacedView &other = parts[firstOther == none ? first : firstOther].a;
      if (a.buffer != other.buffer || !isAlike(a, other))
        return invalid("part {}: a: expected the buffer, type and strides of part {}", i,
                       firstOther);
      if (a.address < parts[lowest].a.address)
        lowest = i;
    }
    if (firstOther == none)
      product.firstA = product.own.part;
    product.rowOfFirstA = rowOf(parts[product.firstA]);
    return Status();
  }

  /// Whether a part's rows are local, and not among those that product.a describes.
  bool isOwn(uint32_t i) const { return !hasPuts && firstOther < parts.size() && i < firstOther; }

  /// Equal type and strides.
  static bool isAlike(const PlacedView &x, const PlacedView &y) {
    return x.layout.rank == y.layout.rank && x.layout.dtype == y.layout.dtype &&
           std::equal(x.layout.strides.begin(), x.layout.strides.begin() + x.layout.rank,
                      y.layout.strides.begin());
  }

  /// Elements between the start of the whole operand and a part.
  static int64_t offsetOf(const PlacedView &view, const PlacedView &first) {
    return static_cast<int64_t>(view.address - first.address) /
           static_cast<int64_t>(sizeOf(view.layout.dtype));
  }

  Status place(uint32_t i) {
    const GatedPart &part = parts[i];
    const GatedPart &first = parts[isOwn(i) ? product.own.part : product.firstA];
    int64_t strideA = first.a.layout.strides[0], strideOut = product.out.strides[0];
    int64_t inA = offsetOf(part.a, first.a),
            inOut = offsetOf(part.out, parts[product.firstOut].out),
            inB = offsetOf(part.b, parts[product.firstB].b);
    GatedBlock block{inA / strideA + (hasPuts ? 0 : rowOf(first)), part.out.layout.shape[0],
                     inA % strideA, part.a.layout.shape[1], product.numGates};
    // Also of hostile programs, without a product that overflows.
    if (!hasPuts && (inOut % strideOut != 0 || inOut / strideOut != block.firstRow))
      return invalid("out: expected row {}, as in a, found an offset of {} elements",
                     block.firstRow, inOut);
    int64_t strideK = product.b.strides[part.transposeB ? 1 : 0];
    if (strideK > 0 ? inB % strideK != 0 || inB / strideK != block.firstK
                    : inB != 0 || block.firstK != 0)
      return invalid("b: expected index {} of K, as in a, found an offset of {} elements",
                     block.firstK, inB);
    if (block.firstK + block.k > strideA)
      return invalid("a: expected a slice of rows of {} elements, found {} from {} on", strideA,
                     block.k, block.firstK);
    if (part.out.layout.shape[1] != product.out.shape[1])
      return invalid("out: expected {} columns, found {}", product.out.shape[1],
                     part.out.layout.shape[1]);
    const GatedBlock *last = product.blocks.empty() ? nullptr : &product.blocks.back();
    bool continues = part.accumulate && last && last->firstRow == block.firstRow;
    int64_t expected = continues ? last->firstK + last->k : 0;
    if (part.accumulate && !continues)
      return invalid("accumulates: expected a slice of the rows before it");
    if (continues && last->rows != block.rows)
      return invalid("expected {} rows, as in the slice before it, found {}", last->rows,
                     block.rows);
    if (block.firstK != expected)
      return invalid("expected K from {} on, found {}", expected, block.firstK);
    if (continues && i == firstOther)
      return invalid("a: expected all of K of rows in one place");
    if (isOwn(i))
      addOwn(block);
    product.blocks.push_back(block);
    return Status();
  }

  /// Adds rows to the local ones: for now from the first to the last.
  void addOwn(const GatedBlock &block) {
    GatedOwnRows &own = product.own;
    own.stride = parts[own.part].a.layout.strides[0];
    int64_t end = std::max(own.rows > 0 ? own.firstRow + own.rows : 0, block.firstRow + block.rows);
    own.firstRow = own.rows > 0 ? std::min(own.firstRow, block.firstRow) : block.firstRow;
    own.rows = end - own.firstRow;
    if (block.firstK == 0)
      ownRows += block.rows;
  }

  /// Whether the blocks cover the product once; its extents.
  Status cover() {
    std::vector<GatedBlock> rows; // the last slice of each
    for (const GatedBlock &block : product.blocks) {
      if (block.firstK == 0)
        rows.push_back(block);
      rows.back().k = block.firstK + block.k;
    }
    std::sort(rows.begin(), rows.end(),
              [](const GatedBlock &x, const GatedBlock &y) { return x.firstRow < y.firstRow; });
    int64_t next = 0, k = rows.front().k;
    for (const GatedBlock &block : rows) {
      if (block.firstRow != next)
        return invalid("expected rows that are computed once, without gaps: {} next, found {}",
                       next, block.firstRow);
      if (block.k != k)
        return invalid("expected rows with all of K, {}: found {} of row {}", k, block.k,
                       block.firstRow);
      next += block.rows;
    }
    if (product.own.rows != ownRows)
      return invalid("a: expected local rows to follow each other, found {} of {}", ownRows,
                     product.own.rows);
    product.out.shape[0] = product.a.shape[0] = next;
    product.a.shape[1] = k;
    product.b.shape[product.transposeB ? 1 : 0] = k;
    return Status();
  }

  /// A kernel computes blocks at the same time: no part may read what another one writes.
  Status checkApart() const {
    auto check = [&](const PlacedView &read, const Layout &layout, const char *name) {
      const PlacedView &out = parts[product.firstOut].out;
      if (read.buffer == out.buffer &&
          overlap(out.address, product.out, read.address, layout) != Overlap::None)
        return invalid("out: overlaps {}", name);
      return Status();
    };
    // Own rows between others count as read in both places.
    Layout others = product.a, own = product.a;
    others.shape[0] -= product.rowOfFirstA;
    own.shape[0] = product.own.rows;
    own.strides[0] = product.own.stride;
    TANDEM_RETURN_IF_ERROR(check(parts[product.firstA].a, others, "a"));
    if (product.own)
      TANDEM_RETURN_IF_ERROR(check(parts[product.own.part].a, own, "own rows of a"));
    return check(parts[product.firstB].b, product.b, "b");
  }

  const PlacedView &placeOf(const GatedTarget &target) const {
    return parts[target.put == GatedTarget::kNone ? target.matmul : target.put].out;
  }

  /// What keeps a kernel from storing the rows to their targets; empty: nothing. The kernel stores
  /// to all at the same time, so no two may be one place.
  std::string findObstacle() {
    const std::vector<GatedTarget> &targets = product.targets;
    if (product.numGates > 0)
      return "it waits for signals, and stores to peers";
    if (targets.size() > kMostGatedTargets)
      return fmt::format("it has {} targets, of at most {}", targets.size(), kMostGatedTargets);
    uint32_t matmuls = 0;
    for (const GatedPart &part : parts)
      matmuls += part.kind == Kind::Matmul;
    if (matmuls != targets.size())
      return "a matmul has no elements";
    const Layout first = placeOf(targets.front()).layout;
    if (first.strides[1] != 1 || first.strides[0] < first.shape[1])
      return fmt::format("expected targets with contiguous rows, found {}", first.str());
    for (size_t i = 0; i < targets.size(); ++i) {
      const GatedBlock &block = product.blocks[i];
      if (block.k != product.a.shape[1])
        return "it has slices of K";
      if (block.rows != product.blocks.front().rows || block.firstRow % block.rows != 0)
        return "its blocks have different numbers of rows";
      const Layout &layout = placeOf(targets[i]).layout;
      if (layout != first)
        return fmt::format("expected targets of one layout, {}, found {}", first.str(),
                           layout.str());
      if (std::string why = findObstacle(i); !why.empty())
        return why;
    }
    product.out.strides = first.strides;
    return "";
  }

  /// Of the messages of a target.
  std::string findObstacle(size_t number) const {
    const GatedTarget &target = product.targets[number];
    const GatedPart *put = target.put == GatedTarget::kNone ? nullptr : &parts[target.put];
    const GatedPart *signal = target.signal == GatedTarget::kNone ? nullptr : &parts[target.signal];
    if (put && put->toSelf)
      return "a put is to this rank";
    // The kernel computes blocks at the same time.
    for (const GatedPart &part : parts)
      if (!put && part.kind == Kind::Matmul &&
          (overlaps(parts[target.matmul].out, part.a) ||
           overlaps(parts[target.matmul].out, part.b)))
        return "a block is stored over what others read";
    if (put && signal && (signal->peer != put->peer || signal->channel != put->channel))
      return "a signal is not to the peer of the put before it";
    for (size_t i = 0; i < number; ++i) {
      const GatedTarget &other = product.targets[i];
      const GatedPart *earlier = other.put == GatedTarget::kNone ? nullptr : &parts[other.put];
      if (put && earlier && put->channel != earlier->channel)
        return "its puts use several channels";
      if (put ? earlier && put->peer == earlier->peer : !earlier)
        return put ? "two puts are to one peer" : "two blocks stay on this rank";
    }
    return "";
  }

  /// Whether bytes between the first and the last of both may be the same.
  static bool overlaps(const PlacedView &a, const PlacedView &b) {
    return a.buffer == b.buffer && a.address < b.address + b.layout.spanBytes() &&
           b.address < a.address + a.layout.spanBytes();
  }

  const std::vector<GatedPart> &parts;
  const bool hasPuts;
  uint32_t firstOther = ~uint32_t(0); ///< the first part after those with local rows, if any
  int64_t ownRows = 0;                ///< the rows of these
  GatedProduct product;
};

} // namespace

PlacedView placedView(const Program &program, uint32_t index) {
  const sp::View &view = *program.data().views()->Get(index);
  const sp::Buffer &buffer = *program.data().buffers()->Get(view.buffer());
  uint64_t space = static_cast<uint64_t>(buffer.space()) << 32;
  return PlacedView{buffer.space() == sp::Space::argument ? space | buffer.argument() : space,
                    buffer.offset() + view.offset(), program.layout(view.layout())};
}

std::vector<GatedPart> gatedParts(const Program &program, uint32_t head) {
  const sp::RankProgram &data = program.data();
  auto view = [&](const sp::Command &command, uint32_t operand) {
    return placedView(program, command.operands()->Get(operand));
  };
  std::vector<GatedPart> parts(data.commands()->Get(head)->aux());
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const sp::Command &command = *data.commands()->Get(head + 1 + i);
    GatedPart &part = parts[i];
    part.kind = static_cast<CommandKind>(command.kind());
    if (part.kind == GatedPart::Kind::Put || part.kind == GatedPart::Kind::Signal) {
      part.channel = command.channel();
      part.peer = command.peer();
      part.toSelf = part.peer == data.channels()->Get(part.channel)->self();
    }
    if (part.kind == GatedPart::Kind::WaitSignal || part.kind == GatedPart::Kind::Signal)
      continue;
    part.out = view(command, 0);
    part.a = view(command, 1);
    if (part.kind == GatedPart::Kind::Put)
      continue;
    part.transposeB = command.flags() & static_cast<uint8_t>(sp::CommandFlags::transpose_b);
    part.accumulate = command.flags() & static_cast<uint8_t>(sp::CommandFlags::accumulate);
    part.b = view(command, 2);
  }
  return parts;
}

Expected<GatedProduct> describeGated(const std::vector<GatedPart> &parts) {
  return Assembler(parts).run();
}

/// Whether all rows begin at multiples of what a kernel loads at once.
static bool hasAlignedRows(const PlacedView &view) {
  constexpr uint64_t kLoad = 16;
  uint64_t bits = view.address;
  for (unsigned d = 0; d < view.layout.rank; ++d)
    if (view.layout.shape[d] > 1 && view.layout.strides[d] > 1)
      bits |= static_cast<uint64_t>(view.layout.strides[d]) * sizeOf(view.layout.dtype);
  return bits % kLoad == 0;
}

std::string whyNoKernel(const Program &program, uint32_t head) {
  if (isFusedExchange(program.data().commands()->Get(head)->kind()))
    return whyNoKernel(stepsOf(program, head));
  std::vector<GatedPart> parts = gatedParts(program, head);
  Expected<GatedProduct> product = describeGated(parts);
  if (!product)
    return product.status().message();
  if (!product->whyNoTargets.empty())
    return product->whyNoTargets;
  if (program.index().deterministic() != sp::Determinism::none)
    return "a deterministic program adds in a given order";
  if (product->numGates > kMostGates)
    return fmt::format("it has {} gates, of at most {}", product->numGates, kMostGates);
  for (const GatedPart &part : parts) {
    if (part.kind != CommandKind::Matmul)
      continue;
    DType type = part.out.layout.dtype;
    if ((type != DType::F16 && type != DType::BF16) || part.a.layout.dtype != type)
      return "only products of f16 and of bf16 have gated kernels";
    if (part.out.layout.shape[1] % 8 != 0 || part.a.layout.shape[1] % 8 != 0 ||
        !hasAlignedRows(part.out) || !hasAlignedRows(part.a) || !hasAlignedRows(part.b))
      return "expected rows at multiples of 16 bytes";
  }
  int64_t first = product->own.firstRow, end = first + product->own.rows;
  bool isTiles = first % kOwnRowsUnit == 0 && (end % kOwnRowsUnit == 0 || end == product->m());
  return product->own && !isTiles ? "rows in another matrix are not whole tiles" : "";
}

} // namespace tandem::program
