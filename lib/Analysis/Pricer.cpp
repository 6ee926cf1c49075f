//===- Pricer.cpp - the price of a candidate on a machine -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Pricer.h"

#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "llvm/ADT/DenseSet.h"

using namespace tandem;

Pricer::~Pricer() = default;

std::unique_ptr<Pricer> tandem::createPricer(MLIRContext *context, const Pricer::Options &options,
                                             std::string &error) {
  auto *dialect = context->getOrLoadDialect<fusion::FusionDialect>();
  const auto *interface = dialect->getRegisteredInterface<PricerInterface>();
  if (interface)
    return interface->create(options, error);
  error = "no cost model is registered: see registerTandemDialects";
  return nullptr;
}

namespace {
/// Attributes and types are unique in their context: their addresses identify them.
class SignatureWriter {
public:
  void add(Operation &op) {
    add(op.getName().getAsOpaquePointer());
    for (NamedAttribute attribute : op.getAttrDictionary()) {
      if (isName(attribute.getName()))
        continue;
      add(attribute.getName().getAsOpaquePointer());
      add(attribute.getValue().getAsOpaquePointer());
    }
    add(op.getNumOperands());
    for (Value operand : op.getOperands()) {
      auto [known, isNew] = numbers.try_emplace(operand, numbers.size());
      add(known->second);
      if (isNew) // defined outside the op
        add(operand.getType().getAsOpaquePointer());
    }
    add(op.getNumResults());
    for (Value result : op.getResults())
      define(result);
    for (Region &region : op.getRegions())
      add(region);
  }

  std::string text;

private:
  static bool isName(StringRef attribute) {
    return attribute == fusion::kNameAttrName || attribute == SymbolTable::getSymbolAttrName() ||
           attribute == "arg_attrs" || attribute == "res_attrs";
  }

  void add(const void *pointer) { add(reinterpret_cast<uintptr_t>(pointer)); }
  void add(uint64_t number) { text.append(reinterpret_cast<const char *>(&number), sizeof number); }

  void add(Region &region) {
    add(region.getBlocks().size());
    for (Block &block : region) {
      add(block.getNumArguments());
      for (BlockArgument argument : block.getArguments())
        define(argument);
      for (Operation &op : block)
        add(op);
    }
  }

  void define(Value value) {
    numbers.try_emplace(value, numbers.size());
    add(value.getType().getAsOpaquePointer());
  }

  llvm::DenseMap<Value, uint64_t> numbers;
};
} // namespace

std::string tandem::getSignature(Operation *op) {
  SignatureWriter writer;
  writer.add(*op);
  return std::move(writer.text);
}

int64_t tandem::getWorldSize(func::FuncOp func) {
  llvm::SmallDenseSet<MeshAttr> meshes;
  auto add = [&](TypeRange types) {
    for (Type type : types)
      if (fusion::AxesAttr axes = fusion::getAxes(type))
        meshes.insert(axes.getMesh());
  };
  add(func.getArgumentTypes());
  func.walk([&](Operation *op) { add(op->getResultTypes()); });
  int64_t size = 1;
  for (MeshAttr mesh : meshes)
    for (int64_t i = 0, e = mesh.numDevices(); i < e; ++i)
      size = std::max(size, mesh.worldRank(i) + 1);
  return size;
}
