//===- Kernel.cpp - kernels of the embedder ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Kernel.h"

#include "InstanceImpl.h"
#include "tandem/Program/BuiltinKernels.h"
#include "tandem/Program/CStruct.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem {

static_assert(sizeof(tandem_kernel_operand) == 288);
static_assert(TANDEM_NO_PADDING_AFTER(tandem_kernel, indices_per_block));

Expected<std::shared_ptr<const ExternalKernel>> ExternalKernel::create(const tandem_kernel &given) {
  tandem_kernel kernel;
  TANDEM_RETURN_IF_ERROR(readStruct(&given, "tandem_kernel", kernel));
  if (!kernel.name || !*kernel.name)
    return Status(Code::InvalidArgument, "tandem_kernel: expected a name, found none");
  if (program::isBuiltin(kernel.name))
    return Status(Code::InvalidArgument,
                  fmt::format("kernel \"{}\": expected a name that does not begin with \"{}\": "
                              "these kernels are the runtime's",
                              kernel.name, program::kBuiltinPrefix));
  auto invalid = [&](const char *what) {
    return Status(Code::InvalidArgument, fmt::format("kernel \"{}\": {}", kernel.name, what));
  };
  if (!kernel.cpu_function && !kernel.gpu_function && !kernel.image)
    return invalid("expected a function or an image, found none");
  if (kernel.image && kernel.gpu_function)
    return invalid("expected a GPU function or an image, found both");
  if (kernel.image && (kernel.image_size == 0 || !kernel.entry || kernel.threads == 0 ||
                       kernel.indices_per_block == 0))
    return invalid("an image needs image_size, entry, threads and indices_per_block");
  auto result = std::make_shared<ExternalKernel>();
  result->name = kernel.name;
  result->user = kernel.user;
  result->cpuFunction = kernel.cpu_function;
  result->gpuFunction = kernel.gpu_function;
  if (kernel.image) {
    const auto *bytes = static_cast<const char *>(kernel.image);
    result->image.assign(bytes, bytes + kernel.image_size);
    result->image.push_back(0);
    result->entry = kernel.entry;
    result->threads = kernel.threads;
    result->indicesPerBlock = kernel.indices_per_block;
  }
  return std::shared_ptr<const ExternalKernel>(std::move(result));
}

std::vector<Layout> CallDesc::layouts() const {
  std::vector<Layout> all;
  for (const tandem_kernel_operand &operand : operands) {
    Layout &layout = all.emplace_back();
    layout.dtype = static_cast<DType>(operand.dtype);
    layout.rank = static_cast<uint8_t>(operand.rank);
    for (unsigned d = 0; d < layout.rank; ++d) {
      layout.shape[d] = operand.shape[d];
      layout.strides[d] = operand.strides[d];
    }
  }
  return all;
}

void CallDesc::fill(const Frame &frame, tandem_kernel_operand *run) const {
  for (size_t k = 0; k < operands.size(); ++k) {
    run[k] = operands[k];
    run[k].data = frame.pointers[slots[k]];
  }
  if (frame.extent >= 0)
    for (const Varying &each : varying)
      run[each.operand].extent[each.dim] = each.times * frame.extent;
}

Status callKernel(const CallDesc &desc, tandem_kernel_function function, void *stream,
                  const Frame &frame) {
  tandem_kernel_operand operands[TANDEM_KERNEL_MAX_OPERANDS];
  desc.fill(frame, operands);
  const ExternalKernel &kernel = *desc.kernel;
  tandem_kernel_call call{sizeof call, kernel.name.c_str(),  desc.config,
                          stream,      desc.operands.size(), operands,
                          desc.outputs};
  auto failed = [&](const std::string &how) {
    return Status(Code::Internal, fmt::format("kernel \"{}\" {}", kernel.name, how));
  };
  try {
    int code = function(kernel.user, &call);
    return code ? failed(fmt::format("returned {}", code)) : Status();
  } catch (const std::exception &error) {
    return failed(fmt::format("has thrown {}", error.what()));
  } catch (...) {
    return failed("has thrown an object that is no std::exception");
  }
}

namespace core {

Status ContextImpl::registerKernel(const tandem_kernel &kernel) {
  TANDEM_ASSIGN_OR_RETURN(auto made, ExternalKernel::create(kernel));
  kernels[made->name] = made;
  return Status();
}

Expected<std::unique_ptr<Operation>> InstanceImpl::prepareCall(const sp::Command &command) {
  const sp::Kernel &kernel = *data.kernels()->Get(command.aux());
  std::string where = fmt::format("kernel \"{}\": ", kernel.name()->string_view());
  CallDesc desc;
  desc.isBuiltin = program::isBuiltin(kernel.name()->string_view());
  desc.ordered = isOrdered();
  if (desc.isBuiltin) {
    auto named = std::make_shared<ExternalKernel>();
    named->name = kernel.name()->str();
    desc.kernel = std::move(named);
  } else {
    desc.kernel = context.kernel(kernel.name()->string_view());
  }
  if (!desc.kernel)
    return Status(Code::Unsupported, where + "expected it to be registered with this context");
  if (kernel.config())
    desc.config = kernel.config()->c_str();
  desc.outputs = kernel.outputs();
  uint32_t first = command.operands()->Get(0), count = command.operands()->Get(1);
  if (count > TANDEM_KERNEL_MAX_OPERANDS)
    return Status(Code::Unsupported, fmt::format("{}expected at most {} operands, found {}", where,
                                                 +TANDEM_KERNEL_MAX_OPERANDS, count));
  auto varies = [&](int8_t number) {
    for (uint32_t v = 0; v < (kernel.varying() ? kernel.varying()->size() : 0); ++v)
      if (kernel.varying()->Get(v) == static_cast<uint8_t>(number))
        return true;
    return false;
  };
  const int64_t bound = boundOf(*programHandle).value_or(0);
  uint32_t dim = 0;
  for (uint32_t k = 0; k < count; ++k) {
    uint32_t view = data.launch_operands()->Get(first + k);
    const Layout &layout = programHandle->layout(data.views()->Get(view)->layout());
    if (layout.rank > TANDEM_KERNEL_MAX_RANK)
      return Status(Code::Unsupported, fmt::format("{}expected at most {} dimensions, found {}",
                                                   where, +TANDEM_KERNEL_MAX_RANK, layout.str()));
    tandem_kernel_operand operand{};
    operand.struct_size = sizeof operand;
    operand.dtype = static_cast<int64_t>(layout.dtype);
    operand.rank = layout.rank;
    for (unsigned d = 0; d < layout.rank; ++d, ++dim) {
      operand.shape[d] = operand.extent[d] = layout.shape[d];
      operand.strides[d] = layout.strides[d];
      int8_t number = kernel.dims()->Get(dim);
      if (number < 0)
        continue;
      const sp::CallPlace &place = *data.call_places()->Get(static_cast<uint32_t>(command.value()) +
                                                            static_cast<uint8_t>(number));
      operand.offset[d] = place.offset();
      operand.extent[d] = place.extent();
      if (bound > 0 && varies(number))
        desc.varying.push_back({k, d, place.extent() / bound});
      if (k == 0)
        desc.indices *= layout.shape[d];
    }
    desc.slots.push_back(view);
    desc.operands.push_back(operand);
  }
  callsVary |= !desc.varying.empty();
  auto operation = context.device().prepareCall(desc);
  return operation ? std::move(operation)
                   : Expected<std::unique_ptr<Operation>>(operation.status().withPrefix(where));
}

} // namespace core
} // namespace tandem
