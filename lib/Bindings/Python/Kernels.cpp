//===- Kernels.cpp - kernels that Python registers --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include <nanobind/stl/string.h>

using namespace tandem::python;

namespace {

template <typename T> nb::tuple tupleOf(const T *values, int64_t count) {
  nb::list list;
  for (int64_t i = 0; i < count; ++i)
    list.append(values[i]);
  return nb::tuple(list);
}

} // namespace

/// Called on the thread of a stream (CPU) or of the caller (GPU), without the lock.
int PythonKernel::run(void *user, const tandem_kernel_call *call) {
  auto &self = *static_cast<PythonKernel *>(user);
  RuntimeContext::CallbackScope scope(self.context);
  try {
    nb::list operands;
    for (size_t k = 0; k < call->num_operands; ++k) {
      const tandem_kernel_operand &one = call->operands[k];
      operands.append(nb::make_tuple(reinterpret_cast<uintptr_t>(one.data),
                                     nameOf(static_cast<tandem_dtype>(one.dtype)),
                                     tupleOf(one.shape, one.rank), tupleOf(one.strides, one.rank),
                                     tupleOf(one.offset, one.rank), tupleOf(one.extent, one.rank)));
    }
    static PyObject *invoke = nullptr;
    imported(invoke, "tandem._kernels", "_invoke")(
        self.function, call->name, call->config, reinterpret_cast<uintptr_t>(call->stream),
        operands, call->num_results, self.context.isHost);
    return 0;
  } catch (nb::python_error &error) {
    self.context.keepRaised(error);
  }
  return 1;
}

void RuntimeContext::registerKernel(const std::string &name, nb::object function, nb::bytes image,
                                    const std::string &entry, uint32_t threads,
                                    uint32_t indicesPerBlock) {
  CallScope call;
  ContextLock lock(*this);
  tandem_kernel kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.name = name.c_str();
  if (!function.is_none()) {
    // Earlier ones stay: programs that are prepared may call them.
    kernels.push_back(std::make_unique<PythonKernel>(*this, std::move(function)));
    kernel.user = kernels.back().get();
    (isHost ? kernel.cpu_function : kernel.gpu_function) = PythonKernel::run;
  }
  if (image.size() > 0) {
    kernel.image = image.c_str();
    kernel.image_size = image.size();
    kernel.entry = entry.c_str();
    kernel.threads = threads;
    kernel.indices_per_block = indicesPerBlock;
  }
  check(tandem_register_kernel(get(), &kernel));
}

void tandem::python::bindKernels(nb::module_ &module) {
  module.def(
      "register_kernel",
      [](RuntimeContext &context, const std::string &name, nb::object function, nb::bytes image,
         const std::string &entry, uint32_t threads, uint32_t indicesPerBlock) {
        context.registerKernel(name, std::move(function), std::move(image), entry, threads,
                               indicesPerBlock);
      },
      nb::arg("context"), nb::arg("name"), nb::arg("function").none(), nb::arg("image"),
      nb::arg("entry"), nb::arg("threads"), nb::arg("indices_per_block"));
}
