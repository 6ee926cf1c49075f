//===- VerifyKernels.cpp - checks of launches and calls ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VerifyOperands.h"

#include "tandem/Program/BuiltinKernels.h"

#include <algorithm>

namespace tandem::program {

/// The parallel dimensions of operand `k`, whose dims begin at `dim`: the first output adds its
/// `extents`, all outputs have them in this order.
static Status parallelDims(const sp::Kernel &kernel, uint32_t dim, const Layout &layout, uint32_t k,
                           uint32_t outputs, std::vector<int64_t> &extents) {
  size_t next = 0;
  for (unsigned d = 0; d < layout.rank; ++d) {
    const int8_t number = kernel.dims()->Get(dim + d);
    if (number < 0)
      continue;
    auto n = size_t{static_cast<uint8_t>(number)};
    if (k < outputs && n != next++)
      return invalid(", dimension {}: expected parallel dimension {}, found {}", d, next - 1, n);
    if (k == 0)
      extents.push_back(layout.shape[d]);
    else if (n >= extents.size() || extents[n] != layout.shape[d]) {
      return invalid(", dimension {}: {} indices of parallel dimension {}, which the output {}", d,
                     layout.shape[d], n,
                     n >= extents.size() ? std::string("lacks")
                                         : fmt::format("has {} of", extents[n]));
    }
  }
  if (k < outputs && next != extents.size())
    return invalid(": expected {} parallel dimensions, found {}", extents.size(), next);
  return Status();
}

/// What only calls have: `dims` of each operand, a kernel of the runtime, places.
static Status verifyCall(const ProgramImpl &program, const sp::Command &command,
                         const sp::Kernel &kernel, const std::vector<PlacedView> &operands) {
  const std::string_view name = kernel.name()->string_view();
  const uint32_t outputs = kernel.outputs();
  std::vector<Layout> layouts;
  std::vector<int64_t> extents; // of parallel dimensions
  uint32_t dim = 0;
  for (uint32_t k = 0; k < operands.size(); ++k) {
    std::string what = fmt::format("operand {}", k);
    const Layout &layout = operands[k].layout;
    layouts.push_back(layout);
    if (!kernel.strided() && !layout.isDense())
      return invalid("{}: kernel \"{}\" expects dense views, found {}", what, name, layout.str());
    if (layout.rank > sizeOfVector(kernel.dims()) - dim)
      return invalid("{}: kernel \"{}\" has dims of {} dimensions, found more", what, name,
                     sizeOfVector(kernel.dims()));
    TANDEM_RETURN_IF_ERROR(parallelDims(kernel, dim, layout, k, outputs, extents).withPrefix(what));
    dim += layout.rank;
  }
  if (dim != sizeOfVector(kernel.dims()))
    return invalid("operands: kernel \"{}\" has dims of {} dimensions, found {}", name,
                   sizeOfVector(kernel.dims()), dim);
  if (isBuiltin(name)) {
    if (name != kGroupedMatmul)
      return invalid("field aux: expected a kernel that the runtime has, found \"{}\"", name);
    std::string_view config = kernel.config() ? kernel.config()->string_view() : "";
    TANDEM_RETURN_IF_ERROR(describeGroupedMatmul(config, outputs, layouts)
                               .status()
                               .withPrefix(fmt::format("kernel \"{}\": ", name)));
  }
  for (uint32_t v = 0; v < sizeOfVector(kernel.varying()); ++v)
    if (kernel.varying()->Get(v) >= extents.size())
      return invalid("kernel \"{}\": varying parallel dimension {} of {}", name,
                     kernel.varying()->Get(v), extents.size());
  uint64_t places = sizeOfVector(program.table->call_places());
  if (command.value() > places || extents.size() > places - command.value())
    return invalid("field value: {} from {} of {} call_places", extents.size(), command.value(),
                   places);
  for (uint32_t n = 0; n < extents.size(); ++n) {
    const sp::CallPlace &place =
        *program.table->call_places()->Get(static_cast<uint32_t>(command.value()) + n);
    if (place.offset() < 0 || place.extent() < extents[n] ||
        place.offset() > place.extent() - extents[n])
      return invalid("parallel dimension {}: {} indices from {} on of {}", n, extents[n],
                     place.offset(), place.extent());
  }
  return Status();
}

Status verifyKernel(const ProgramImpl &program, const sp::Command &command) {
  const sp::RankProgram &table = *program.table;
  if (command.aux() >= sizeOfVector(table.kernels()))
    return invalid("field aux: kernel {} of {}", command.aux(), sizeOfVector(table.kernels()));
  const sp::Kernel &kernel = *table.kernels()->Get(command.aux());
  const std::string_view name = kernel.name()->string_view();
  bool isCall = command.kind() == sp::CommandKind::call;
  if (isCall != (kernel.format() == sp::KernelFormat::external))
    return invalid("field aux: kernel \"{}\" is {}", name, isCall ? "not external" : "external");
  uint32_t first = command.operands()->Get(0), count = command.operands()->Get(1);
  uint32_t all = sizeOfVector(table.launch_operands());
  if (first > all || count > all - first)
    return invalid("operands: {} from {} of {} launch_operands", count, first, all);
  // Of native code only this is known: how many operands there are, and which it writes.
  bool isExpression = kernel.format() == sp::KernelFormat::expression;
  const ExpressionTypes &types = program.expressions[command.aux()];
  const auto *declared = kernel.operand_types();
  uint32_t outputs = isExpression ? types.outputs : kernel.outputs();
  uint32_t expected = isExpression ? outputs + types.inputs : sizeOfVector(declared);
  if (expected == 0 && !isCall ? count < outputs : count != expected)
    return invalid("operands: kernel \"{}\" has {}, found {}", name, std::max(outputs, expected),
                   count);
  std::vector<PlacedView> operands;
  for (uint32_t k = 0; k < count; ++k) {
    operands.push_back(placedView(program, table.launch_operands()->Get(first + k)));
    std::string what = fmt::format("operand {}", k);
    DType dtype = operands[k].layout.dtype;
    if (sizeOfVector(declared) != 0 && dtype != static_cast<DType>(declared->Get(k)))
      return invalid("{}: kernel \"{}\" expects {}, found {}", what, name,
                     toString(static_cast<DType>(declared->Get(k))), toString(dtype));
    if (k < outputs)
      TANDEM_RETURN_IF_ERROR(checkWritten(program, operands[k], what));
    if (isExpression) {
      TANDEM_RETURN_IF_ERROR(checkShape(operands[0], operands[k], what));
      TANDEM_RETURN_IF_ERROR(checkAccess(types, k, dtype).withPrefix(what + ": "));
    }
    for (uint32_t out = 0; (isExpression || isCall) && out < outputs && out < k; ++out)
      TANDEM_RETURN_IF_ERROR(
          checkDisjoint(operands[out], operands[k], what, isExpression && k >= outputs));
  }
  return isCall ? verifyCall(program, command, kernel, operands) : Status();
}

} // namespace tandem::program
