//===- Programs.h - calls of stream programs --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_BINDINGS_PYTHON_PROGRAMS_H
#define TANDEM_LIB_BINDINGS_PYTHON_PROGRAMS_H

#include "Bindings.h"

namespace tandem::python {

/// The keywords of a call, and its context: that of the thread if none is given.
struct CallOptions {
  explicit CallOptions(const nb::kwargs &keywords);
  nb::object out = nb::none(), stream = nb::none();
  std::shared_ptr<RuntimeContext> context;
};

/// The tensors that a call was given, and the stream on which it runs.
class Inputs {
public:
  /// Reads the tensors. `name(i)` names one in errors. None is kept as such.
  template <typename Name>
  Inputs(const nb::args &given, const CallOptions &options, const Name &name)
      : tensors(given.size()), stream(*options.context, options.stream, first(given)) {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!given[i].is_none())
        tensors[i].read(given[i], [&] { return name(i); }, *options.context, stream.number);
  }

  std::vector<Tensor> tensors; ///< without data where None was given
  RunStream stream;
  nb::handle like() const { return stream.like; }

private:
  static nb::handle first(const nb::args &given);
};

/// An input or result as one rank sees it.
struct Argument {
  std::string name;
  bool isResult = false, present = true;
  tandem_dtype dtype = TANDEM_F32;
  std::vector<int64_t> shape, localShape;
  nb::object localExtents; ///< `localShape` as a tuple
};

/// A program in one context: loaded, prepared, with its state.
class Prepared : public ContextPart {
public:
  enum class Upto { Loaded, Prepared };
  /// Collective, unless it is only loaded, for queries: then `instance` is null.
  Prepared(std::shared_ptr<RuntimeContext> context, const nb::bytes &bytes,
           Upto upto = Upto::Prepared);
  ~Prepared() override { close(); }
  void close() override;

  /// Runs with the inputs; returns the results.
  nb::object run(Inputs &inputs, nb::handle out);
  /// Runs with the memory of all arguments, which was checked.
  /// `call`: tandem_run_options.call.
  void enqueue(void **data, const RunStream &stream, const char *call = nullptr);
  /// Waits for the last run.
  void wait();
  std::string nameOf(size_t argument) const;
  /// Raises if it is not the memory that the argument needs.
  void check(size_t argument, const Tensor &tensor) const;
  void checkOpen() const;

  const std::shared_ptr<RuntimeContext> context;
  tandem_instance *instance = nullptr;
  tandem_program *program = nullptr;
  std::string name;
  std::vector<Argument> arguments; ///< inputs, then results
  size_t numInputs = 0, numResults = 0;
};

/// The base of tandem.Program.
class Program {
public:
  explicit Program(nb::bytes bytes) : bytes(std::move(bytes)) {}

  /// Collective when a context sees the program for the first time.
  std::shared_ptr<Prepared> prepare(const std::shared_ptr<RuntimeContext> &context);

  /// For queries: loaded in that context. Not collective.
  std::shared_ptr<Prepared> load(const std::shared_ptr<RuntimeContext> &context) const;

  /// Ends what `prepare` made; the next call in that context is collective again.
  void forget(const std::shared_ptr<Prepared> &one);

  const nb::bytes bytes;

private:
  std::list<std::shared_ptr<Prepared>> prepared;
};

} // namespace tandem::python

#endif // TANDEM_LIB_BINDINGS_PYTHON_PROGRAMS_H
