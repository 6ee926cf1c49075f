//===- CProgram.cpp - tandem-c/Program.h ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"

#include "tandem/Program/NativeCode.h"
#include "tandem/Program/stream_program_generated.h"

using namespace tandem;
using namespace tandem::capi;

static_assert(TANDEM_SUM == static_cast<int>(ReduceOp::Sum) &&
              TANDEM_MAX == static_cast<int>(ReduceOp::Max) &&
              TANDEM_MIN == static_cast<int>(ReduceOp::Min));

namespace {

Expected<std::unique_ptr<tandem_program>> load(tandem_context *context,
                                               Expected<std::shared_ptr<const ProgramFile>> file) {
  if (!file)
    return file.status();
  const ContextRef &state = context->state;
  if (state->requiresProof)
    TANDEM_RETURN_IF_ERROR((*file)->requireProof());
  uint32_t rank = state->context->rank();
  TANDEM_ASSIGN_OR_RETURN(auto loaded, (*file)->rankProgram(rank));
  if (state->refusesNative)
    TANDEM_RETURN_IF_ERROR(refuseNativeCode(*loaded));
  auto made = std::make_unique<tandem_program>();
  made->context = state;
  made->file = std::move(*file);
  made->program = loaded;
  made->loaded[rank] = {loaded, shardsOf(*loaded)};
  return made;
}

Status checkIndex(const tandem_program &program, uint32_t index) {
  auto count = static_cast<uint32_t>(program.program->arguments().size());
  if (index < count)
    return Status();
  return Status(Code::InvalidArgument, fmt::format("@{}: no argument {}: the program has {}",
                                                   program.program->name(), index, count));
}

/// The program and shards of any rank; they live as long as `program`.
Expected<const tandem_program::Rank *> rankOf(const tandem_program &program, uint32_t rank) {
  std::lock_guard<std::mutex> lock(program.mutex);
  auto found = program.loaded.find(rank);
  if (found == program.loaded.end()) {
    const ProgramFile &file = *program.file;
    if (rank >= file.numRanks())
      return Status(Code::InvalidArgument, fmt::format("@{}: no rank {}: the program is for {}",
                                                       file.name(), rank, file.numRanks()));
    if (!file.hasRank(rank))
      return Status(Code::Unsupported,
                    fmt::format("@{}: the file does not hold rank {}", file.name(), rank));
    TANDEM_ASSIGN_OR_RETURN(auto loaded, file.rankProgram(rank));
    if (program.extent)
      loaded = atExtent(loaded, *program.extent);
    found = program.loaded.emplace(rank, tandem_program::Rank{loaded, shardsOf(*loaded)}).first;
  }
  return &found->second;
}

template <typename T> const T *dataOf(const std::vector<T> &vector) {
  return vector.empty() ? nullptr : vector.data();
}

} // namespace

