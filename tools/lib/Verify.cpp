//===- Verify.cpp - gathered results against the reference ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verify.h"

#include "Inputs.h"
#include "tandem/Program/CollectiveRoute.h"
#include "tandem/Program/Container.h"
#include "tandem/Program/stream_program_generated.h"
#include "tandem/Runtime/Context.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

using namespace tandem;
using namespace tandem::run;

static double reduceTerms(ReduceOp op, double a, double b) {
  switch (op) {
  case ReduceOp::Sum:
    return a + b;
  case ReduceOp::Max:
    return std::isnan(a) ? a : b > a || std::isnan(b) ? b : a;
  case ReduceOp::Min:
    return std::isnan(a) ? a : b < a || std::isnan(b) ? b : a;
  }
  return a;
}

Assembly::Assembly(const ArgumentInfo &info, const Placement &placement)
    : info(info), placement(placement), terms(info.terms, Tensor(info.dtype, info.shape)),
      held(info.terms, std::vector<uint8_t>(static_cast<size_t>(terms[0].numElements()))) {}

/// How many local elements lie together in the logical tensor, from any multiple of this on.
static int64_t runOf(const Shard &shard) {
  int64_t run = 1;
  size_t first = 0;
  // Only dimensions that the buffer has whole.
  std::vector<std::pair<size_t, size_t>> dims;
  shard.loops(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t product = 1;
    for (size_t loop = dims[d].first; loop < dims[d].second; ++loop)
      product *= shard.shape[loop];
    if (product != shard.local[d])
      first = dims[d].second;
  }
  for (size_t loop = shard.shape.size(); loop-- > first;) {
    if (shard.strides[loop] != run && shard.shape[loop] != 1)
      break;
    run *= shard.shape[loop];
  }
  return std::max<int64_t>(run, 1);
}

void Assembly::add(uint32_t rank, int64_t begin, int64_t count, const std::byte *from) {
  const Shard &shard = placement[rank];
  Tensor &whole = terms[shard.term];
  std::vector<uint8_t> &known = held[shard.term];
  size_t bytes = sizeOf(info.dtype);
  int64_t run = runOf(shard), differs = -1;
  for (int64_t local = begin, end = begin + count; local < end;) {
    int64_t length = std::min(run - local % run, end - local), logical = shard.logicalOf(local);
    for (int64_t i = 0; i < length;) {
      // Those that are known, or are not, together.
      auto *first = known.data() + logical + i;
      auto *last = static_cast<uint8_t *>(std::memchr(first, *first ? 0 : 1, length - i));
      int64_t same = last ? last - first : length - i;
      std::byte *to = whole.data.data() + (logical + i) * bytes;
      const std::byte *piece = from + (local - begin + i) * bytes;
      if (!*first)
        std::memcpy(to, piece, same * bytes);
      else if (differs < 0 && std::memcmp(to, piece, same * bytes) != 0)
        differs =
            logical + i + (std::mismatch(to, to + same * bytes, piece).first - to) / int64_t(bytes);
      std::memset(first, 1, same);
      i += same;
    }
    local += length;
  }
  if (differs >= 0 && problem.ok())
    problem = Status(Code::Internal,
                     fmt::format("argument \"{}\", index {}: rank {} holds another value than rank "
                                 "{}; replicas must be equal to the last bit",
                                 info.name, indexText(info.shape, differs), rank,
                                 rankOf(placement, differs, shard.term)));
}

Expected<Tensor> Assembly::finish() {
  TANDEM_RETURN_IF_ERROR(problem);
  size_t count = held[0].size();
  for (uint32_t term = 0; term < info.terms; ++term)
    for (size_t i = 0; i < count; ++i)
      if (!held[term][i])
        return Status(
            Code::InvalidProgram,
            fmt::format("argument \"{}\", index {}{}: no rank holds this element", info.name,
                        indexText(info.shape, static_cast<int64_t>(i)),
                        info.partial ? fmt::format(", term {} of {}", term, info.terms) : ""));
  if (info.partial)
    for (int64_t i = 0, e = static_cast<int64_t>(count); i < e; ++i) {
      double value = terms[0].get(i);
      for (uint32_t term = 1; term < info.terms; ++term)
        value = reduceTerms(info.partialOp, value, terms[term].get(i));
      terms[0].set(i, value);
    }
  return std::move(terms[0]);
}

static double toleranceOf(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return 1e-3;
  case DType::BF16:
    return 8e-3;
  case DType::F8E4M3FN:
    return 0.13;
  case DType::F8E5M2:
    return 0.25;
  case DType::F64:
    return 1e-12;
  default:
    return 1e-5;
  }
}

/// Of the sums of products of 8-bit floats: the tensor cores of Hopper keep 14 bits of each term.
static constexpr double kFp8Products = 5e-4;

