//===- CDevice.cpp - tandem-c/Device.h ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"

using namespace tandem;
using namespace tandem::capi;

/// The place of `bytes` bytes at `offset`.
static Expected<std::byte *> placeOf(const tandem_memory &memory, uint64_t offset, uint64_t bytes) {
  uint64_t size = memory.memory->size();
  if (offset <= size && bytes <= size - offset)
    return static_cast<std::byte *>(memory.memory->data()) + offset;
  return Status(
      Code::InvalidArgument,
      fmt::format("{} bytes at {} are not inside the {} bytes there", bytes, offset, size));
}

extern "C" {

tandem_code tandem_stream_create(tandem_context *context, tandem_stream **stream) {
  return guardedBy(context, [&]() -> Status {
    if (!stream)
      return missing("stream");
    TANDEM_ASSIGN_OR_RETURN(auto made,
                            context->state->context->device().createStream(StreamPriority::Normal));
    if (context->state->context->sharesMemory())
      made->shareWorkspace(0);
    *stream = new tandem_stream{context->state, std::move(made)};
    return Status();
  });
}

tandem_code tandem_stream_wrap(tandem_context *context, void *native, tandem_stream **stream) {
  return guardedBy(context, [&]() -> Status {
    if (!stream)
      return missing("stream");
    TANDEM_ASSIGN_OR_RETURN(auto made, context->state->context->device().wrapStream(native));
    if (context->state->context->sharesMemory())
      made->shareWorkspace(0);
    *stream = new tandem_stream{context->state, std::move(made)};
    return Status();
  });
}

tandem_code tandem_stream_synchronize(tandem_stream *stream) {
  return guardedBy(stream, [&] { return stream->stream->synchronize(); });
}

void tandem_stream_destroy(tandem_stream *stream) { destroy(stream); }

tandem_code tandem_memory_create(tandem_context *context, uint64_t bytes, tandem_memory **memory) {
  return guardedBy(context, [&]() -> Status {
    if (!memory)
      return missing("memory");
    TANDEM_ASSIGN_OR_RETURN(auto made,
                            context->state->context->device().allocate(bytes, MemoryKind::Plain));
    *memory = new tandem_memory{context->state, std::move(made)};
    return Status();
  });
}

void tandem_memory_destroy(tandem_memory *memory) { destroy(memory); }

void *tandem_memory_data(tandem_memory *memory) {
  return memory ? memory->memory->data() : nullptr;
}

tandem_code tandem_memory_write(tandem_memory *memory, uint64_t offset, const void *from,
                                uint64_t bytes) {
  return guardedBy(memory, [&]() -> Status {
    if (!from && bytes)
      return missing("from");
    TANDEM_ASSIGN_OR_RETURN(std::byte * to, placeOf(*memory, offset, bytes));
    return memory->context->context->device().upload(to, from, bytes);
  });
}

tandem_code tandem_memory_read(tandem_memory *memory, uint64_t offset, void *to, uint64_t bytes) {
  return guardedBy(memory, [&]() -> Status {
    if (!to && bytes)
      return missing("to");
    TANDEM_ASSIGN_OR_RETURN(std::byte * from, placeOf(*memory, offset, bytes));
    return memory->context->context->device().download(to, from, bytes);
  });
}

} // extern "C"
