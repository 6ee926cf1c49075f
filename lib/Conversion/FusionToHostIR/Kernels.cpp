//===- Kernels.cpp - kernels and their launches -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tandem;

hostir::KernelOp Emitter::createKernel(Location loc, StringRef name, TypeRange inputs, Type result,
                                       function_ref<Value(ValueRange)> compute) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(program);
  OperationState state(loc, hostir::KernelOp::getOperationName());
  auto &properties = state.getOrAddProperties<hostir::KernelOp::Properties>();
  properties.sym_name = builder.getStringAttr(program.getSymName() + "." + name);
  properties.sym_visibility = builder.getStringAttr("private");
  properties.function_type = TypeAttr::get(builder.getFunctionType(inputs, result));
  Block *body = new Block();
  state.addRegion()->push_back(body);
  auto kernel = cast<hostir::KernelOp>(builder.create(state));
  // The table makes the name unique.
  if (!symbols)
    symbols.emplace(program->getParentOp());
  symbols->insert(kernel);
  for (Type input : inputs)
    body->addArgument(input, loc);
  builder.setInsertionPointToStart(body);
  Value computed = compute(body->getArguments());
  hostir::YieldOp::create(builder, loc, computed);
  return kernel;
}

hostir::KernelOp Emitter::getCastKernel(Location loc, Type from, Type to) {
  std::string key;
  llvm::raw_string_ostream(key) << "cast " << from << "->" << to;
  hostir::KernelOp &kernel = kernels[key];
  if (kernel)
    return kernel;
  bool isWider = from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth();
  kernel = createKernel(loc, isWider ? "extf" : "truncf", from, to, [&](ValueRange inputs) {
    return isWider ? arith::ExtFOp::create(builder, loc, to, inputs.front()).getResult()
                   : arith::TruncFOp::create(builder, loc, to, inputs.front()).getResult();
  });
  return kernel;
}

void Emitter::emitLaunch(Location loc, hostir::KernelOp kernel, ValueRange inputs, Value output,
                         Value stream) {
  hostir::LaunchOp::create(builder, loc, FlatSymbolRefAttr::get(kernel.getSymNameAttr()), inputs,
                           ValueRange(output), stream);
}
