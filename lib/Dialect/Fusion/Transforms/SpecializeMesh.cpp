//===- SpecializeMesh.cpp - mesh sizes become numbers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SpecializeMesh.h"

#include "Retype.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {
/// `axis=size` or `mesh.axis=size`.
struct SizeOption {
  StringRef mesh; // empty: every mesh
  StringRef axis;
  int64_t size;
  bool used = false;
  bool fits(MeshAttr m, StringAttr a) const {
    return a.getValue() == axis && (mesh.empty() || m.getName().getValue() == mesh);
  }
};
} // namespace

static FailureOr<SizeOption> parseOption(ModuleOp module, StringRef text) {
  auto [name, size] = text.split('=');
  SizeOption option{{}, name, 0};
  if (name.contains('.'))
    std::tie(option.mesh, option.axis) = name.split('.');
  // No mesh can have more devices.
  if (option.axis.empty() || size.getAsInteger(10, option.size) || option.size < 1 ||
      option.size > std::numeric_limits<int32_t>::max())
    return module.emitError() << "expected 'axis=size' or 'mesh.axis=size' with a positive size in "
                                 "option 'mesh', found '"
                              << text << "'";
  return option;
}

/// Calls `fn` on every mesh named by an operation, type or attribute of the module, with the
/// location of the operation or argument.
static void walkMeshes(ModuleOp module, function_ref<WalkResult(MeshAttr, Location)> fn) {
  AttrTypeWalker walker;
  Location place = module.getLoc();
  walker.addWalk([&](MeshAttr mesh) { return fn(mesh, place); });
  module.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
    place = op->getLoc();
    if (walker.walk(op->getAttrDictionary()).wasInterrupted())
      return WalkResult::interrupt();
    for (Type type : op->getResultTypes())
      if (walker.walk(type).wasInterrupted())
        return WalkResult::interrupt();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Type type : block.getArgumentTypes())
          if (walker.walk(type).wasInterrupted())
            return WalkResult::interrupt();
    return WalkResult::advance();
  });
}

/// The mesh with the sizes that the options give its axes, which are then used; null after an error
/// at `place`. A mesh that was open gets the list of devices, if it has as many.
static MeshAttr resizeMesh(MeshAttr mesh, MutableArrayRef<SizeOption> sizes,
                           ArrayRef<int64_t> devices, Location place) {
  auto isOpen = [](const MeshAxis &axis) { return ShapedType::isDynamic(axis.size); };
  SmallVector<MeshAxis> axes(mesh.getAxes());
  bool fits = !devices.empty() && llvm::any_of(axes, isOpen);
  for (MeshAxis &axis : axes)
    for (SizeOption &option : sizes) {
      if (!option.fits(mesh, axis.name))
        continue;
      option.used = true;
      if (!isOpen(axis) && axis.size != option.size) {
        emitError(place) << "expected size " << axis.size << " of axis " << axis.name << " of mesh "
                         << mesh.getName() << " as it is written, found " << option.size
                         << " in option 'mesh'";
        return {};
      }
      axis.size = option.size;
    }
  fits = fits && llvm::none_of(axes, isOpen);
  int64_t count = 1;
  for (const MeshAxis &axis : axes)
    count *= fits ? axis.size : 1;
  fits &= count == int64_t(devices.size());
  return MeshAttr::getChecked([&] { return emitError(place); }, mesh.getContext(), mesh.getName(),
                              ArrayRef<MeshAxis>(axes), fits ? devices : mesh.getDevices());
}

using MeshMap = llvm::MapVector<MeshAttr, MeshAttr>;

/// An error if an option gives the size of an axis that no mesh has.
static LogicalResult verifyUsed(ArrayRef<SizeOption> sizes, const MeshMap &meshes, Location place) {
  const auto *option = llvm::find_if(sizes, [](const SizeOption &option) { return !option.used; });
  if (option == sizes.end())
    return success();
  InFlightDiagnostic diag = emitError(place);
  diag << "expected an axis of a mesh of the module (";
  llvm::StringSet<> seen;
  for (const auto &[mesh, made] : meshes)
    for (const MeshAxis &axis : mesh.getAxes())
      if (seen.insert((mesh.getName().getValue() + "." + axis.name.getValue()).str()).second)
        diag << (seen.size() == 1 ? "" : ", ") << mesh.getName().getValue() << '.'
             << axis.name.getValue();
  return diag << ") in option 'mesh', found '"
              << (option->mesh.empty() ? "" : option->mesh.str() + ".") << option->axis << "'";
}

static void replaceMeshes(ModuleOp module, const MeshMap &meshes) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](MeshAttr mesh) -> std::pair<Attribute, WalkResult> {
    MeshAttr made = meshes.lookup(mesh);
    return {made ? made : mesh, WalkResult::skip()};
  });
  // Digits named after a mesh axis become numbers.
  replacer.addReplacement([&](AxesAttr axes) -> std::pair<Attribute, WalkResult> {
    MeshAttr made = meshes.lookup(axes.getMesh());
    made = made ? made : axes.getMesh();
    SmallVector<DimAxesAttr> dims = llvm::map_to_vector(
        axes.getDims(), [&](DimAxesAttr dim) { return resolveSymbolicDigits(dim, made); });
    return {AxesAttr::get(axes.getContext(), made, dims, axes.getPartial(), axes.getPartialKind()),
            WalkResult::skip()};
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  // The replacer does not visit dense elements.
  module.walk([](arith::ConstantOp op) {
    if (auto type = dyn_cast<RankedTensorType>(op.getType()))
      retype(op.getResult(), type);
  });
}

LogicalResult fusion::specializeMeshes(ModuleOp module, ArrayRef<std::string> options,
                                       ArrayRef<int64_t> devices, const PassLog &logger) {
  SmallVector<SizeOption> sizes;
  for (StringRef text : options) {
    FailureOr<SizeOption> option = parseOption(module, text);
    if (failed(option))
      return failure();
    sizes.push_back(*option);
  }
  MeshMap meshes;
  bool valid = true;
  Location first = module.getLoc();
  walkMeshes(module, [&](MeshAttr mesh, Location place) {
    if (meshes.empty())
      first = place;
    auto [entry, isNew] = meshes.try_emplace(mesh);
    if (!isNew)
      return WalkResult::advance();
    entry->second = resizeMesh(mesh, sizes, devices, place);
    valid = bool(entry->second);
    return valid ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (!valid || failed(verifyUsed(sizes, meshes, first)))
    return failure();
  for (auto &[mesh, made] : meshes)
    if (mesh != made)
      logger(module.getLoc(), [&, mesh = mesh, made = made](raw_ostream &os) {
        os << "mesh " << mesh << " is now " << made;
      });
  replaceMeshes(module, meshes);
  return success();
}

std::optional<int64_t> fusion::findAxisSize(ModuleOp module, StringRef name) {
  std::optional<int64_t> size;
  bool ambiguous = false;
  walkMeshes(module, [&](MeshAttr mesh, Location) {
    if (mesh.axisIndex(name) < 0)
      return WalkResult::advance();
    ambiguous = ambiguous || (size && *size != mesh.axisSize(name));
    size = mesh.axisSize(name);
    return WalkResult::advance();
  });
  return ambiguous ? std::nullopt : size;
}
