//===- Wire.cpp - frames ----------------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Wire.h"

#include <algorithm>

using namespace tandem;
using namespace tandem::bootstrap;

Status bootstrap::receiveHeader(const Socket &socket, FrameKind expected, FrameHeader &header,
                                Deadline deadline) {
  TANDEM_RETURN_IF_ERROR(socket.receive(&header, sizeof(header), deadline));
  if (header.magic != kFrameMagic)
    return Status(Code::Io, "the peer is not a rank of this job");
  if (header.kind == FrameKind::Abort) {
    std::string text(std::min(header.bytes, kMaxText), '\0');
    TANDEM_RETURN_IF_ERROR(socket.receive(text.data(), text.size(), deadline));
    return Status(Code::Aborted, text);
  }
  if (header.kind != expected)
    return Status(Code::Internal,
                  "ranks disagree on what is exchanged: bootstrap calls must come in "
                  "the same order on every rank");
  return Status::success();
}

void bootstrap::sendAbort(const Socket &socket, const std::string &text) {
  FrameHeader header;
  header.kind = FrameKind::Abort;
  header.bytes = std::min<uint64_t>(text.size(), kMaxText);
  std::string frame(reinterpret_cast<const char *>(&header), sizeof(header));
  frame.append(text, 0, header.bytes);
  socket.send(frame.data(), frame.size(), Clock::now() + std::chrono::milliseconds(200)).ignore();
}
