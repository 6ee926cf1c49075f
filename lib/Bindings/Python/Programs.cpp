//===- Programs.cpp - calls of stream programs ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <utility>

using namespace tandem::python;

namespace {

struct Argument {
  std::string name;
  bool isResult = false, present = true;
  tandem_dtype dtype = TANDEM_F32;
  std::vector<int64_t> shape, localShape;
};

/// A program in one context: loaded, prepared, with its state.
class Prepared : public ContextPart {
public:
  /// Collective.
  Prepared(std::shared_ptr<RuntimeContext> context, const nb::bytes &bytes);
  ~Prepared() override { close(); }
  void close() override;

  const std::shared_ptr<RuntimeContext> context;
  tandem_instance *instance = nullptr;
  std::string name;
  std::vector<Argument> arguments; ///< inputs, then results

private:
  tandem_program *program = nullptr;
};

Prepared::Prepared(std::shared_ptr<RuntimeContext> given, const nb::bytes &bytes)
    : context(std::move(given)) {
  tandem_context *handle = context->get();
  tandem_code code = TANDEM_OK;
  {
    nb::gil_scoped_release unlocked;
    code = tandem_program_load_memory(handle, bytes.data(), bytes.size(), &program);
    if (code == TANDEM_OK)
      code = tandem_prepare(handle, program, &instance);
  }
  if (code != TANDEM_OK) {
    if (program)
      tandem_program_destroy(std::exchange(program, nullptr));
    context->check(code);
  }
  name = tandem_program_name(program);
  for (uint32_t i = 0; i < tandem_program_num_arguments(program); ++i) {
    tandem_argument from = {};
    from.struct_size = sizeof from;
    if (tandem_program_argument(program, i, &from) != TANDEM_OK)
      break;
    Argument &to = arguments.emplace_back();
    to.name = from.name;
    to.isResult = from.is_result != 0;
    to.present = from.present != 0;
    to.dtype = from.dtype;
    to.shape.assign(from.shape, from.shape + from.rank);
    to.localShape.assign(from.local_shape, from.local_shape + from.local_rank);
  }
}

void Prepared::close() {
  tandem_instance *lastInstance = std::exchange(instance, nullptr);
  tandem_program *lastProgram = std::exchange(program, nullptr);
  if (!lastInstance && !lastProgram)
    return;
  nb::gil_scoped_release unlocked;
  if (lastInstance)
    tandem_instance_destroy(lastInstance);
  if (lastProgram)
    tandem_program_destroy(lastProgram);
}

/// The base of tandem.Program.
class Program {
public:
  explicit Program(nb::bytes bytes) : bytes(std::move(bytes)) {}

  /// Collective when a context sees the program for the first time.
  Prepared &prepare(const std::shared_ptr<RuntimeContext> &context);
  nb::object call(const nb::args &tensors, const nb::kwargs &options);
  nb::list describeArguments(const std::shared_ptr<RuntimeContext> &context);

  const nb::bytes bytes;

private:
  nb::object run(Prepared &prepared, const nb::args &tensors, nb::handle out, nb::handle stream);

  std::vector<std::shared_ptr<Prepared>> prepared;
};

std::shared_ptr<RuntimeContext> contextOrRaise() {
  std::shared_ptr<RuntimeContext> context = currentContext();
  if (!context)
    return nb::cast<std::shared_ptr<RuntimeContext>>(
        nb::module_::import_("tandem._context").attr("init")());
  return context;
}

} // namespace

Prepared &Program::prepare(const std::shared_ptr<RuntimeContext> &context) {
  for (const std::shared_ptr<Prepared> &one : prepared)
    if (one->context == context)
      return *one;
  auto made = std::make_shared<Prepared>(context, bytes);
  context->add(made);
  // Those of closed contexts go.
  size_t kept = 0;
  for (std::shared_ptr<Prepared> &one : prepared)
    if (one->instance)
      prepared[kept++] = std::move(one);
  prepared.resize(kept);
  prepared.push_back(std::move(made));
  return *prepared.back();
}

nb::object Program::call(const nb::args &tensors, const nb::kwargs &options) {
  nb::object out = nb::none(), stream = nb::none();
  std::shared_ptr<RuntimeContext> context;
  for (auto [key, value] : options) {
    std::string word = nb::cast<std::string>(key);
    if (word == "out")
      out = nb::borrow(value);
    else if (word == "stream")
      stream = nb::borrow(value);
    else if (word == "context")
      context = nb::cast<std::shared_ptr<RuntimeContext>>(value);
    else
      throw nb::type_error(("expected the keyword out, stream or context, found " + word).c_str());
  }
  if (!context)
    context = contextOrRaise();
  std::shared_ptr<Prepared> keep;
  for (const std::shared_ptr<Prepared> &one : prepared)
    if (one->context == context && one->instance)
      keep = one;
  if (!keep) {
    prepare(context);
    keep = prepared.back();
  }
  return run(*keep, tensors, out, stream);
}

