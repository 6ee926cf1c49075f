//===- Programs.cpp - calls of stream programs ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <optional>
#include <string_view>
#include <utility>

using namespace tandem::python;

static std::shared_ptr<RuntimeContext> contextOrInit(std::shared_ptr<RuntimeContext> given) {
  if (!given)
    given = currentContext();
  if (!given)
    given = nb::cast<std::shared_ptr<RuntimeContext>>(
        nb::module_::import_("tandem._context").attr("_init_once")());
  return given;
}

CallOptions::CallOptions(const nb::kwargs &keywords) {
  for (auto [key, value] : keywords) {
    std::string_view word = nb::cast<const char *>(key);
    if (word == "out")
      out = nb::borrow(value);
    else if (word == "stream")
      stream = nb::borrow(value);
    else if (word != "context")
      throw nb::type_error(
          ("expected the keyword out, stream or context, found " + std::string(word)).c_str());
    else if (!value.is_none())
      context = castTo<std::shared_ptr<RuntimeContext>>(value, "context", "a Context");
  }
  context = contextOrInit(std::move(context));
  (void)context->get();
}

nb::handle Inputs::first(const nb::args &given) {
  for (nb::handle tensor : given)
    if (!tensor.is_none())
      return tensor;
  return {};
}

static nb::tuple toTuple(const int64_t *numbers, size_t count) {
  nb::list list;
  for (size_t i = 0; i < count; ++i)
    list.append(numbers[i]);
  return nb::tuple(list);
}

Prepared::Prepared(std::shared_ptr<RuntimeContext> given, const nb::bytes &bytes, Upto upto)
    : context(std::move(given)) {
  ContextLock lock(*context);
  tandem_context *handle = context->get();
  tandem_code code = TANDEM_OK;
  {
    nb::gil_scoped_release unlocked;
    code = tandem_program_load_memory(handle, bytes.data(), bytes.size(), &program);
    if (code == TANDEM_OK && upto == Upto::Prepared)
      code = tandem_prepare(handle, program, &instance);
  }
  if (code != TANDEM_OK) {
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
    to.localExtents = toTuple(to.localShape.data(), to.localShape.size());
    ++(to.isResult ? numResults : numInputs);
  }
}

void Prepared::close() {
  CallScope call(std::nothrow);
  std::optional<ContextLock> lock; // another thread's run may use the instance
  if (!context->isInCallback())    // where a finalizer may be what ends a program
    lock.emplace(*context);
  tandem_instance *lastInstance = std::exchange(instance, nullptr);
  if (tandem_program *lastProgram = std::exchange(program, nullptr); lastInstance || lastProgram)
    context->end(lastInstance, lastProgram);
}

std::string Prepared::nameOf(size_t argument) const {
  return name + ": argument " + std::to_string(argument) + " \"" + arguments[argument].name + "\"";
}

void Prepared::check(size_t index, const Tensor &tensor) const {
  const Argument &argument = arguments[index];
  bool fits = tensor.dtype == argument.dtype && tensor.rank == argument.localShape.size();
  for (uint32_t d = 0; fits && d < tensor.rank; ++d)
    fits = tensor.shape[d] == argument.localShape[d];
  if (!fits)
    raiseArgument(nameOf(index) + ": expected " + describe(argument.dtype, argument.localShape) +
                  ", found " + tensor.str());
  if (argument.isResult && tensor.isReadOnly)
    raiseArgument(nameOf(index) + ": expected memory that can be written");
}

void Prepared::enqueue(void **data, const RunStream &stream, const char *call) {
  ContextLock lock(*context); // until the error is read
  checkOpen();
  tandem_run_options options = {};
  options.struct_size = sizeof options;
  options.stream = stream.handle;
  options.data = data;
  options.call = call;
  tandem_code code = TANDEM_OK;
  {
    nb::gil_scoped_release unlocked;
    code = tandem_enqueue(instance, &options);
    if (code == TANDEM_OK && stream.isAwaited)
      code = tandem_wait(instance);
  }
  context->check(code);
}

void Prepared::wait() {
  ContextLock lock(*context);
  checkOpen();
  tandem_code code = TANDEM_OK;
  {
    nb::gil_scoped_release unlocked;
    code = tandem_wait(instance);
  }
  context->check(code);
}

void Prepared::checkOpen() const {
  (void)context->get();
  if (!instance)
    raiseArgument(name + ": expected a prepared program, found one that another thread has closed");
}

nb::object Prepared::run(Inputs &inputs, nb::handle out) {
  auto wrong = [&](const char *what, size_t expected, size_t found) {
    raiseArgument(name + ": " + what + "expected " + std::to_string(expected) + " tensors, found " +
                  std::to_string(found));
  };
  if (inputs.tensors.size() != numInputs)
    wrong("", numInputs, inputs.tensors.size());
  bool isSequence = PyTuple_Check(out.ptr()) || PyList_Check(out.ptr());
  if (size_t found = isSequence ? nb::len(out) : 1; !out.is_none() && found != numResults)
    wrong("out: ", numResults, found);

  std::vector<nb::object> results(numResults);
  std::vector<Tensor> resultTensors(numResults);
  std::vector<void *> data(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument &argument = arguments[i];
    Tensor &tensor = argument.isResult ? resultTensors[i - numInputs] : inputs.tensors[i];
    bool isGiven = !argument.isResult && tensor.isRead;
    if (argument.isResult) {
      nb::object &object = results[i - numInputs];
      if (out.is_none())
        object = argument.present ? makeTensor(context, inputs.like(), argument.dtype,
                                               argument.localShape, argument.localExtents)
                                  : nb::none();
      else
        object = isSequence ? nb::object(out[i - numInputs]) : nb::borrow(out);
      isGiven = !object.is_none();
      if (isGiven)
        tensor.read(object, [&] { return name + ": result"; }, *context, inputs.stream.number);
    }
    if (isGiven != argument.present)
      raiseArgument(nameOf(i) + (argument.present
                                     ? ": expected a tensor, found None"
                                     : ": expected None, since this rank holds no part of it"));
    if (!argument.present)
      continue;
    check(i, tensor);
    data[i] = tensor.data;
  }

  enqueue(data.data(), inputs.stream);
  if (out.is_none())
    for (nb::object &made : results)
      if (!made.is_none())
        made = finishTensor(inputs.like(), std::move(made));
  if (numResults == 1)
    return results[0];
  nb::list all;
  for (nb::object &result : results)
    all.append(std::move(result));
  return nb::tuple(all);
}

