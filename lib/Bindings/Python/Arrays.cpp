//===- Arrays.cpp - results for libraries that cannot be asked --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays of JAX cannot be written, and of other libraries only DLPack is known. Their results are
// memory of Tandem, which the library takes over by DLPack.
//
//===----------------------------------------------------------------------===//

#include "Torch.h"

#include <algorithm>
#include <cstdlib>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>
#include <string>
#include <string_view>

using namespace tandem::python;

namespace {

struct Memory {
  ~Memory() {
    std::free(host);
    tandem_memory_destroy(device);
  }
  void *host = nullptr;
  tandem_memory *device = nullptr;
};

/// Dense memory with a dtype and shape.
class Array {
public:
  Array(const std::shared_ptr<RuntimeContext> &context, tandem_dtype dtype,
        const std::vector<int64_t> &shape, dlpack::Device place);
  /// The memory of `other` as elements of a dtype of that size.
  Array(const Array &other, tandem_dtype dtype)
      : dtype(dtype), shape(other.shape), place(other.place), data(other.data),
        memory(other.memory) {
    if (sizeOf(dtype) != sizeOf(other.dtype))
      raiseArgument("expected a dtype of as many bytes, found " + std::string(nameOf(dtype)));
  }

  nb::object toDlpack() const;
  /// Blocking: wait for runs first. Writes bytes again and again until the memory is full.
  void fill(RuntimeContext &context, const nb::bytes &from);
  nb::object read(RuntimeContext &context) const;
  uint64_t bytes() const {
    uint64_t bytes = sizeOf(dtype);
    for (int64_t extent : shape)
      bytes *= static_cast<uint64_t>(extent);
    return bytes;
  }
  std::string str() const { return "tandem.Array " + describe(dtype, shape); }

  const tandem_dtype dtype;
  const std::vector<int64_t> shape;
  const dlpack::Device place;
  void *data = nullptr;

private:
  std::shared_ptr<Memory> memory = std::make_shared<Memory>();
};

/// The content of a DLPack capsule.
struct Exported {
  dlpack::ManagedTensor managed = {};
  std::shared_ptr<Memory> memory;
  std::vector<int64_t> shape;
};

} // namespace

Array::Array(const std::shared_ptr<RuntimeContext> &context, tandem_dtype dtype,
             const std::vector<int64_t> &shape, dlpack::Device place)
    : dtype(dtype), shape(shape), place(place) {
  if (!context->isHost) {
    context->check(tandem_memory_create(context->get(), bytes(), &memory->device));
    data = tandem_memory_data(memory->device);
    return;
  }
  // XLA takes over memory of this alignment, and copies other memory.
  constexpr size_t kAlignment = 64;
  data = memory->host =
      std::aligned_alloc(kAlignment, (bytes() + kAlignment) / kAlignment * kAlignment);
  if (!data)
    raise(TANDEM_OUT_OF_MEMORY, "out of memory");
}

void Array::fill(RuntimeContext &context, const nb::bytes &from) {
  ContextLock lock(context);
  constexpr size_t kBlock = 1 << 22; // few copies, also of a short pattern
  std::string block(static_cast<const char *>(from.data()), from.size());
  while (!block.empty() && block.size() < std::min<uint64_t>(kBlock, bytes()))
    block += block;
  for (uint64_t at = 0, all = bytes(); at < all && !block.empty(); at += block.size()) {
    uint64_t count = std::min<uint64_t>(block.size(), all - at);
    if (memory->device)
      context.check(tandem_memory_write(memory->device, at, block.data(), count));
    else
      std::memcpy(static_cast<char *>(data) + at, block.data(), count);
  }
}

nb::object Array::read(RuntimeContext &context) const {
  ContextLock lock(context);
  nb::object to = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes())));
  if (!to.is_valid())
    throw nb::python_error();
  if (memory->device)
    context.check(tandem_memory_read(memory->device, 0, PyBytes_AsString(to.ptr()), bytes()));
  else
    std::memcpy(PyBytes_AsString(to.ptr()), data, bytes());
  return to;
}

