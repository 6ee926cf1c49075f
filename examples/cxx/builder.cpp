//===- builder.cpp - builds and compiles a fusion ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/embedding.md shows the lines between the markers.
//
//===----------------------------------------------------------------------===//

#include <cstdio>
// [docs: names]
#include <tandem/Compiler/Builder/Compile.h>

namespace builder = tandem::builder;
using builder::didx, builder::DType, builder::none, builder::stream, builder::Value;
// [docs: end]

/// A layer of tensor parallelism: the rows of x are gathered behind the matmul.
static builder::Program compileLayer() {
  // [docs: build]
  builder::Mesh tp("tp", {{"x", 4}});
  builder::Fusion f("layer");
  Value x = f.input("x", DType::F32, {64, 32}, tp.axes({didx("x"), none()}));
  Value w = f.input("w", DType::F32, {32, 128}, tp.axes({none(), didx("x")}));
  Value h = f.matmul(x, w); // its shape is inferred: 64x128
  Value y = f.div(h, f.add(f.map("exp", {f.sub(0, h)}), 1));
  f.output("y", y, tp.axes({none(), didx("x")}));

  tandem_compile_options options = {};
  options.struct_size = sizeof options;
  options.target = "cpu-local";
  builder::Program program = builder::compile(f, &options);
  if (!program.ok)
    std::fprintf(stderr, "%s\n", program.errorText().c_str());
  // [docs: end]
  return program;
}

int main() {
  // Mistakes are values: of the builder, and of the compiler, both with the line of the call.
  builder::Mesh tp("tp", {{"x", 4}});
  builder::Fusion wrong("wrong");
  Value x = wrong.input("x", DType::F32, {64, 32});
  Value y = wrong.matmul(x, x);
  wrong.output("y", wrong.map("exp", {y})); // says nothing: y's mistake is known
  if (y.valid() || wrong.ok() || wrong.diagnostics().size() != 1)
    return 1;
  std::printf("%s\n", builder::compile(wrong).errorText().c_str());

  builder::Fusion partial("partial");
  x = partial.input("x", DType::F32, {64, 32}, tp.axes({none(), none()}, {"x"}));
  partial.output("y", partial.map("exp", {x}));
  builder::Program program = builder::compile(partial);
  if (!partial.ok() || program.ok || program.diagnostics.empty())
    return 1;
  std::printf("%s\n", program.diagnostics[0].str().c_str());

  program = compileLayer();
  if (!program.ok || program.bytes.empty())
    return 1;
  std::printf("compiled a layer\n");
}