extern "C" {

tandem_code tandem_program_load_file(tandem_context *context, const char *path,
                                     tandem_program **program) {
  return making(context, program, [&]() -> Expected<std::unique_ptr<tandem_program>> {
    if (!path)
      return missing("path");
    return load(context, ProgramFile::open(path));
  });
}

tandem_code tandem_program_load_memory(tandem_context *context, const void *bytes, size_t size,
                                       tandem_program **program) {
  return making(context, program, [&]() -> Expected<std::unique_ptr<tandem_program>> {
    if (!bytes)
      return missing("bytes");
    return load(context, ProgramFile::fromMemory({static_cast<const char *>(bytes), size}));
  });
}

void tandem_program_destroy(tandem_program *program) { destroy(program); }

const char *tandem_program_name(const tandem_program *program) {
  return program ? program->program->name().data() : ""; // FlatBuffers strings are null-terminated
}

uint32_t tandem_program_num_ranks(const tandem_program *program) {
  return program ? program->program->numRanks() : 0;
}

uint32_t tandem_program_num_arguments(const tandem_program *program) {
  return program ? static_cast<uint32_t>(program->program->arguments().size()) : 0;
}

int64_t tandem_program_bound(const tandem_program *program) {
  return program ? boundOf(*program->program).value_or(-1) : -1;
}

tandem_code tandem_program_at_extent(const tandem_program *program, int64_t extent,
                                     tandem_program **at) {
  using Made = Expected<std::unique_ptr<tandem_program>>;
  return making<InCallback::Allowed>(program, at, [&]() -> Made {
    std::optional<int64_t> bound = boundOf(*program->program);
    if (!bound)
      return Status(Code::InvalidArgument, "no extent of the program varies");
    if (extent < 0 || extent > *bound)
      return Status(Code::InvalidArgument,
                    fmt::format("expected an extent of 0 to {}, found {}", *bound, extent));
    auto made = std::make_unique<tandem_program>();
    made->context = program->context;
    made->file = program->file;
    made->program = atExtent(program->program, extent);
    made->extent = extent;
    return made;
  });
}

tandem_code tandem_program_argument(const tandem_program *program, uint32_t index,
                                    tandem_argument *argument) {
  return guardedBy<InCallback::Allowed>(program, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(checkIndex(*program, index));
    const ArgumentInfo &info = program->program->arguments()[index];
    tandem_argument result{};
    result.name = info.name.c_str();
    result.is_result = info.isResult;
    result.dtype = static_cast<tandem_dtype>(info.dtype);
    result.rank = static_cast<uint32_t>(info.shape.size());
    result.shape = dataOf(info.shape);
    result.axes = info.axes.c_str();
    result.mesh = info.mesh.c_str();
    result.partial = info.partial;
    result.partial_op = static_cast<tandem_reduction>(info.partialOp);
    result.num_terms = info.terms;
    result.present = info.present && !info.isMask;
    result.local_rank = static_cast<uint32_t>(info.localShape.size());
    result.local_shape = dataOf(info.localShape);
    result.local_bytes = info.present ? info.localBytes() : 0;
    return writeStruct(result, "tandem_argument", argument);
  });
}

tandem_code tandem_program_shard(const tandem_program *program, uint32_t argument, uint32_t rank,
                                 tandem_shard *shard) {
  return guardedBy<InCallback::Allowed>(program, [&]() -> Status {
    TANDEM_RETURN_IF_ERROR(checkIndex(*program, argument));
    TANDEM_ASSIGN_OR_RETURN(const tandem_program::Rank *of, rankOf(*program, rank));
    const Shard &piece = of->shards[argument];
    tandem_shard result{};
    result.present = piece.present;
    if (piece.present) {
      const ArgumentInfo &info = of->program->arguments()[argument];
      result.term = piece.term;
      result.offset = piece.offset;
      result.num_extents = static_cast<uint32_t>(piece.shape.size());
      result.extents = dataOf(piece.shape);
      result.strides = dataOf(piece.strides);
      result.local_rank = static_cast<uint32_t>(info.localShape.size());
      result.local_shape = dataOf(info.localShape);
    }
    return writeStruct(result, "tandem_shard", shard);
  });
}

tandem_code tandem_program_memory(const tandem_program *program, tandem_memory_needs *needs) {
  return guardedBy<InCallback::Allowed>(program, [&] {
    const Program &rank = *program->program;
    Context &context = *program->context->context;
    MemoryNeeds found = memoryNeeds(rank, context);
    tandem_memory_needs result{};
    result.arena_bytes = found.arena;
    result.symmetric_bytes = found.symmetric;
    result.own_bytes = found.own;
    // A graph is captured on streams of its own.
    bool twice = context.device().hasGraphs() && !context.sharesMemory();
    result.workspace_bytes = found.workspaces * context.device().workspaceBytes() * (twice ? 2 : 1);
    return writeStruct(result, "tandem_memory_needs", needs);
  });
}

} // extern "C"
