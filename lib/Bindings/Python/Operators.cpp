//===- Operators.cpp - calls of the operators of tandem.torch ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All that a call does when its program is known: it reads the tensors, finds the program, makes
// the results in their final shapes and enqueues. Arguments are checked where a program is made,
// by Python: what has an equal key is right, too.
//
//===----------------------------------------------------------------------===//

#include "Programs.h"
#include "Recent.h"
#include "Torch.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <optional>
#include <string_view>

using namespace tandem::python;

namespace {

/// A program and how it is called.
struct Call {
  /// A function (rows, weights) -> results that runs in place of a program; or null.
  nb::object instead;
  nb::object program;
  std::shared_ptr<Prepared> prepared;
  std::vector<size_t> inputs; ///< numbers of tensors, in the program's order
  struct Result {
    nb::object shape; ///< a tuple; or the number of the tensor that gets the result
    bool isTransposed = false;
    int64_t given = -1; ///< that number
  };
  std::vector<Result> results;
  std::string text; ///< of all global shapes: what the ranks compare at each run
};

/// A group of ranks on one device.
struct Group {
  std::string name;
  int32_t device = -1; ///< the GPU's number; -1: the CPU
  nb::object group;    ///< torch's
  std::shared_ptr<RuntimeContext> context;
  nb::dict notes; ///< of Python
  Recent<std::shared_ptr<const Call>> calls;
};

/// The groups that operators were called with, and their programs.
class Groups {
public:
  Groups() = default;
  Groups(const Groups &) = delete;
  Groups &operator=(const Groups &) = delete;

  /// That of a name, on the device of `tensor`. Forgotten when another group has its name.
  std::shared_ptr<Group> get(nb::handle name, int32_t device, nb::handle tensor);

  size_t mostPrograms = kMostPrograms; ///< of a group on a device
  double prepareSeconds = 0;           ///< what it took so far to prepare programs

private:
  std::list<std::shared_ptr<Group>> groups;
};

std::shared_ptr<Group> Groups::get(nb::handle name, int32_t device, nb::handle tensor) {
  static PyObject *resolve = nullptr, *find = nullptr;
  Py_ssize_t size = 0;
  const char *text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
  if (!text)
    throw nb::python_error();
  std::string_view wanted(text, static_cast<size_t>(size));
  nb::object current =
      imported(resolve, "torch._C._distributed_c10d", "_resolve_process_group")(name);
  auto hasName = [&](const auto &one) { return one->device == device && one->name == wanted; };
  auto findOpen = [&]() -> std::shared_ptr<Group> {
    auto found = std::find_if(groups.begin(), groups.end(), hasName);
    bool isOpen =
        found != groups.end() && (*found)->group.is(current) && !(*found)->context->isClosed();
    return isOpen ? *found : nullptr;
  };
  if (std::shared_ptr<Group> found = findOpen())
    return found;
  // Closes the context of a group that had the name.
  auto context = nb::cast<std::shared_ptr<RuntimeContext>>(
      imported(find, "tandem.torch._groups", "_context")(name, tensor.attr("device"))[1]);
  if (std::shared_ptr<Group> found = findOpen()) // of another thread, meanwhile
    return found;
  auto last = takeOut(groups, hasName);
  auto group = std::make_shared<Group>();
  group->name = wanted;
  group->device = device;
  group->group = std::move(current);
  group->context = std::move(context);
  groups.push_back(group);
  return group;
}

/// An operator: finds or makes the program of a call, and runs it.
class Operator {
public:
  /// `prepare(group, numbers, rows, weights)` checks the arguments and compiles; group: (its name,
  /// context, a dict of its own). It returns (program, numbers of tensors in the order of its
  /// inputs, [(shape, is it the transpose)], the call as text): rows and weights are counted
  /// together, shapes are those of memory, and the text must be equal on all ranks. A number in
  /// place of a shape is that of a dense tensor, which gets the result. Or it returns a function
  /// (rows, weights) -> [result], which then is what a call does.
  Operator(std::shared_ptr<Groups> groups, nb::object prepare)
      : groups(std::move(groups)), prepare(std::move(prepare)), number(next++) {}

