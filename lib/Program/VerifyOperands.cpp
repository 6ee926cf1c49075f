//===- VerifyOperands.cpp - types, shapes and aliasing of operands ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VerifyOperands.h"

#include "tandem/Program/CollectiveRoute.h"

#include <algorithm>

namespace tandem::program {

Status checkWritten(const ProgramImpl &program, const PlacedView &view, std::string_view what) {
  auto argument = static_cast<uint32_t>(view.buffer);
  if (view.buffer >> 32 == static_cast<uint64_t>(sp::Space::argument) &&
      !program.args[argument].isResult)
    return invalid("{}: writes to the input argument \"{}\"", what, program.args[argument].name);
  if (!isInjective(view.layout))
    return invalid("{}: {} writes elements more than once", what, view.layout.str());
  return Status();
}

Status checkDType(const PlacedView &a, const PlacedView &b, std::string_view what) {
  if (a.layout.dtype != b.layout.dtype)
    return invalid("{}: expected {}, found {}", what, toString(a.layout.dtype),
                   toString(b.layout.dtype));
  return Status();
}

Status checkShape(const PlacedView &a, const PlacedView &b, std::string_view what) {
  if (!a.layout.sameShape(b.layout))
    return invalid("{}: expected the shape of {}, found {}", what, a.layout.str(), b.layout.str());
  return Status();
}

Status checkDisjoint(const PlacedView &out, const PlacedView &in, std::string_view what,
                     bool orSame) {
  Overlap found = overlap(out, in);
  if (found == Overlap::Partial || (found == Overlap::Same && !orSame))
    return invalid("{}: overlaps the output", what);
  return Status();
}

static Status checkReducible(DType dtype, sp::ReduceOp op) {
  if (dtype == DType::I1 && op == sp::ReduceOp::sum)
    return invalid("field reduce_op: a sum of i1");
  if (!isReducible(dtype))
    return invalid("field reduce_op: a reduction of {}", toString(dtype));
  return Status();
}

Status verifyElementwise(const ProgramImpl &program, const sp::Command &command,
                         const Operands &refs) {
  TANDEM_RETURN_IF_ERROR(checkDType(*refs[0], *refs[1], "src"));
  TANDEM_RETURN_IF_ERROR(checkShape(*refs[0], *refs[1], "src"));
  TANDEM_RETURN_IF_ERROR(checkWritten(program, *refs[0], "dst"));
  if (command.kind() == sp::CommandKind::accumulate)
    TANDEM_RETURN_IF_ERROR(checkReducible(refs[0]->layout.dtype, command.reduce_op()));
  // A put to another rank writes there.
  if (command.kind() == sp::CommandKind::put &&
      command.peer() != program.table->channels()->Get(command.channel())->self())
    return Status();
  return checkDisjoint(*refs[0], *refs[1], "src", /*orSame=*/true);
}

Status verifyMatmul(const ProgramImpl &program, const sp::Command &command, const Operands &refs) {
  const Layout &out = refs[0]->layout, &a = refs[1]->layout, &b = refs[2]->layout;
  if (!isFloat(out.dtype) || isFp8(out.dtype))
    return invalid("out: a matmul of {}", toString(out.dtype));
  // The types differ then: `out` has one that factors can have.
  if (!isProductType(out.dtype, a.dtype))
    return checkDType(*refs[0], *refs[1], "a");
  if (!areFactors(a.dtype, b.dtype))
    return checkDType(*refs[1], *refs[2], "b");
  if (out.rank < 2 || a.rank < 2 || b.rank < 2)
    return invalid("expected at least 2 dimensions, found out {}, a {}, b {}", out.str(), a.str(),
                   b.str());
  bool ta = command.flags() & static_cast<uint8_t>(sp::CommandFlags::transpose_a);
  bool tb = command.flags() & static_cast<uint8_t>(sp::CommandFlags::transpose_b);
  int64_t m = a.shape[a.rank - (ta ? 1 : 2)], k = a.shape[a.rank - (ta ? 2 : 1)];
  int64_t kb = b.shape[b.rank - (tb ? 1 : 2)], n = b.shape[b.rank - (tb ? 2 : 1)];
  bool fits = k == kb && out.shape[out.rank - 2] == m && out.shape[out.rank - 1] == n &&
              out.rank == std::max(a.rank, b.rank);
  for (unsigned d = 2; fits && d < out.rank; ++d) {
    int64_t extentA = d < a.rank ? a.shape[a.rank - 1 - d] : 1;
    int64_t extentB = d < b.rank ? b.shape[b.rank - 1 - d] : 1;
    fits = (extentA == extentB || extentA == 1 || extentB == 1) &&
           out.shape[out.rank - 1 - d] == (extentA == 1 ? extentB : extentA);
  }
  if (!fits)
    return invalid("shapes do not fit: out {}, a {}{}, b {}{}", out.str(), a.str(),
                   ta ? " transposed" : "", b.str(), tb ? " transposed" : "");
  if (refs[3]) {
    DType type = refs[3]->layout.dtype;
    bool isNarrow = type == DType::F16 || type == DType::BF16;
    if (isFp8(a.dtype) ? type != out.dtype && !(isNarrow && out.dtype == DType::F32)
                       : type != out.dtype && type != a.dtype)
      return invalid("bias: expected {}, found {}", toString(out.dtype), toString(type));
    if (refs[3]->layout.rank > 1) {
      if (command.flags() & static_cast<uint8_t>(sp::CommandFlags::accumulate))
        return invalid("bias: expected no accumulate beside a bias of the output's shape");
      TANDEM_RETURN_IF_ERROR(checkDType(*refs[0], *refs[3], "bias"));
      TANDEM_RETURN_IF_ERROR(checkShape(*refs[0], *refs[3], "bias"));
    } else if (refs[3]->layout.rank != 1 || refs[3]->layout.shape[0] != n) {
      return invalid("bias: expected [{}], found {}", n, refs[3]->layout.str());
    }
  }
  TANDEM_RETURN_IF_ERROR(checkWritten(program, *refs[0], "out"));
  TANDEM_RETURN_IF_ERROR(checkDisjoint(*refs[0], *refs[1], "a"));
  TANDEM_RETURN_IF_ERROR(checkDisjoint(*refs[0], *refs[2], "b"));
  return refs[3] ? checkDisjoint(*refs[0], *refs[3], "bias") : Status();
}

Status verifyReduce(const ProgramImpl &program, const sp::Command &command, const Operands &refs) {
  const Layout &dst = refs[0]->layout, &src = refs[1]->layout;
  TANDEM_RETURN_IF_ERROR(checkReducible(src.dtype, command.reduce_op()));
  TANDEM_RETURN_IF_ERROR(checkDType(*refs[0], *refs[1], "src"));
  if (command.value() == 0 || (command.value() >> src.rank) != 0)
    return invalid("field value: dimensions {:#x} of {}", command.value(), src.str());
  unsigned d = 0;
  bool fits = true;
  for (unsigned s = 0; s < src.rank; ++s) {
    if (command.value() >> s & 1)
      continue;
    fits &= d < dst.rank && dst.shape[d] == src.shape[s];
    ++d;
  }
  if (!fits || d != dst.rank)
    return invalid("dst: {} is not {} without dimensions {:#x}", dst.str(), src.str(),
                   command.value());
  TANDEM_RETURN_IF_ERROR(checkWritten(program, *refs[0], "dst"));
  return checkDisjoint(*refs[0], *refs[1], "src");
}

/// The slice of rank `self`, of a stack of at least one.
static PlacedView sliceOf(const PlacedView &stack, uint32_t self) {
  PlacedView slice = stack;
  slice.layout = TensorView{nullptr, stack.layout}.slice(0).layout;
  slice.address +=
      uint64_t(self) * static_cast<uint64_t>(stack.layout.strides[0]) * sizeOf(stack.layout.dtype);
  return slice;
}

Status verifyCollective(const ProgramImpl &program, const sp::Command &command,
                        const Operands &refs) {
  if (command.op() > static_cast<uint8_t>(sp::CollectiveKind::scatter))
    return invalid("field op: unknown collective {}", command.op());
  auto kind = static_cast<CollectiveKind>(command.op());
  const sp::Channel &channel = *program.table->channels()->Get(command.channel());
  uint32_t size = channel.group()->size();
  if (isRooted(kind) && command.peer() >= size)
    return invalid("field peer: root {} of {}", command.peer(), size);
  bool isRoot = command.peer() == channel.self();
  bool stackIn = stacksIn(kind), stackOut = stacksOut(kind);
  bool needsIn = isRoot || !isFromRoot(kind);
  bool needsOut = isRoot || !isToRoot(kind);
  const auto &out = refs[0], &in = refs[1];
  if (needsOut && !out)
    return invalid("out: missing");
  if (needsIn && !in)
    return invalid("in: missing");
  if (needsOut)
    TANDEM_RETURN_IF_ERROR(checkWritten(program, *out, "out"));
  auto isStack = [&](const Layout &layout) {
    return layout.rank > 0 && static_cast<uint64_t>(layout.shape[0]) == size;
  };
  if (out && stackOut && !isStack(out->layout))
    return invalid("out: expected {} slices, found {}", size, out->layout.str());
  if (in && stackIn && !isStack(in->layout))
    return invalid("in: expected {} slices, found {}", size, in->layout.str());
  if (isReduction(kind) && in)
    TANDEM_RETURN_IF_ERROR(checkReducible(in->layout.dtype, command.reduce_op()));
  if (!out || !in)
    return Status();
  TANDEM_RETURN_IF_ERROR(checkDType(*out, *in, "in"));
  // In place means: `in` is exactly `out`, or its own slice of it (and the other way round).
  PlacedView own = stackOut && !stackIn ? sliceOf(*out, channel.self()) : *out;
  PlacedView ownIn = stackIn && !stackOut ? sliceOf(*in, channel.self()) : *in;
  if (!own.layout.sameShape(ownIn.layout))
    return invalid("shapes do not fit: out {}, in {}, group of {}", out->layout.str(),
                   in->layout.str(), size);
  if (overlap(*out, *in) != Overlap::None &&
      (kind == CollectiveKind::AllToAll || overlap(own, ownIn) != Overlap::Same))
    return invalid("in: overlaps the output");
  return Status();
}

} // namespace tandem::program
