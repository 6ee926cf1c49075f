//===- Varying.cpp - arguments of a varying extent ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Varying.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem::core {

/// A place is cleared in copies of at most so many bytes, unless one row has more.
static constexpr uint64_t kZeroBytes = uint64_t(1) << 20;

Expected<std::unique_ptr<VaryingArguments>>
VaryingArguments::create(Device &device, const Program &program, size_t runs) {
  std::optional<int64_t> bound = boundOf(program);
  if (!bound)
    return std::unique_ptr<VaryingArguments>();
  std::unique_ptr<VaryingArguments> made(new VaryingArguments(device, program, runs));
  made->bound = *bound;
  TANDEM_RETURN_IF_ERROR(made->setExtent(*bound));
  TANDEM_RETURN_IF_ERROR(made->allocate());
  return made;
}

/// The largest piece that a place is cleared in.
static uint64_t zeroBytesOf(const Program &program) {
  uint64_t bytes = 0;
  for (const ArgumentInfo &info : program.arguments())
    if (!info.varying.empty() && info.present && !info.isResult && info.localShape[0] > 0)
      bytes = std::max({bytes, std::min(kZeroBytes, info.localBytes()),
                        info.localBytes() / static_cast<uint64_t>(info.localShape[0])});
  return bytes;
}

uint64_t VaryingArguments::bytesOf(const Program &program) {
  uint64_t bytes = zeroBytesOf(program);
  for (const ArgumentInfo &info : program.arguments())
    if (!info.varying.empty() && info.present)
      bytes += info.localBytes() * (info.isMask ? 2 : 1);
  return bytes;
}

Status VaryingArguments::allocate() {
  places.resize(numArguments());
  ones.resize(numArguments());
  filled.assign(numArguments(), 0);
  for (uint32_t i = 0; i < numArguments(); ++i) {
    const ArgumentInfo &info = program.arguments()[i];
    if (info.varying.empty() || !info.present)
      continue;
    TANDEM_ASSIGN_OR_RETURN(places[i], device.allocate(info.localBytes(), MemoryKind::Plain));
    if (info.isMask) {
      TANDEM_ASSIGN_OR_RETURN(ones[i], device.allocate(info.localBytes(), MemoryKind::Plain));
      std::vector<std::byte> bytes(info.localBytes(), std::byte(1));
      if (!bytes.empty())
        TANDEM_RETURN_IF_ERROR(device.upload(ones[i]->data(), bytes.data(), bytes.size()));
    }
  }
  zeroBytes = zeroBytesOf(program);
  TANDEM_ASSIGN_OR_RETURN(zeros, device.allocate(zeroBytes, MemoryKind::Plain));
  for (Copies &of : copies) {
    of.pointers.assign(zeroSlot() + 1, nullptr);
    of.pointers[zeroSlot()] = zeros->data();
    of.frame.pointers = of.pointers.data();
  }
  return Status();
}

Status VaryingArguments::setExtent(int64_t extent) {
  if (extent < 0 || extent > bound)
    return Status(Code::InvalidArgument,
                  fmt::format("expected an extent of 0 to {}, found {}", bound, extent));
  current = extent;
  arguments.clear();
  for (const ArgumentInfo &info : program.arguments()) {
    arguments.push_back(info.at(extent));
    arguments.back().present &= !info.isMask;
  }
  return Status();
}

bool VaryingArguments::isStaged(uint32_t i) const {
  const ArgumentInfo &whole = program.arguments()[i];
  return whole.present && !whole.varying.empty() &&
         (whole.isMask || arguments[i].localShape != whole.localShape);
}

/// The first indices of each dimension of a tensor of layout `whole`.
static Operand part(uint32_t slot, const Layout &whole, const std::vector<int64_t> &shape) {
  Operand operand;
  operand.slot = slot;
  operand.layout = whole;
  std::copy(shape.begin(), shape.end(), operand.layout.shape.begin());
  operand.alignment = static_cast<uint32_t>(sizeOf(whole.dtype));
  return operand;
}

namespace {
/// A copy to an address that is some bytes behind a place.
class Shifted final : public Operation {
public:
  Shifted(std::unique_ptr<Operation> inner, uint32_t slot, uint32_t zeroSlot, uint64_t bytes)
      : inner(std::move(inner)), slot(slot), zeroSlot(zeroSlot), bytes(bytes) {}

  Status enqueue(Stream &stream, const Frame &frame) override {
    pointers[0] = static_cast<std::byte *>(frame.pointers[slot]) + bytes;
    pointers[1] = frame.pointers[zeroSlot];
    shifted = frame;
    shifted.pointers = pointers;
    return inner->enqueue(stream, shifted);
  }

private:
  std::unique_ptr<Operation> inner;
  uint32_t slot, zeroSlot;
  uint64_t bytes;
  void *pointers[2] = {};
  Frame shifted;
};
} // namespace