  /// `text`: the call of which this one is a part, or None; see Call::text.
  nb::object call(nb::handle name, nb::handle numbers, nb::handle rows, nb::handle weights,
                  nb::handle text);
  /// Is there a program? Does what a call does until it has found it.
  bool has(nb::handle name, nb::handle numbers, nb::handle rows, nb::handle weights) {
    CallScope scope;
    Tensors tensors(rows, weights);
    return find(*groups->get(name, tensors.device(), tensors.objects[0]), numbers, tensors) !=
           nullptr;
  }
  /// Compiles and prepares the program of a call, unless there is one. Collective, as the call is;
  /// only the shapes of the tensors matter.
  void prepareFor(nb::handle name, nb::handle numbers, nb::handle rows, nb::handle weights) {
    CallScope scope;
    Tensors tensors(rows, weights);
    std::shared_ptr<Group> group = groups->get(name, tensors.device(), tensors.objects[0]);
    ContextLock lock(*group->context);
    if (!find(*group, numbers, tensors))
      make(*group, name, numbers, tensors);
  }

private:
  /// The tensors of a call. Dense copies are kept of those that are neither dense nor, as weights,
  /// the transpose of a dense tensor.
  struct Tensors {
    Tensors(nb::handle rows, nb::handle weights) {
      add(rows, false);
      numRows = objects.size();
      add(weights, true);
      if (objects.empty())
        raiseArgument("expected at least one tensor, found none");
      for (const TorchTensor &one : read)
        if (one.device != device())
          raiseArgument("expected all tensors on one device, found " + nameOf(device()) + " and " +
                        nameOf(one.device));
    }
    void add(nb::handle given, bool isWeight);
    /// (rows, weights)
    std::pair<nb::list, nb::list> lists() const {
      std::pair<nb::list, nb::list> made;
      for (size_t i = 0; i < objects.size(); ++i)
        (i < numRows ? made.first : made.second).append(objects[i]);
      return made;
    }
    int32_t device() const { return read[0].device; }
    static std::string nameOf(int32_t device) {
      return device < 0 ? "cpu" : "cuda:" + std::to_string(device);
    }

    std::vector<nb::object> objects;
    std::vector<TorchTensor> read;
    size_t numRows = 0;
  };

  /// Null if there is none.
  std::shared_ptr<const Call> find(Group &group, nb::handle numbers, const Tensors &tensors);
  std::shared_ptr<const Call> make(Group &group, nb::handle name, nb::handle numbers,
                                   const Tensors &tensors);

  const std::shared_ptr<Groups> groups;
  const nb::object prepare;
  const int64_t number;
  std::vector<int64_t> key; ///< of the last `find`
  static int64_t next;
};

int64_t Operator::next = 0;

void Operator::Tensors::add(nb::handle given, bool isWeight) {
  size_t size = nb::len(given);
  for (size_t i = 0; i < size; ++i) {
    nb::object object = given[i];
    auto what = [&] { return (isWeight ? "weight " : "tensor ") + std::to_string(i); };
    TorchTensor tensor = readTorch(object, what);
    if (tensor.isNegative) {
      object = object.attr("resolve_neg")();
      tensor = readTorch(object, what);
    }
    if (tensor.layout == Layout::Other || (tensor.layout == Layout::Transposed && !isWeight)) {
      object = object.attr("contiguous")();
      tensor = readTorch(object, what);
    }
    objects.push_back(std::move(object));
    read.push_back(tensor);
  }
}

std::shared_ptr<const Call> Operator::find(Group &group, nb::handle numbers,
                                           const Tensors &tensors) {
  key.clear();
  key.push_back(number);
  Py_ssize_t count = NB_TUPLE_GET_SIZE(numbers.ptr());
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *one = NB_TUPLE_GET_ITEM(numbers.ptr(), i);
    key.push_back(one == Py_None ? INT64_MIN : PyLong_AsLongLong(one));
  }
  if (PyErr_Occurred())
    throw nb::python_error();
  key.push_back(static_cast<int64_t>(tensors.numRows));
  for (const TorchTensor &tensor : tensors.read) {
    key.push_back(static_cast<int64_t>(tensor.dtype) | static_cast<int64_t>(tensor.layout) << 8 |
                  static_cast<int64_t>(tensor.rank) << 16);
    key.insert(key.end(), tensor.shape, tensor.shape + tensor.rank);
  }
  std::shared_ptr<const Call> *call = group.calls.find(key);
  return call && ((*call)->instead.is_valid() || (*call)->prepared->instance) ? *call : nullptr;
}