nb::object Program::run(Prepared &prepared, const nb::args &tensors, nb::handle out,
                        nb::handle stream) {
  RuntimeContext &context = *prepared.context;
  (void)context.get();
  size_t numInputs = 0, numResults = 0;
  for (const Argument &argument : prepared.arguments)
    ++(argument.isResult ? numResults : numInputs);
  if (tensors.size() != numInputs)
    raiseArgument(prepared.name + ": expected " + std::to_string(numInputs) + " tensors, found " +
                  std::to_string(tensors.size()));
  bool isSequence = PyTuple_Check(out.ptr()) || PyList_Check(out.ptr());
  if (!out.is_none() && (isSequence ? nb::len(out) : 1) != numResults)
    raiseArgument(prepared.name + ": out: expected " + std::to_string(numResults) +
                  " tensors, found " + std::to_string(isSequence ? nb::len(out) : 1));

  std::vector<Tensor> held(prepared.arguments.size());
  nb::object results = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(numResults)));
  nb::object like = nb::none();
  size_t input = 0, result = 0;
  for (size_t i = 0; i < prepared.arguments.size(); ++i) {
    const Argument &argument = prepared.arguments[i];
    auto where = [&] {
      return prepared.name + ": argument " + std::to_string(i) + " \"" + argument.name + "\"";
    };
    nb::object tensor;
    if (!argument.isResult)
      tensor = nb::borrow(tensors[input++]);
    else if (out.is_none())
      tensor =
          argument.present ? makeTensor(like, argument.dtype, argument.localShape) : nb::none();
    else
      tensor = isSequence ? nb::object(out[result]) : nb::borrow(out);
    if (argument.isResult)
      PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(result++),
                       nb::object(tensor).release().ptr());
    if (!argument.present) {
      if (!tensor.is_none())
        raiseArgument(where() + ": this rank holds no part of it: expected None");
      continue;
    }
    held[i].read(tensor, "argument", context.isHost, stream);
    const Tensor &view = held[i];
    if (!argument.isResult && like.is_none())
      like = tensor;
    bool fits = view.dtype == argument.dtype && view.rank == argument.localShape.size();
    for (uint32_t d = 0; fits && d < view.rank; ++d)
      fits = view.shape[d] == argument.localShape[d];
    if (!fits)
      raiseArgument(where() + ": expected " + describe(argument.dtype, argument.localShape) +
                    ", found " + view.str());
    if (argument.isResult && view.isReadOnly)
      raiseArgument(where() + ": expected memory that can be written");
    context.check(tandem_bind(prepared.instance, static_cast<uint32_t>(i), view.data, view.bytes,
                              view.dtype, view.rank, view.shape));
  }
  tandem_code code = TANDEM_OK;
  {
    nb::gil_scoped_release unlocked;
    code = tandem_run(prepared.instance);
  }
  context.check(code);
  if (numResults == 1)
    return nb::borrow(PyTuple_GET_ITEM(results.ptr(), 0));
  return results;
}

nb::list Program::describeArguments(const std::shared_ptr<RuntimeContext> &context) {
  nb::list list;
  for (const Argument &argument : prepare(context).arguments) {
    nb::list shape, local;
    for (int64_t extent : argument.shape)
      shape.append(extent);
    for (int64_t extent : argument.localShape)
      local.append(extent);
    list.append(nb::make_tuple(argument.name, argument.isResult, argument.present,
                               nameOf(argument.dtype), nb::tuple(shape), nb::tuple(local)));
  }
  return list;
}

void tandem::python::bindPrograms(nb::module_ &module) {
  nb::class_<Program>(module, "Program")
      .def(nb::init<nb::bytes>(), nb::arg("bytes"))
      .def_prop_ro("bytes", [](const Program &program) { return program.bytes; })
      .def("__call__", &Program::call)
      .def(
          "prepare",
          [](Program &program, std::shared_ptr<RuntimeContext> context) {
            program.prepare(context ? context : contextOrRaise());
          },
          nb::arg("context") = nb::none())
      .def(
          "_arguments",
          [](Program &program, std::shared_ptr<RuntimeContext> context) {
            return program.describeArguments(context ? context : contextOrRaise());
          },
          nb::arg("context") = nb::none());
}
