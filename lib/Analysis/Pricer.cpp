//===- Pricer.cpp - what a candidate would take on a machine ----*- C++ -*-===//
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
