//===- Allocators.cpp - memory of torch -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch is not linked. The functions are of its C interface for compiled code
// (torch/csrc/inductor/aoti_torch/c/shim.h). They need no interpreter, so a runtime's thread that
// allocates never waits for the interpreter's lock.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include <atomic>
#include <dlfcn.h>
#include <nanobind/stl/string.h>
#include <system_error>
#include <thread>

using namespace tandem::python;

namespace {

/// The caching allocator of torch on one GPU. Memory is taken on a stream of its own: torch keeps
/// freed memory by stream, so none of it is in use by work of torch that is still queued.
class TorchAllocator {
public:
  TorchAllocator(int32_t device, const std::string &library) : device(device) {
    // Already in the process; RTLD_NOLOAD does not load another one.
    void *loaded = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!loaded)
      raise(TANDEM_UNSUPPORTED, library + " is not loaded");
    find(loaded, "aoti_torch_create_cuda_stream_guard", enter);
    find(loaded, "aoti_torch_delete_cuda_stream_guard", leave);
    find(loaded, "aoti_torch_cuda_caching_allocator_raw_alloc", take);
    find(loaded, "aoti_torch_cuda_caching_allocator_raw_delete", give);
    hooks.struct_size = sizeof hooks;
    hooks.allocate = allocate;
    hooks.deallocate = deallocate;
    hooks.user = this;
    // Peers map symmetric memory, which that of torch's allocator does not allow.
    hooks.leaves_symmetric = 1;
  }
  TorchAllocator(const TorchAllocator &) = delete;
  TorchAllocator &operator=(const TorchAllocator &) = delete;

  tandem_allocator hooks = {};
  std::atomic<uint64_t> bytes{0}; ///< allocated now

private:
  template <typename Function> static void find(void *library, const char *name, Function &to) {
    to = reinterpret_cast<Function>(dlsym(library, name));
    if (!to)
      raise(TANDEM_UNSUPPORTED, std::string("this version of torch has no ") + name);
  }

  /// On a thread of its own: torch directs what the caller's thread allocates to a pool of its own
  /// while it warms up for a graph (torch.compile(mode="reduce-overhead")).
  static void *allocate(void *user, uint64_t size, tandem_memory_kind) {
    auto *self = static_cast<TorchAllocator *>(user);
    void *memory = nullptr;
    try {
      std::thread([&] { memory = self->allocateHere(size); }).join();
    } catch (const std::system_error &) {
      memory = nullptr; // no thread
    }
    if (memory)
      self->bytes += size;
    return memory;
  }
  void *allocateHere(uint64_t size) const {
    void *guard = nullptr, *memory = nullptr;
    if (enter(kOwnStream, device, &guard) != 0)
      return nullptr;
    if (take(size, &memory) != 0)
      memory = nullptr;
    leave(guard);
    return memory;
  }
  static void deallocate(void *user, void *memory, uint64_t size, tandem_memory_kind) {
    auto *self = static_cast<TorchAllocator *>(user);
    self->give(memory);
    self->bytes -= size;
  }

  /// cudaStreamPerThread. Nothing runs on it; torch's own streams never have this handle.
  static inline void *const kOwnStream = reinterpret_cast<void *>(2);
  const int32_t device;
  int32_t (*enter)(void *stream, int32_t device, void **guard) = nullptr;
  int32_t (*leave)(void *guard) = nullptr;
  int32_t (*take)(uint64_t bytes, void **memory) = nullptr;
  int32_t (*give)(void *memory) = nullptr;
};

} // namespace

void tandem::python::bindAllocators(nb::module_ &module) {
  nb::class_<TorchAllocator>(module, "TorchAllocator",
                             "Memory of torch's caching allocator on a GPU, for "
                             "Context(allocator=...). Raises Unsupported if this torch\n"
                             "has no such functions.")
      .def(nb::init<int32_t, const std::string &>(), nb::arg("device"),
           nb::arg("library") = "libtorch_cuda.so")
      .def_prop_ro(
          "tandem_allocator",
          [](TorchAllocator &self) { return reinterpret_cast<uintptr_t>(&self.hooks); },
          "The address of its tandem_allocator.")
      .def_prop_ro(
          "bytes", [](TorchAllocator &self) { return self.bytes.load(); },
          "What contexts have of it now.");
}