static std::shared_ptr<Prepared> find(const std::list<std::shared_ptr<Prepared>> &prepared,
                                      const std::shared_ptr<RuntimeContext> &context) {
  for (const std::shared_ptr<Prepared> &one : prepared)
    if (one->context == context && one->instance)
      return one;
  return nullptr;
}

std::shared_ptr<Prepared> Program::load(const std::shared_ptr<RuntimeContext> &context) const {
  if (std::shared_ptr<Prepared> found = find(prepared, context))
    return found;
  return std::make_shared<Prepared>(context, bytes, Prepared::Upto::Loaded);
}

std::shared_ptr<Prepared> Program::prepare(const std::shared_ptr<RuntimeContext> &context) {
  if (std::shared_ptr<Prepared> found = find(prepared, context))
    return found;
  ContextLock lock(*context);
  // Another thread may have prepared it meanwhile. A second time would be one collective call more
  // than the other ranks make.
  if (std::shared_ptr<Prepared> found = find(prepared, context))
    return found;
  auto made = std::make_shared<Prepared>(context, bytes);
  context->add(made);
  auto closed = takeOut(prepared, [](const auto &one) { return !one->instance; });
  prepared.push_back(made);
  return made;
}

void Program::forget(const std::shared_ptr<Prepared> &one) {
  auto last = takeOut(prepared, [&](const auto &other) { return other == one; });
  one->close();
}

/// (arena, symmetric, workspace), in bytes.
static nb::object describeMemory(const Prepared &prepared) {
  tandem_memory_needs needs = {};
  needs.struct_size = sizeof needs;
  prepared.context->check(tandem_program_memory(prepared.program, &needs));
  return nb::make_tuple(needs.arena_bytes + needs.own_bytes, needs.symmetric_bytes,
                        needs.workspace_bytes);
}

static nb::list describeArguments(const Prepared &prepared) {
  nb::list list;
  for (const Argument &argument : prepared.arguments)
    list.append(nb::make_tuple(argument.name, argument.isResult, argument.present,
                               nameOf(argument.dtype),
                               toTuple(argument.shape.data(), argument.shape.size()),
                               toTuple(argument.localShape.data(), argument.localShape.size())));
  return list;
}

/// (present, term, offset, extents, strides, local shape).
static nb::object describeShard(const Prepared &prepared, uint32_t argument, uint32_t rank) {
  tandem_shard shard = {};
  shard.struct_size = sizeof shard;
  prepared.context->check(tandem_program_shard(prepared.program, argument, rank, &shard));
  return nb::make_tuple(
      shard.present != 0, shard.term, shard.offset, toTuple(shard.extents, shard.num_extents),
      toTuple(shard.strides, shard.num_extents), toTuple(shard.local_shape, shard.local_rank));
}

void tandem::python::bindPrograms(nb::module_ &module) {
  nb::class_<Program>(module, "Program")
      .def(nb::init<nb::bytes>(), nb::arg("bytes"))
      .def_prop_ro("bytes", [](const Program &program) { return program.bytes; })
      .def("__call__",
           [](Program &program, const nb::args &tensors, const nb::kwargs &keywords) {
             CallScope call;
             CallOptions options(keywords);
             std::shared_ptr<Prepared> prepared = program.prepare(options.context);
             Inputs inputs(tensors, options, [&](size_t i) {
               return i < prepared->numInputs ? prepared->nameOf(i) : prepared->name;
             });
             return prepared->run(inputs, options.out);
           })
      .def(
          "prepare",
          [](Program &program, std::shared_ptr<RuntimeContext> context) {
            CallScope call;
            context = contextOrInit(std::move(context));
            // In a forked child what is prepared cannot be used, nor can it after a failure.
            context->check(tandem_context_health(context->get()));
            program.prepare(context);
          },
          nb::arg("context") = nb::none())
      .def(
          "wait",
          [](Program &program, std::shared_ptr<RuntimeContext> context) {
            CallScope call;
            program.prepare(contextOrInit(std::move(context)))->wait();
          },
          nb::arg("context") = nb::none())
      .def(
          "_memory",
          [](Program &program, std::shared_ptr<RuntimeContext> context) {
            CallScope call;
            return describeMemory(*program.load(contextOrInit(std::move(context))));
          },
          nb::arg("context").none())
      .def(
          "_shard",
          [](Program &program, uint32_t argument, uint32_t rank,
             std::shared_ptr<RuntimeContext> context) {
            CallScope call;
            return describeShard(*program.load(contextOrInit(std::move(context))), argument, rank);
          },
          nb::arg("argument"), nb::arg("rank"), nb::arg("context").none())
      .def(
          "_arguments",
          [](Program &program, std::shared_ptr<RuntimeContext> context) {
            CallScope call;
            return describeArguments(*program.load(contextOrInit(std::move(context))));
          },
          nb::arg("context") = nb::none());
}
