//===- Binding.cpp - addresses of arguments ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstanceImpl.h"

#include <fmt/format.h>

namespace tandem::core {

// Without an error, binding allocates nothing.
Status InstanceImpl::argumentError(uint32_t i, const std::string &what) const {
  return Status(Code::InvalidArgument, fmt::format("{}argument {} \"{}\": {}", prefix(), i,
                                                   programHandle->arguments()[i].name, what));
}

Status InstanceImpl::checkAddress(uint32_t i, const void *address, const uint64_t *bytes) const {
  const ArgumentInfo &info = argument(i);
  uint64_t needed = info.localBytes();
  if (bytes && *bytes < needed)
    return argumentError(i, fmt::format("expected at least {} bytes, found {}", needed, *bytes));
  if (!address && needed > 0)
    return argumentError(i, "null pointer");
  // Of an argument that is staged, only copies see this address.
  bool isStaged = varying && varying->address(i, const_cast<void *>(address)) != address;
  uint32_t multiple = isStaged ? sizeOf(info.dtype) : alignments[i];
  if (reinterpret_cast<uintptr_t>(address) % multiple != 0)
    return argumentError(i, fmt::format("address is not a multiple of {}", multiple));
  return Status();
}

void InstanceImpl::setAddress(uint32_t i, void *address) {
  given[i] = address;
  bound[i] = varying ? varying->address(i, address) : address;
  isBound[i] = 1;
}

Status InstanceImpl::bind(uint32_t i, const TensorView &view, uint64_t bytes) {
  const auto &arguments = programHandle->arguments();
  if (i >= arguments.size())
    return Status(Code::InvalidArgument, fmt::format("{}no argument {}: the program has {}",
                                                     prefix(), i, arguments.size()));
  const ArgumentInfo &info = argument(i);
  Layout expected = Layout::dense(info.dtype, info.localShape.data(),
                                  static_cast<unsigned>(info.localShape.size()));
  if (info.isMask)
    return argumentError(i, "the runtime binds it");
  if (!info.present)
    return argumentError(i, "this rank holds no part of it");
  if (view.layout.dtype != expected.dtype || !view.layout.sameShape(expected))
    return argumentError(i,
                         fmt::format("expected {}, found {}", expected.str(), view.layout.str()));
  if (!view.layout.isDense())
    return argumentError(i, fmt::format("expected dense memory, found {}", view.layout.str()));
  TANDEM_RETURN_IF_ERROR(checkAddress(i, view.data, &bytes));
  if (isBound[i] && given[i] == view.data)
    return Status();
  setAddress(i, view.data);
  ++bindings;
  return Status();
}

Status InstanceImpl::bindAll(void *const *addresses, const uint64_t *bytes) {
  auto count = static_cast<uint32_t>(bound.size());
  bool changed = false;
  for (uint32_t i = 0; i < count; ++i)
    if (argument(i).present) {
      TANDEM_RETURN_IF_ERROR(checkAddress(i, addresses[i], bytes ? &bytes[i] : nullptr));
      changed |= !isBound[i] || given[i] != addresses[i];
    }
  if (!changed)
    return Status();
  TANDEM_RETURN_IF_ERROR(checkOverlaps(addresses));
  for (uint32_t i = 0; i < count; ++i)
    if (argument(i).present)
      setAddress(i, addresses[i]);
  checkedBindings = ++bindings;
  return Status();
}

Status InstanceImpl::checkOverlaps(void *const *addresses) const {
  auto count = static_cast<uint32_t>(bound.size());
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t j = 0; argument(i).present && argument(i).isResult && j < count; ++j) {
      if (j == i || !argument(j).present)
        continue;
      auto begin = reinterpret_cast<uintptr_t>(addresses[i]),
           other = reinterpret_cast<uintptr_t>(addresses[j]);
      if (begin < other + argument(j).localBytes() && other < begin + argument(i).localBytes())
        return argumentError(i, fmt::format("overlaps argument {} \"{}\"", j, argument(j).name));
    }
  return Status();
}

Status InstanceImpl::checkBindings() {
  if (checkedBindings == bindings)
    return Status();
  for (uint32_t i = 0; i < isBound.size(); ++i)
    if (!isBound[i] && argument(i).present)
      return argumentError(i, "not bound");
  TANDEM_RETURN_IF_ERROR(checkOverlaps(given.data()));
  checkedBindings = bindings;
  return Status();
}

Status InstanceImpl::setExtent(int64_t extent) {
  if (!varying)
    return Status(Code::InvalidArgument, prefix() + "no extent of the program varies");
  if (extent == varying->extent())
    return Status();
  TANDEM_RETURN_IF_ERROR(varying->setExtent(extent).withPrefix(prefix()));
  for (uint32_t i = 0; i < isBound.size(); ++i)
    if (!argument(i).varying.empty()) {
      setAddress(i, nullptr);
      isBound[i] = 0;
    }
  ++bindings;
  return Status();
}

} // namespace tandem::core
