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
  const ArgumentInfo &info = programHandle->arguments()[i];
  uint64_t needed = info.localBytes();
  if (bytes && *bytes < needed)
    return argumentError(i, fmt::format("expected {} bytes, found {}", needed, *bytes));
  if (!address && needed > 0)
    return argumentError(i, "null pointer");
  if (reinterpret_cast<uintptr_t>(address) % sizeOf(info.dtype) != 0)
    return argumentError(i, fmt::format("address is not a multiple of {}", sizeOf(info.dtype)));
  return Status();
}

Status InstanceImpl::bind(uint32_t i, const TensorView &view, uint64_t bytes) {
  const auto &arguments = programHandle->arguments();
  if (i >= arguments.size())
    return Status(Code::InvalidArgument, fmt::format("{}no argument {}: the program has {}",
                                                     prefix(), i, arguments.size()));
  const ArgumentInfo &info = arguments[i];
  Layout expected = Layout::dense(info.dtype, info.localShape.data(),
                                  static_cast<unsigned>(info.localShape.size()));
  if (!info.present)
    return argumentError(i, "this rank holds no part of it");
  if (view.layout.dtype != expected.dtype || !view.layout.sameShape(expected))
    return argumentError(i,
                         fmt::format("expected {}, found {}", expected.str(), view.layout.str()));
  if (!view.layout.isDense())
    return argumentError(i, fmt::format("expected dense memory, found {}", view.layout.str()));
  TANDEM_RETURN_IF_ERROR(checkAddress(i, view.data, &bytes));
  if (isBound[i] && bound[i] == view.data)
    return Status();
  bound[i] = view.data;
  isBound[i] = 1;
  ++bindings;
  return Status();
}

Status InstanceImpl::bindAll(void *const *addresses, const uint64_t *bytes) {
  const auto &arguments = programHandle->arguments();
  bool changed = false;
  for (uint32_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].present) {
      TANDEM_RETURN_IF_ERROR(checkAddress(i, addresses[i], bytes ? &bytes[i] : nullptr));
      changed |= !isBound[i] || bound[i] != addresses[i];
    }
  if (!changed)
    return Status();
  TANDEM_RETURN_IF_ERROR(checkOverlaps(addresses));
  for (uint32_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].present) {
      bound[i] = addresses[i];
      isBound[i] = 1;
    }
  checkedBindings = ++bindings;
  return Status();
}

Status InstanceImpl::checkOverlaps(void *const *addresses) const {
  const auto &arguments = programHandle->arguments();
  for (uint32_t i = 0; i < arguments.size(); ++i)
    for (uint32_t j = 0; arguments[i].present && arguments[i].isResult && j < arguments.size();
         ++j) {
      if (j == i || !arguments[j].present)
        continue;
      auto begin = reinterpret_cast<uintptr_t>(addresses[i]),
           other = reinterpret_cast<uintptr_t>(addresses[j]);
      if (begin < other + arguments[j].localBytes() && other < begin + arguments[i].localBytes())
        return argumentError(i, fmt::format("overlaps argument {} \"{}\"", j, arguments[j].name));
    }
  return Status();
}

Status InstanceImpl::checkBindings() {
  if (checkedBindings == bindings)
    return Status();
  for (uint32_t i = 0; i < isBound.size(); ++i)
    if (!isBound[i] && programHandle->arguments()[i].present)
      return argumentError(i, "not bound");
  TANDEM_RETURN_IF_ERROR(checkOverlaps(bound.data()));
  checkedBindings = bindings;
  return Status();
}

} // namespace tandem::core
