//===- LaunchGroup.cpp - launches that run as one ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchGroup.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

bool LaunchView::isSame(const LaunchView &other) const {
  if (view == other.view)
    return true;
  if (root != other.root || !box || !other.box || !(box->offset == other.box->offset))
    return false;
  // The shapes are equal (operands of a launch); strides of extents of 1 do not matter.
  return llvm::equal(box->dims, other.box->dims, [](const BoxDim &a, const BoxDim &b) {
    return a.size == b.size && (a.size == 1 || a.stride == b.stride);
  });
}

/// Like computeBox, also for casts to known strides: broadcasts, and views of slices.
static std::optional<StridedBox> boxOf(Value view) {
  auto cast = view.getDefiningOp<memref::ReinterpretCastOp>();
  if (!cast)
    return computeBox(view);
  if (cast.isDynamicOffset(0) || llvm::any_of(cast.getStaticSizes(), ShapedType::isDynamic) ||
      llvm::any_of(cast.getStaticStrides(), ShapedType::isDynamic))
    return std::nullopt;
  // A cast's sizes, strides and offset are relative to the buffer.
  StridedBox box;
  box.offset.constant = cast.getStaticOffset(0);
  for (auto [size, stride] : llvm::zip_equal(cast.getStaticSizes(), cast.getStaticStrides()))
    box.dims.push_back({size, stride});
  return box;
}

static const LaunchView &getLaunchView(LaunchViews &views, Value view) {
  auto [it, isNew] = views.try_emplace(view);
  if (isNew)
    it->second = {view, getViewRoot(view), boxOf(view)};
  return it->second;
}

LaunchGroup LaunchGroup::create(LaunchOp launch, KernelOp kernel, LaunchViews &views) {
  LaunchGroup group;
  Member member{launch, kernel, {}};
  for (Value input : launch.getInputs()) {
    LaunchView view = getLaunchView(views, input);
    const auto *known =
        llvm::find_if(group.inputs, [&](const LaunchView &other) { return other.isSame(view); });
    member.sources.push_back({true, 0, static_cast<unsigned>(known - group.inputs.begin())});
    if (known == group.inputs.end())
      group.inputs.push_back(view);
  }
  for (auto [number, output] : llvm::enumerate(launch.getOutputs()))
    group.outputs.push_back({getLaunchView(views, output), 0, static_cast<unsigned>(number)});
  group.members.push_back(std::move(member));
  return group;
}

std::optional<LaunchGroup> LaunchGroup::merge(const LaunchGroup &first, const LaunchGroup &second,
                                              StringRef &why) {
  LaunchGroup merged = first;
  auto shift = static_cast<unsigned>(first.members.size());
  bool isFed = false;
  SmallVector<Source> sources; // of the second's inputs
  for (const LaunchView &view : second.inputs) {
    const auto *writer = llvm::find_if(
        first.outputs, [&](const Output &output) { return output.view.isSame(view); });
    if (writer != first.outputs.end()) {
      sources.push_back({false, writer->member, writer->number});
      isFed = true;
      continue;
    }
    if (first.writes(view.root)) {
      why = "it reads other elements than the first writes, or in another order";
      return std::nullopt;
    }
    const auto *known =
        llvm::find_if(first.inputs, [&](const LaunchView &other) { return other.isSame(view); });
    unsigned number = known - first.inputs.begin();
    if (known == first.inputs.end()) {
      number = merged.inputs.size();
      merged.inputs.push_back(view);
    }
    sources.push_back({true, 0, number});
  }
  if (!isFed) {
    why = "it reads no element that the first writes";
    return std::nullopt;
  }
  for (const Output &output : second.outputs) {
    // In place is fine: elementwise.
    bool overlaps = llvm::any_of(first.inputs, [&](const LaunchView &view) {
      return view.root == output.view.root && !view.isSame(output.view);
    });
    if (first.writes(output.view.root) || overlaps) {
      why = "it writes a buffer that the first uses";
      return std::nullopt;
    }
    merged.outputs.push_back({output.view, output.member + shift, output.number});
  }
  for (const Member &member : second.members) {
    Member moved = member;
    for (Source &source : moved.sources) {
      if (source.isInput)
        source = sources[source.number];
      else
        source.member += shift;
    }
    merged.members.push_back(std::move(moved));
  }
  return merged;
}

