//===- LLVM.h - MLIR's and LLVM's names in namespace tandem -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes MLIR's names available without a prefix, as mlir/Support/LLVM.h does for LLVM's. Source
// files say `using namespace mlir`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_LLVM_H
#define TANDEM_SUPPORT_LLVM_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Support/LLVM.h"

namespace mlir {
class RewritePatternSet;
namespace arith {}
namespace func {}
namespace memref {}
namespace scf {}
} // namespace mlir

namespace tandem {

namespace arith = mlir::arith;
namespace func = mlir::func;
namespace memref = mlir::memref;
namespace scf = mlir::scf;

using mlir::AffineMap;
using mlir::AffineMapAttr;
using mlir::APFloat;
using mlir::ArrayAttr;
using mlir::ArrayRef;
using mlir::AsmParser;
using mlir::AsmPrinter;
using mlir::Attribute;
using mlir::BFloat16Type;
using mlir::Block;
using mlir::BlockArgument;
using mlir::Builder;
using mlir::cast;
using mlir::DenseMap;
using mlir::DenseSet;
using mlir::Diagnostic;
using mlir::DialectRegistry;
using mlir::DictionaryAttr;
using mlir::dyn_cast;
using mlir::dyn_cast_if_present;
using mlir::dyn_cast_or_null;
using mlir::emitError;
using mlir::failed;
using mlir::failure;
using mlir::FailureOr;
using mlir::FlatSymbolRefAttr;
using mlir::Float16Type;
using mlir::Float32Type;
using mlir::FloatAttr;
using mlir::FloatType;
using mlir::function_ref;
using mlir::FunctionType;
using mlir::IndexType;
using mlir::InFlightDiagnostic;
using mlir::IntegerAttr;
using mlir::IntegerType;
using mlir::IRMapping;
using mlir::isa;
using mlir::isa_and_present;
using mlir::Location;
using mlir::LogicalResult;
using mlir::MemRefLayoutAttrInterface;
using mlir::MemRefType;
using mlir::MLIRContext;
using mlir::ModuleOp;
using mlir::MutableArrayRef;
using mlir::NamedAttribute;
using mlir::NamedAttrList;
using mlir::OpAsmParser;
using mlir::OpAsmPrinter;
using mlir::OpBuilder;
using mlir::Operation;
using mlir::OperationState;
using mlir::OpFoldResult;
using mlir::OpOperand;
using mlir::OpPassManager;
using mlir::OpResult;
using mlir::OwningOpRef;
using mlir::ParseResult;
using mlir::Pass;
using mlir::PassInstrumentation;
using mlir::PassManager;
using mlir::RankedTensorType;
using mlir::raw_ostream;
using mlir::Region;
using mlir::RewritePatternSet;
using mlir::ScopedDiagnosticHandler;
using mlir::ShapedType;
using mlir::SmallPtrSet;
using mlir::SmallString;
using mlir::SmallVector;
using mlir::SmallVectorImpl;
using mlir::SMLoc;
using mlir::StringAttr;
using mlir::StringLiteral;
using mlir::StringRef;
using mlir::succeeded;
using mlir::success;
using mlir::SymbolTable;
using mlir::Twine;
using mlir::Type;
using mlir::TypeAttr;
using mlir::TypedAttr;
using mlir::TypeRange;
using mlir::TypeSwitch;
using mlir::UnitAttr;
using mlir::Value;
using mlir::ValueRange;
using mlir::WalkResult;

using mlir::FileLineColLoc;
using mlir::NameLoc;
using mlir::PassPipelineOptions;
using mlir::VectorType;
} // namespace tandem

#endif // TANDEM_SUPPORT_LLVM_H