/// Zeros behind the current extent: one box per varying dimension, in pieces.
Status VaryingArguments::prepareClear(const ArgumentInfo &whole, uint32_t i,
                                      std::vector<std::unique_ptr<Operation>> &clears) {
  Layout layout = Layout::dense(whole.dtype, whole.localShape.data(),
                                static_cast<unsigned>(whole.localShape.size()));
  std::vector<int64_t> box = whole.localShape;
  for (uint32_t dim : whole.varying) {
    int64_t offset = arguments[i].localShape[dim];
    box[dim] = whole.localShape[dim] - offset;
    uint64_t row = sizeOf(whole.dtype);
    for (size_t d = 1; d < box.size(); ++d)
      row *= static_cast<uint64_t>(box[d]);
    int64_t rows = row == 0 ? 0 : static_cast<int64_t>(std::max<uint64_t>(zeroBytes / row, 1));
    for (int64_t first = 0; rows > 0 && first < box[0]; first += rows) {
      std::vector<int64_t> piece = box;
      piece[0] = std::min(rows, box[0] - first);
      Operand to = part(0, layout, piece), from = to;
      from.slot = 1;
      from.layout = Layout::dense(whole.dtype, piece.data(), static_cast<unsigned>(piece.size()));
      TANDEM_ASSIGN_OR_RETURN(auto copy, device.prepareCopy(to, from));
      int64_t elements = first * layout.strides[0] + offset * layout.strides[dim];
      clears.push_back(
          std::make_unique<Shifted>(std::move(copy), 2 * i, zeroSlot(),
                                    static_cast<uint64_t>(elements) * sizeOf(whole.dtype)));
    }
    // The rest is inside of the extent in this dimension.
    box[dim] = offset;
  }
  return Status();
}

Status VaryingArguments::prepare(Copies &of) {
  of.moves.clear();
  of.moves.resize(numArguments());
  of.clears.clear();
  of.clears.resize(numArguments());
  for (uint32_t i = 0; i < numArguments(); ++i) {
    if (!isStaged(i))
      continue;
    const ArgumentInfo &whole = program.arguments()[i], &now = arguments[i];
    Layout layout = Layout::dense(whole.dtype, whole.localShape.data(),
                                  static_cast<unsigned>(whole.localShape.size()));
    Operand place = part(2 * i, layout, now.localShape), caller = place;
    caller.slot = 2 * i + 1;
    caller.layout = Layout::dense(now.dtype, now.localShape.data(),
                                  static_cast<unsigned>(now.localShape.size()));
    if (caller.layout.numElements() > 0) {
      TANDEM_ASSIGN_OR_RETURN(of.moves[i], whole.isResult ? device.prepareCopy(caller, place)
                                                          : device.prepareCopy(place, caller));
    }
    if (!whole.isResult)
      TANDEM_RETURN_IF_ERROR(prepareClear(whole, i, of.clears[i]));
  }
  of.extent = current;
  return Status();
}

Status VaryingArguments::before(size_t number, Stream &stream, const std::vector<void *> &bound,
                                ErrorSink &errors) {
  Copies &of = copies[number];
  if (of.extent != current)
    TANDEM_RETURN_IF_ERROR(prepare(of));
  of.frame.errors = &errors;
  for (uint32_t i = 0; i < numArguments(); ++i) {
    if (!isStaged(i))
      continue;
    of.pointers[2 * i] = places[i]->data();
    of.pointers[2 * i + 1] = ones[i] ? ones[i]->data() : bound[i];
    // A mask stays as it is.
    if (program.arguments()[i].isResult || (ones[i] && filled[i] == current))
      continue;
    if (filled[i] > current)
      for (const auto &clear : of.clears[i])
        TANDEM_RETURN_IF_ERROR(clear->enqueue(stream, of.frame));
    filled[i] = current;
    if (of.moves[i])
      TANDEM_RETURN_IF_ERROR(of.moves[i]->enqueue(stream, of.frame));
  }
  return Status();
}

Status VaryingArguments::after(size_t number, Stream &stream) {
  Copies &of = copies[number];
  for (uint32_t i = 0; i < numArguments(); ++i)
    if (of.moves[i] && program.arguments()[i].isResult)
      TANDEM_RETURN_IF_ERROR(of.moves[i]->enqueue(stream, of.frame));
  return Status();
}

} // namespace tandem::core
