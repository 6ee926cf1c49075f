//===- Inquiries.cpp - signals that ask for a report ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inquiries.h"

#include "Ranks.h"

#include <ctime>

using namespace tandem::run;

Inquiries::Inquiries(std::function<void()> answer) : answer(std::move(answer)) {
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGUSR1);
  for (int signal : kEndingSignals)
    if (endsProcess(signal))
      ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, &after);
  ::sigaddset(&after, SIGUSR1);
  thread = std::thread([this] { wait(); });
}

Inquiries::~Inquiries() {
  stopping = true;
  thread.join();
  ::pthread_sigmask(SIG_SETMASK, &after, nullptr);
}

void Inquiries::wait() {
  constexpr timespec kInterval{0, 50'000'000};
  while (!stopping) {
    int signal = ::sigtimedwait(&signals, nullptr, &kInterval);
    if (signal <= 0)
      continue;
    answer();
    if (signal == SIGUSR1)
      continue;
    std::signal(signal, SIG_DFL);
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    ::raise(signal);
  }
}