Comparison run::compare(const Tensor &out, const Tensor &reference, const Path &path,
                        bool reducedWire) {
  Comparison result;
  result.exact = !path.computed || !isFloat(out.dtype);
  if (!result.exact) {
    result.tolerance = std::max(toleranceOf(out.dtype), toleranceOf(path.loosest));
    if (path.multipliesFp8)
      result.tolerance = std::max(result.tolerance, kFp8Products);
    result.tolerance *= reducedWire ? 2 : 1;
  }
  if (out.data == reference.data)
    return result;
  int64_t count = out.numElements(), firstDifferent = -1;
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; ++i) {
    double a = out.get(i), b = reference.get(i);
    difference += (a - b) * (a - b);
    norm += b * b;
    // Not the values: a poisoned element is a NaN on both sides at worst.
    if (firstDifferent < 0 && out.bits(i) != reference.bits(i))
      firstDifferent = i;
  }
  result.error = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  if (result.exact) {
    result.firstWrong = firstDifferent;
    return result;
  }
  // A NaN compares false with everything.
  if (result.error <= result.tolerance)
    return result;
  // The first that is wrong by itself, not by rounding; else the first that differs.
  double typical = std::sqrt(norm / static_cast<double>(count));
  result.firstWrong = firstDifferent;
  for (int64_t i = firstDifferent; i < count; ++i) {
    double off = std::fabs(out.get(i) - reference.get(i));
    if (!(off <= 4 * result.tolerance * (typical + std::fabs(reference.get(i))))) {
      result.firstWrong = i;
      break;
    }
  }
  return result;
}

static bool computes(const sp::Command &command) {
  auto kind = static_cast<CollectiveKind>(command.op());
  return program::infoOf(command.kind()).computes ||
         (command.kind() == sp::CommandKind::collective && program::isReduction(kind));
}

std::vector<Path> run::pathsToResults(const Program &program) {
  const sp::RankProgram &data = program.data();
  std::vector<Path> buffers(data.buffers()->size());
  for (const sp::Command *command : *data.commands()) {
    // What is written stands first, and is one view but for a kernel.
    std::vector<uint32_t> views(command->operands()->begin(), command->operands()->end());
    size_t written = 1;
    if (program::infoOf(command->kind()).takesList) {
      const auto *first = data.launch_operands()->data() + views[0];
      views.assign(first, first + views[1]);
      const sp::Kernel *kernel = data.kernels()->Get(command->aux());
      written = kernel->format() == sp::KernelFormat::expression
                    ? flatbuffers::GetRoot<sp::Expression>(kernel->code()->data())->outputs()
                    : kernel->outputs();
    }
    Path path;
    path.computed = computes(*command);
    auto merge = [&path](const Path &other) {
      path.computed |= other.computed;
      path.multipliesFp8 |= other.multipliesFp8;
      if (toleranceOf(other.loosest) > toleranceOf(path.loosest))
        path.loosest = other.loosest;
    };
    bool multiplies = command->kind() == sp::CommandKind::matmul;
    for (size_t i = 0; i < views.size(); ++i)
      if (views[i] != sp::kNoView) {
        const sp::View &view = *data.views()->Get(views[i]);
        DType dtype = program.layout(view.layout()).dtype;
        merge(buffers[view.buffer()]);
        // 8 bits are read as they are: inputs are the same in the reference.
        if (!isFp8(dtype) || (i < written && computes(*command)))
          merge({false, dtype});
        else if (multiplies)
          path.multipliesFp8 = true;
      }
    // A buffer is written piece by piece: what it was counts on, having been merged above.
    for (size_t i = 0; i < std::min(written, views.size()); ++i)
      if (views[i] != sp::kNoView)
        buffers[data.views()->Get(views[i])->buffer()] = path;
  }
  std::vector<Path> results;
  for (uint32_t i = 0; i < program.arguments().size(); ++i) {
    if (!program.arguments()[i].isResult)
      continue;
    Path path;
    path.loosest = program.arguments()[i].dtype;
    for (uint32_t b = 0; b < buffers.size(); ++b)
      if (data.buffers()->Get(b)->space() == sp::Space::argument &&
          data.buffers()->Get(b)->argument() == i)
        path = buffers[b];
    results.push_back(path);
  }
  return results;
}

Expected<std::vector<Tensor>> run::runReference(std::shared_ptr<const Program> reference,
                                                std::vector<Tensor> &inputs,
                                                const KernelList &kernels,
                                                std::optional<int64_t> extent) {
  ContextOptions options;
  options.device = createCpuDevice();
  options.bootstrap = createSelfBootstrap();
  options.timeout = std::chrono::hours(1);
  TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
  for (const tandem_kernel *kernel : kernels)
    TANDEM_RETURN_IF_ERROR(context->registerKernel(*kernel));
  TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(*context, reference));
  if (extent) {
    TANDEM_RETURN_IF_ERROR(instance->setExtent(*extent));
    reference = atExtent(reference, *extent);
  }
  std::vector<Tensor> results;
  const auto &arguments = reference->arguments();
  results.reserve(arguments.size());
  size_t nextInput = 0;
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isResult) {
      results.emplace_back(arguments[i].dtype, arguments[i].shape);
      poison(results.back());
    }
    Tensor &tensor = arguments[i].isResult ? results.back() : inputs[nextInput++];
    if (arguments[i].isMask)
      continue;
    TANDEM_RETURN_IF_ERROR(
        instance->bind(i, {tensor.data.data(), tensor.layout()}, tensor.data.size()));
  }
  TANDEM_RETURN_IF_ERROR(instance->run());
  return results;
}

int run::rankOf(const Placement &placement, int64_t element, std::optional<uint32_t> term) {
  for (size_t rank = 0; rank < placement.size(); ++rank) {
    bool held = false;
    if (term && placement[rank].term != *term)
      continue;
    placement[rank].forEach([&](int64_t, int64_t logical) { held |= logical == element; });
    if (held)
      return static_cast<int>(rank);
  }
  return -1;
}
