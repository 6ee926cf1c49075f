// RUN: not tandem-opt %s -fusion-specialize="mesh=x=0" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not tandem-opt %s -fusion-specialize="mesh=x" 2>&1 | FileCheck %s --check-prefix=NOSIZE
// RUN: not tandem-opt %s -fusion-specialize="mesh=x=99999999999" 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not tandem-opt %s -fusion-specialize="mesh=x=2 shape=arg0=8x" 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not tandem-opt %s -fusion-specialize="mesh=x=2 shape=arg0=8,arg0=9" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not tandem-opt %s -fusion-specialize="mesh=x=2 shape=arg0=8x8" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not tandem-opt %s -fusion-specialize="mesh=x=2 shape=arg0=8,b=8" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not tandem-opt %s -fusion-specialize="mesh=x=2 shape=arg0=8,y=8 entry=f" 2>&1 | FileCheck %s --check-prefix=OTHERS
// RUN: not tandem-opt %s -fusion-specialize="mesh=x=2 shape=arg0=8 entry=g" 2>&1 | FileCheck %s --check-prefix=ENTRY

// ZERO: expected 'axis=size' or 'mesh.axis=size' with a positive size in option 'mesh', found 'x=0'
// NOSIZE: expected 'axis=size' or 'mesh.axis=size' with a positive size in option 'mesh', found 'x'
// LARGE: expected 'axis=size' or 'mesh.axis=size' with a positive size in option 'mesh', found 'x=99999999999'
// SHAPE: expected 'argument=8x64' for distinct arguments in option 'shape', found 'arg0=8x'
// TWICE: expected 'argument=8x64' for distinct arguments in option 'shape', found 'arg0=9'
// RANK: options-invalid.mlir:[[#@LINE+6]]:14: error: argument 0: expected a shape of rank 1 from its given shape, found rank 2
// NAME: expected an argument (arg0, y) in option 'shape', found 'b': arguments are named by fusion.name, or by position, as arg0
// OTHERS: expected an argument (arg0) in option 'shape', found 'y'
// ENTRY: expected a function of that name with a body in option 'entry', found 'g'

#tp = #tandem.mesh<"tp", ["x" = ?]>
func.func @f(%0: tensor<?xf32, #fusion.axes<#tp, [didx("x")]>>) {
  return
}
func.func @other(%0: tensor<?xf32, #fusion.axes<#tp, [didx("x")]>>, %1: tensor<?xf32, #fusion.axes<#tp, [didx("x")]>> {fusion.name = "y"}) {
  return
}