KernelOp hostir::buildFusedKernel(OpBuilder &builder, Location loc, const LaunchGroup &group,
                                  ArrayRef<bool> isKept) {
  auto elementOf = [](const LaunchView &view) {
    return cast<MemRefType>(view.view.getType()).getElementType();
  };
  SmallVector<Type> inputs = llvm::map_to_vector(group.inputs, elementOf), results;
  for (auto [output, kept] : llvm::zip_equal(group.outputs, isKept))
    if (kept)
      results.push_back(elementOf(output.view));

  OperationState state(loc, KernelOp::getOperationName());
  auto &properties = state.getOrAddProperties<KernelOp::Properties>();
  properties.sym_name = builder.getStringAttr("");
  properties.sym_visibility = builder.getStringAttr("private");
  properties.function_type = TypeAttr::get(builder.getFunctionType(inputs, results));
  auto *body = new Block();
  state.addRegion()->push_back(body);
  auto kernel = cast<KernelOp>(builder.create(state));

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(body);
  for (Type type : inputs)
    body->addArgument(type, loc);
  SmallVector<SmallVector<Value>> yielded; // by member
  for (LaunchGroup::Member member : group.members) {
    IRMapping mapping;
    Block &source = member.kernel.getBody().front();
    for (auto [argument, from] : llvm::zip_equal(source.getArguments(), member.sources))
      mapping.map(argument, from.isInput ? body->getArgument(from.number)
                                         : yielded[from.member][from.number]);
    for (Operation &op : source.without_terminator())
      builder.clone(op, mapping);
    SmallVector<Value> &values = yielded.emplace_back();
    for (Value value : source.getTerminator()->getOperands())
      values.push_back(mapping.lookup(value));
  }
  SmallVector<Value> values;
  for (auto [output, kept] : llvm::zip_equal(group.outputs, isKept))
    if (kept)
      values.push_back(yielded[output.member][output.number]);
  YieldOp::create(builder, loc, values);
  return kernel;
}

std::string hostir::getFusedKey(const LaunchGroup &group, ArrayRef<bool> isKept) {
  std::string key;
  llvm::raw_string_ostream os(key);
  for (LaunchGroup::Member member : group.members) {
    os << member.kernel.getSymName() << '(';
    for (const LaunchGroup::Source &source : member.sources)
      os << (source.isInput ? "i" : "m") << source.member << '.' << source.number << ',';
    os << ')';
  }
  for (auto [output, kept] : llvm::zip_equal(group.outputs, isKept))
    if (kept)
      os << output.member << '.' << output.number << ',';
  return key;
}

std::string hostir::getFusedName(const LaunchGroup &group) {
  constexpr int64_t most = 4;
  std::string name;
  int64_t more = 0, named = 0;
  for (LaunchGroup::Member member : group.members)
    for (Operation &op : member.kernel.getBody().front().without_terminator()) {
      if (op.hasTrait<OpTrait::ConstantLike>())
        continue;
      if (named == most) {
        ++more;
        continue;
      }
      name += (named++ ? "_" : "") + op.getName().stripDialect().str();
    }
  if (more)
    name += "_and_" + std::to_string(more) + "_more";
  return named ? name : "fused";
}

void hostir::eraseBuffer(Value root) {
  SmallVector<Operation *> users(root.getUsers());
  for (size_t i = 0; i < users.size(); ++i)
    if (isView(users[i]))
      llvm::append_range(users, users[i]->getResult(0).getUsers());
  for (Operation *user : llvm::reverse(users))
    user->erase();
  root.getDefiningOp()->erase();
}
