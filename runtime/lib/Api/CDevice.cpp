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

template <typename Made>
static Expected<std::unique_ptr<tandem_stream>> wrap(tandem_context *context, Made stream) {
  if (!stream)
    return stream.status();
  if (context->state->context->sharesMemory())
    (*stream)->shareWorkspace(0);
  return std::unique_ptr<tandem_stream>(new tandem_stream{context->state, std::move(*stream)});
}

extern "C" {

tandem_code tandem_stream_create(tandem_context *context, tandem_stream **stream) {
  return making(context, stream, [&] {
    return wrap(context, context->state->context->device().createStream(StreamPriority::Normal));
  });
}

tandem_code tandem_stream_wrap(tandem_context *context, void *native, tandem_stream **stream) {
  return making(context, stream, [&] {
    return wrap(context, context->state->context->device().wrapStream(native));
  });
}

tandem_code tandem_stream_synchronize(tandem_stream *stream) {
  return guardedBy(stream, [&] { return stream->stream->synchronize(); });
}

void tandem_stream_destroy(tandem_stream *stream) { destroy(stream); }

tandem_code tandem_memory_create(tandem_context *context, uint64_t bytes, tandem_memory **memory) {
  return making(context, memory, [&]() -> Expected<std::unique_ptr<tandem_memory>> {
    TANDEM_ASSIGN_OR_RETURN(auto made,
                            context->state->context->device().allocate(bytes, MemoryKind::Plain));
    return std::unique_ptr<tandem_memory>(new tandem_memory{context->state, std::move(made)});
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
