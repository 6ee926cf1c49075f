//===- Compiler.cpp - the compiler, opened when it is used ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "tandem-c/Compiler.h"

#include <dlfcn.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

using namespace tandem::python;

namespace {

/// The functions of libtandem_compiler.so, by name.
class Library {
public:
  /// Opens it once; raises if it is not there.
  static const Library &get();

  decltype(&::tandem_compile) compile = nullptr;
  decltype(&::tandem_compilation_destroy) destroy = nullptr;
  decltype(&::tandem_compilation_ok) ok = nullptr;
  decltype(&::tandem_compilation_bytes) bytes = nullptr;
  decltype(&::tandem_compilation_loops) loops = nullptr;
  decltype(&::tandem_compilation_num_diagnostics) numDiagnostics = nullptr;
  decltype(&::tandem_compilation_diagnostic) diagnostic = nullptr;
  decltype(&::tandem_explain_program) explain = nullptr;
  decltype(&::tandem_check_program) check = nullptr;
  decltype(&::tandem_simulate_program) simulate = nullptr;
  decltype(&::tandem_choose_program) choose = nullptr;
  decltype(&::tandem_find_machine) findMachine = nullptr;
  decltype(&::tandem_round_up_extent) roundUp = nullptr;
  decltype(&::tandem_report_ok) reportOk = nullptr;
  decltype(&::tandem_report_get) reportGet = nullptr;
  decltype(&::tandem_report_destroy) reportDestroy = nullptr;

private:
  static void *open(std::string &error);
  template <typename Function>
  static bool find(void *library, Function &function, const char *name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }
};

/// Next to the runtime's library, else where the loader looks.
void *Library::open(std::string &error) {
  const std::string name = TANDEM_COMPILER_LIBRARY;
  Dl_info runtime;
  if (::dladdr(reinterpret_cast<void *>(&tandem_runtime_version), &runtime) && runtime.dli_fname) {
    std::string path = runtime.dli_fname;
    path = path.substr(0, path.rfind('/') + 1) + name;
    if (void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
    error = ::dlerror();
  }
  if (void *library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))
    return library;
  if (error.empty())
    error = ::dlerror();
  return nullptr;
}

const Library &Library::get() {
  static const Library *library = nullptr;
  if (library)
    return *library;
  std::string error;
  void *handle = open(error);
  if (!handle)
    raise(TANDEM_UNSUPPORTED, "the compiler is not installed, only the runtime, which loads .tsp "
                              "files (tandem.load): " +
                                  error);
  auto *made = new Library;
  if (!find(handle, made->compile, "tandem_compile") ||
      !find(handle, made->destroy, "tandem_compilation_destroy") ||
      !find(handle, made->ok, "tandem_compilation_ok") ||
      !find(handle, made->bytes, "tandem_compilation_bytes") ||
      !find(handle, made->loops, "tandem_compilation_loops") ||
      !find(handle, made->numDiagnostics, "tandem_compilation_num_diagnostics") ||
      !find(handle, made->diagnostic, "tandem_compilation_diagnostic") ||
      !find(handle, made->explain, "tandem_explain_program") ||
      !find(handle, made->check, "tandem_check_program") ||
      !find(handle, made->simulate, "tandem_simulate_program") ||
      !find(handle, made->choose, "tandem_choose_program") ||
      !find(handle, made->findMachine, "tandem_find_machine") ||
      !find(handle, made->roundUp, "tandem_round_up_extent") ||
      !find(handle, made->reportOk, "tandem_report_ok") ||
      !find(handle, made->reportGet, "tandem_report_get") ||
      !find(handle, made->reportDestroy, "tandem_report_destroy"))
    raise(TANDEM_UNSUPPORTED,
          std::string("the compiler's library is of another version: ") + ::dlerror());
  return *(library = made);
}

using Sizes = std::vector<std::pair<std::string, int64_t>>;
using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

const char *given(const std::string &text) { return text.empty() ? nullptr : text.c_str(); }

/// The options of one value, with the types that they have in Python.
nb::dict compileOptions() {
  nb::dict types;
#define TANDEM_OPTIONS_OF_C
#define TANDEM_OPTION_TEXT(field, member, stage, name, ...)                                        \
  types[name] = nb::borrow(reinterpret_cast<PyObject *>(&PyUnicode_Type));
#define TANDEM_OPTION_NUMBER(type, field, member, stage, name, ...)                                \
  types[name] = nb::borrow(reinterpret_cast<PyObject *>(&PyLong_Type));
#define TANDEM_OPTION_SWITCH(field, member, stage, name, ...)                                      \
  types[name] = nb::borrow(reinterpret_cast<PyObject *>(&PyBool_Type));
#define TANDEM_OPTION_OPT_OUT TANDEM_OPTION_SWITCH
#include "tandem-c/CompileOptions.def"
  return types;
}

/// The words of each choice, by the names of schedules.
nb::dict schedules() {
  nb::dict rows;
#define TANDEM_SCHEDULE(name, order, by, compute, sum)                                             \
  rows[#name] = std::vector<std::string>{#order, #by, #compute, #sum};
#include "tandem-c/Schedules.def"
  return rows;
}

/// (bytes or None, [(severity, message, file, line, column)], JSON of the loops). `chosen`: options
/// of one value, by name.
nb::object compile(const std::string &text, const std::string &name, const Sizes &mesh,
                   const Shapes &shapes, const nb::dict &chosen) {
  CallScope call;
  const Library &library = Library::get();
  std::vector<tandem_mesh_size> meshSizes;
  for (const auto &[axis, size] : mesh)
    meshSizes.push_back({sizeof(tandem_mesh_size), axis.c_str(), size});
  std::vector<tandem_argument_shape> argumentShapes;
  for (const auto &[argument, extents] : shapes)
    argumentShapes.push_back(
        {sizeof(tandem_argument_shape), argument.c_str(), extents.data(), extents.size()});
  tandem_compile_options options = {};
  options.struct_size = sizeof options;
  options.mesh = meshSizes.data();
  options.num_mesh = meshSizes.size();
  options.shapes = argumentShapes.data();
  options.num_shapes = argumentShapes.size();
#define TANDEM_OPTIONS_OF_C
#define TANDEM_OPTION_TEXT(field, member, stage, name, ...)                                        \
  std::string field;                                                                               \
  if (chosen.contains(name)) {                                                                     \
    field = nb::cast<std::string>(chosen[name]);                                                   \
    options.field = given(field);                                                                  \
  }
#define TANDEM_OPTION_NUMBER(type, field, member, stage, name, ...)                                \
  if (chosen.contains(name))                                                                       \
    options.field = nb::cast<type>(chosen[name]);
#define TANDEM_OPTION_SWITCH(field, member, stage, name, ...)                                      \
  if (chosen.contains(name))                                                                       \
    options.field = nb::cast<bool>(chosen[name]);
#define TANDEM_OPTION_OPT_OUT(field, member, stage, name, ...)                                     \
  if (chosen.contains(name))                                                                       \
    options.field = !nb::cast<bool>(chosen[name]);
#include "tandem-c/CompileOptions.def"

  tandem_compilation *compilation = nullptr;
  {
    nb::gil_scoped_release unlocked;
    compilation = library.compile(text.data(), text.size(), given(name), &options);
  }
  if (!compilation)
    raise(TANDEM_OUT_OF_MEMORY, "out of memory");
  std::unique_ptr<tandem_compilation, decltype(library.destroy)> owner(compilation,
                                                                       library.destroy);
  nb::list diagnostics;
  tandem_diagnostic one = {};
  one.struct_size = sizeof one;
  for (size_t i = 0; library.diagnostic(compilation, i, &one); ++i)
    diagnostics.append(nb::make_tuple(static_cast<int>(one.severity), one.message, one.file,
                                      one.line, one.column));
  nb::object bytes = nb::none();
  size_t size = 0;
  if (library.ok(compilation))
    if (const void *data = library.bytes(compilation, &size))
      bytes = nb::bytes(data, size);
  return nb::make_tuple(bytes, diagnostics, library.loops(compilation));
}

/// (ok, text, JSON or None, SVG or None) of what `make` returns, which runs without the lock.
template <typename Make> nb::object report(Make &&make) {
  CallScope call;
  const Library &library = Library::get();
  tandem_report *made = nullptr;
  {
    nb::gil_scoped_release unlocked;
    made = make(library);
  }
  if (!made)
    raise(TANDEM_OUT_OF_MEMORY, "out of memory");
  std::unique_ptr<tandem_report, decltype(library.reportDestroy)> owner(made,
                                                                        library.reportDestroy);
  auto form = [&](tandem_report_form which) {
    const char *text = library.reportGet(made, which);
    return text ? nb::object(nb::str(text)) : nb::none();
  };
  return nb::make_tuple(library.reportOk(made) != 0, form(TANDEM_REPORT_TEXT),
                        form(TANDEM_REPORT_JSON), form(TANDEM_REPORT_SVG));
}

nb::object explain(const nb::bytes &bytes) {
  return report(
      [&](const Library &library) { return library.explain(bytes.data(), bytes.size()); });
}

nb::object check(const nb::bytes &bytes, bool lint) {
  tandem_check_options options = {};
  options.struct_size = sizeof options;
  options.lint = lint ? 1 : 0;
  return report(
      [&](const Library &library) { return library.check(bytes.data(), bytes.size(), &options); });
}

nb::object simulate(const nb::bytes &bytes, const std::string &machine, bool graph) {
  tandem_simulate_options options = {};
  options.struct_size = sizeof options;
  options.machine = machine.c_str();
  options.no_graph = graph ? 0 : 1;
  return report([&](const Library &library) {
    return library.simulate(bytes.data(), bytes.size(), &options);
  });
}

size_t choose(const std::vector<nb::bytes> &programs, const std::string &machine) {
  std::vector<const void *> bytes;
  std::vector<size_t> sizes;
  for (const nb::bytes &program : programs) {
    bytes.push_back(program.data());
    sizes.push_back(program.size());
  }
  return Library::get().choose(bytes.data(), sizes.data(), bytes.size(), machine.c_str());
}

std::string findMachine(const std::string &gpu, uint32_t ranks) {
  char name[256];
  return Library::get().findMachine(gpu.c_str(), ranks, name, sizeof name);
}

int64_t roundUp(int64_t extent, int64_t unit) {
  tandem_family_options family = {};
  family.struct_size = sizeof family;
  family.unit = unit;
  return Library::get().roundUp(extent, &family);
}

} // namespace

void tandem::python::bindCompiler(nb::module_ &module) {
  module.def("compile_options", &compileOptions);
  module.def("schedules", &schedules);
  module.def("compile", &compile, nb::arg("text"), nb::arg("name"), nb::arg("mesh"),
             nb::arg("shapes"), nb::arg("options"));
  module.def("choose", &choose, nb::arg("programs"), nb::arg("machine"));
  module.def("find_machine", &findMachine, nb::arg("gpu"), nb::arg("ranks"));
  module.def("round_up", &roundUp, nb::arg("extent"), nb::arg("unit"));
  module.def("explain", &explain, nb::arg("bytes"));
  module.def("check", &check, nb::arg("bytes"), nb::arg("lint"));
  module.def("simulate", &simulate, nb::arg("bytes"), nb::arg("machine"), nb::arg("graph"));
}