std::shared_ptr<const Call> Operator::make(Group &group, nb::handle name, nb::handle numbers,
                                           const Tensors &tensors) {
  std::vector<int64_t> mine = key; // gradients may be computed in other threads meanwhile
  auto [rows, weights] = tensors.lists();
  nb::object made =
      prepare(nb::make_tuple(name, group.context, group.notes), numbers, rows, weights);
  auto kept = std::make_shared<Call>();
  Call &call = *kept;
  if (PyCallable_Check(made.ptr())) {
    call.instead = std::move(made);
    return group.calls.add(std::move(mine), std::move(kept), groups->mostPrograms);
  }
  call.program = made[0];
  for (nb::handle one : nb::borrow<nb::iterable>(made[1]))
    call.inputs.push_back(nb::cast<size_t>(one));
  for (nb::handle one : nb::borrow<nb::iterable>(made[2]))
    call.results.push_back({nb::borrow(one[0]), nb::cast<bool>(one[1]),
                            nb::isinstance<nb::int_>(one[0]) ? nb::cast<int64_t>(one[0]) : -1});
  call.text = nb::cast<std::string>(made[3]);
  auto begin = std::chrono::steady_clock::now();
  call.prepared = nb::cast<Program &>(call.program).prepare(group.context);
  groups->prepareSeconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (call.inputs.size() != call.prepared->numInputs ||
      call.results.size() != call.prepared->numResults)
    raiseArgument("expected as many tensors as the program has");
  return group.calls.add(std::move(mine), std::move(kept), groups->mostPrograms);
}

nb::object Operator::call(nb::handle name, nb::handle numbers, nb::handle rows, nb::handle weights,
                          nb::handle text) {
  CallScope scope;
  Tensors tensors(rows, weights);
  nb::handle like = tensors.objects[0];
  // Kept, should another thread's call forget them while this one makes results.
  std::shared_ptr<Group> group = groups->get(name, tensors.device(), like);
  std::shared_ptr<RuntimeContext> context = group->context;
  // Until the end, for other threads' gradients.
  std::optional<ContextLock> lock(std::in_place, *context);
  std::shared_ptr<const Call> kept = find(*group, numbers, tensors);
  if (!kept)
    kept = make(*group, name, numbers, tensors);
  const Call &call = *kept;
  if (call.instead.is_valid()) {
    lock.reset();
    auto [rows, weights] = tensors.lists();
    return call.instead(rows, weights);
  }
  const std::shared_ptr<Prepared> &prepared = call.prepared;

  static PyObject *newEmpty = PyUnicode_InternFromString("new_empty");
  static PyObject *transpose = PyUnicode_InternFromString("t");
  nb::list results;
  std::vector<void *> data;
  data.reserve(prepared->arguments.size());
  for (size_t i = 0; i < call.inputs.size(); ++i)
    data.push_back(prepared->arguments[i].present ? tensors.read[call.inputs[i]].data : nullptr);
  for (size_t i = 0; i < call.results.size(); ++i) {
    const Call::Result &one = call.results[i];
    const Argument &argument = prepared->arguments[call.inputs.size() + i];
    if (one.given >= 0) {
      data.push_back(argument.present ? tensors.read[one.given].data : nullptr);
      results.append(tensors.objects[one.given]);
      continue;
    }
    nb::object result = argument.dtype == tensors.read[0].dtype
                            ? like.attr(nb::handle(newEmpty))(one.shape)
                            : newTorch(like, argument.dtype, one.shape);
    data.push_back(argument.present ? dataOfTorch(result) : nullptr);
    if (one.isTransposed)
      result = result.attr(nb::handle(transpose))();
    results.append(std::move(result));
  }
  RunStream stream(*context, nb::none(), like);
  prepared->enqueue(data.data(), stream,
                    text.is_none() ? call.text.c_str()
                                   : PyUnicode_AsUTF8AndSize(text.ptr(), nullptr));
  return results;
}

} // namespace

void tandem::python::bindOperators(nb::module_ &module) {
  nb::class_<Groups>(module, "Groups")
      .def(nb::init<>())
      .def_rw("most_programs", &Groups::mostPrograms)
      .def_ro("prepare_seconds", &Groups::prepareSeconds);
  nb::class_<Operator>(module, "Operator")
      .def(nb::init<std::shared_ptr<Groups>, nb::object>(), nb::arg("groups"), nb::arg("prepare"))
      .def("__call__", &Operator::call, nb::arg("group"), nb::arg("numbers"), nb::arg("rows"),
           nb::arg("weights"), nb::arg("text").none() = nb::none())
      .def("has", &Operator::has)
      .def("prepare", &Operator::prepareFor);
}
