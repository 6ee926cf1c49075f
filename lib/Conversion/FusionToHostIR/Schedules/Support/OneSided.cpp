//===- OneSided.cpp - puts and signals of a schedule ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneSided.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tandem;

OneSided::OneSided(ProgramBuilder &program, Location loc, MeshAttr mesh, ArrayRef<StringAttr> axes,
                   Value me, int64_t devices, int64_t sets)
    : program(program), loc(loc), me(me),
      channel(program.getChannel(mesh, axes, hostir::Capability::OneSided)), devices(devices),
      firstSignal(program.takeSignals(devices * sets)) {}

void OneSided::put(Value source, Value target, Value peer, Value stream) const {
  hostir::PutOp::create(program.getBuilder(), loc, source, target, peer, channel, stream);
}

Value OneSided::getSlot(Value device, int64_t set) const {
  Value first =
      arith::ConstantIndexOp::create(program.getBuilder(), loc, firstSignal + set * devices);
  return arith::AddIOp::create(program.getBuilder(), loc, device, first);
}

static Value getValue(OpBuilder &builder, Location loc, Value number) {
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  return arith::AddIOp::create(builder, loc, number, one);
}

void OneSided::signal(Value peer, Value number, Value stream, int64_t set) const {
  OpBuilder &builder = program.getBuilder();
  hostir::SignalOp::create(builder, loc, getSlot(me, set), getValue(builder, loc, number), peer,
                           channel, stream);
}

void OneSided::waitFor(Value from, Value number, Value stream, int64_t set) const {
  OpBuilder &builder = program.getBuilder();
  hostir::WaitSignalOp::create(builder, loc, getSlot(from, set), getValue(builder, loc, number),
                               channel, stream);
}
