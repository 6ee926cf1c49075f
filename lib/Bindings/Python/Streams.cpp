//===- Streams.cpp - on which stream a call runs ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Torch.h"

#include <cstring>

using namespace tandem::python;

namespace {

/// The number of a stream object; nothing if it is none.
nb::object numberOf(nb::handle stream) {
  if (PyLong_Check(stream.ptr()))
    return nb::borrow(stream);
  if (nb::hasattr(stream, "__cuda_stream__")) // (version, number)
    return stream.attr("__cuda_stream__")()[1];
  if (nb::hasattr(stream, "cuda_stream")) // torch
    return stream.attr("cuda_stream");
  if (nb::hasattr(stream, "ptr")) // CuPy
    return stream.attr("ptr");
  return nb::none();
}

/// The current stream of a tensor's library on the context's GPU; None if the library has none.
nb::object currentStream(const RuntimeContext &context, nb::handle tensor) {
  if (isTorch(tensor))
    return currentTorchStream(context.gpu);
  nb::str module = nb::str(tensor.type().attr("__module__"));
  if (std::strncmp(module.c_str(), "cupy", 4) == 0)
    return nb::module_::import_("cupy").attr("cuda").attr("get_current_stream")().attr("ptr");
  return nb::none();
}

} // namespace

RunStream::RunStream(RuntimeContext &context, nb::handle given, nb::handle like) : like(like) {
  if (context.isHost) {
    if (!given.is_none())
      raiseArgument("stream: expected None, since the context's device is the CPU");
    return;
  }
  if (!given.is_none()) {
    number = numberOf(given);
    if (number.is_none())
      raiseArgument(std::string("stream: expected a number or an object with __cuda_stream__, "
                                "cuda_stream or ptr, found ") +
                    typeName(given));
  } else if (like.is_valid() && !like.is_none()) {
    number = currentStream(context, like);
  }
  isAwaited = number.is_none();
  void *native = nullptr; // the legacy default stream
  if (!isAwaited) {
    native = PyLong_AsVoidPtr(number.ptr());
    if (!native && PyErr_Occurred())
      throw nb::python_error();
  }
  handle = context.wrap(native);
  if (!native) // the array API calls the legacy default stream 1
    number = nb::int_(1);
}