nb::object Array::toDlpack() const {
  auto *exported = new Exported;
  exported->memory = memory;
  exported->shape = shape;
  dlpack::Tensor &tensor = exported->managed.tensor;
  tensor.data = data;
  tensor.device = place;
  tensor.rank = static_cast<int32_t>(shape.size());
  tensor.dtype = dlpackType(dtype);
  tensor.shape = exported->shape.data();
  exported->managed.manager = exported;
  exported->managed.deleter = [](dlpack::ManagedTensor *self) {
    delete static_cast<Exported *>(self->manager);
  };
  PyObject *capsule = PyCapsule_New(&exported->managed, "dltensor", [](PyObject *capsule) {
    if (auto *managed =
            PyCapsule_IsValid(capsule, "dltensor")
                ? static_cast<dlpack::ManagedTensor *>(PyCapsule_GetPointer(capsule, "dltensor"))
                : nullptr)
      managed->deleter(managed);
  });
  if (!capsule) {
    delete exported;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

/// Nothing (None) if the library's tensors cannot be written.
static nb::object newTensor(nb::handle like, tandem_dtype dtype, nb::handle extents) {
  static PyObject *make = nullptr;
  if (like.is_valid() && isTorch(like))
    return newTorch(like, dtype, extents);
  nb::object known = like.is_valid() ? nb::borrow(like) : nb::none();
  return imported(make, "tandem._frameworks", "make")(known, nameOf(dtype), extents);
}

nb::object tandem::python::makeTensor(const std::shared_ptr<RuntimeContext> &context,
                                      nb::handle like, tandem_dtype dtype,
                                      const std::vector<int64_t> &shape, nb::handle extents) {
  nb::object made = newTensor(like, dtype, extents);
  if (!made.is_none())
    return made;
  dlpack::Device place = {dlpack::kCpu, 0};
  if (!context->isHost) {
    nb::object device = like.attr("__dlpack_device__")(); // (type, number)
    place = {nb::cast<int32_t>(nb::int_(device[0])), nb::cast<int32_t>(nb::int_(device[1]))};
  }
  return nb::cast(std::make_shared<Array>(context, dtype, shape, place));
}

nb::object tandem::python::finishTensor(nb::handle like, nb::object made) {
  if (!nb::isinstance<Array>(made))
    return made;
  return nb::module_::import_("tandem._frameworks").attr("finish")(nb::borrow(like), made);
}

static tandem_dtype dtypeNamed(const char *name) {
  for (tandem_dtype one : {TANDEM_F32, TANDEM_F16, TANDEM_BF16, TANDEM_I32, TANDEM_F64, TANDEM_I64,
                           TANDEM_I8, TANDEM_I1, TANDEM_I16, TANDEM_F8E4M3FN, TANDEM_F8E5M2})
    if (std::string_view(name) == nameOf(one))
      return one;
  raiseArgument(std::string("expected the name of an element type, found \"") + name + '"');
}

void tandem::python::bindArrays(nb::module_ &module) {
  nb::class_<Array>(
      module, "Array",
      "A result for a library of which only DLPack is known: `library.from_dlpack(array)` takes it "
      "over without a copy.")
      .def("__dlpack__", [](const Array &array, const nb::kwargs &) { return array.toDlpack(); })
      .def("__dlpack_device__",
           [](const Array &array) { return nb::make_tuple(array.place.type, array.place.id); })
      .def_prop_ro("shape",
                   [](const Array &array) {
                     nb::list extents;
                     for (int64_t extent : array.shape)
                       extents.append(extent);
                     return nb::tuple(extents);
                   })
      .def_prop_ro("dtype", [](const Array &array) { return nameOf(array.dtype); })
      .def("view",
           [](const Array &array, const char *dtype) {
             return std::make_shared<Array>(array, dtypeNamed(dtype));
           })
      .def("fill", &Array::fill, nb::arg("context"), nb::arg("bytes"))
      .def("read", &Array::read, nb::arg("context"))
      .def("__repr__", &Array::str);
  module.def(
      "new_array",
      [](const std::shared_ptr<RuntimeContext> &context, const char *dtype,
         const std::vector<int64_t> &shape) {
        dlpack::Device place = {context->isHost ? dlpack::kCpu : dlpack::kCuda,
                                std::max(context->gpu, 0)};
        return std::make_shared<Array>(context, dtypeNamed(dtype), shape, place);
      },
      nb::arg("context"), nb::arg("dtype"), nb::arg("shape"),
      "An uninitialised array in memory of the context's device.");
  module.def(
      "new_tensor",
      [](nb::handle like, const char *dtype, const nb::tuple &shape) {
        return newTensor(like, dtypeNamed(dtype), shape);
      },
      nb::arg("like").none(), nb::arg("dtype"), nb::arg("shape"),
      "An uninitialised tensor of the library and device of `like` (None: of NumPy). None if the "
      "library's tensors cannot be written.");
}
