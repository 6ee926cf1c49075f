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
#include "llvm/ADT/TypeSwitch.h"

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
/// Attributes and types are unique in their context: there their addresses identify them.
class SignatureWriter {
public:
  explicit SignatureWriter(bool byContent) : byContent(byContent) {}

  void add(Operation &op) {
    add(op.getName().getIdentifier());
    for (NamedAttribute attribute : op.getAttrDictionary()) {
      if (isName(attribute.getName()))
        continue;
      add(attribute.getName());
      add(attribute.getValue());
    }
    add(op.getNumOperands());
    for (Value operand : op.getOperands()) {
      auto [known, isNew] = numbers.try_emplace(operand, numbers.size());
      add(known->second);
      if (isNew) // defined outside the op
        add(operand.getType());
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

  void add(uint64_t number) { text.append(reinterpret_cast<const char *>(&number), sizeof number); }
  void add(ArrayRef<int64_t> numbers) {
    add(numbers.size());
    for (int64_t number : numbers)
      add(number);
  }
  void add(StringRef word) {
    add(word.size());
    text += word;
  }

  void add(Type type) {
    if (!byContent)
      return add(reinterpret_cast<uintptr_t>(type.getAsOpaquePointer()));
    add(type.getAbstractType().getName());
    if (auto shaped = dyn_cast<ShapedType>(type))
      add(shaped.getShape());
    else if (auto integer = dyn_cast<IntegerType>(type))
      add(integer.getWidth());
    addParts(type);
  }

  /// By content, without what no cost depends on: floats and the elements of constants.
  void add(Attribute attribute) {
    if (!byContent)
      return add(reinterpret_cast<uintptr_t>(attribute.getAsOpaquePointer()));
    add(attribute.getAbstractAttribute().getName());
    llvm::TypeSwitch<Attribute>(attribute)
        .Case([&](StringAttr string) { add(string.getValue()); })
        .Case([&](IntegerAttr integer) { add(integer.getValue().getLimitedValue()); })
        .Case([&](mlir::DenseI64ArrayAttr array) { add(array.asArrayRef()); })
        .Case([&](ReduceKindAttr kind) { add(static_cast<uint64_t>(kind.getValue())); })
        .Case([&](MeshAttr mesh) {
          for (const MeshAxis &axis : mesh.getAxes()) {
            add(axis.name.getValue());
            add(axis.size);
          }
          add(mesh.getDevices());
        })
        .Case([&](fusion::DimAxesAttr dim) {
          for (const fusion::Digit &digit : dim.getDigits()) {
            add(static_cast<uint64_t>(digit.kind));
            add(digit.axis ? digit.axis.getValue() : "");
            add(digit.size);
          }
        })
        .Case([&](fusion::AxesAttr axes) { add(static_cast<uint64_t>(axes.getPartialKind())); })
        .Case([&](fusion::ScheduleAttr schedule) { add(schedule.getName()); });
    addParts(attribute);
  }

  /// The attributes and types of an attribute or type: an encoding, the dimensions of axes.
  template <typename T> void addParts(T whole) {
    whole.walkImmediateSubElements([&](Attribute part) { part ? add(part) : add(0); },
                                   [&](Type part) { add(part); });
  }

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
    add(value.getType());
  }

  bool byContent;
  llvm::DenseMap<Value, uint64_t> numbers;
};
} // namespace

std::string tandem::getSignature(Operation *op, bool byContent) {
  SignatureWriter writer(byContent);
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
