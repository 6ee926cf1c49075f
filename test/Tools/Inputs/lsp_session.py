#!/usr/bin/env python3
# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An editor's session with tandem-lsp-server: open a good file, ask for a definition and for help, break it."""

import json
import subprocess
import sys

GOOD = """#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%in: memref<8xf32>, %out: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  hostir.copy %in to %out on %main : memref<8xf32> to memref<8xf32>
}
"""
# Shapes that differ: copy_c1.
BAD = GOOD.replace("%out: memref<8xf32>", "%out: memref<9xf32>").replace("to memref<8xf32>", "to memref<9xf32>")
URI = "file:///program.mlir"


class Session:
    def __init__(self, server):
        self.process = subprocess.Popen([server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.counter = 0
        self.notifications = []

    def send(self, message):
        body = json.dumps(dict(message, jsonrpc="2.0")).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while True:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("the server has closed the connection")
            if not line.strip():
                break
            name, value = line.decode().split(":")
            if name.lower() == "content-length":
                length = int(value)
        return json.loads(self.process.stdout.read(length))

    def request(self, method, params):
        self.counter += 1
        self.send({"id": self.counter, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == self.counter:
                assert "error" not in message, message
                return message["result"]
            self.notifications.append(message)

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def diagnostics(self):
        """The diagnostics published next."""
        while True:
            for index, message in enumerate(self.notifications):
                if message.get("method") == "textDocument/publishDiagnostics":
                    return self.notifications.pop(index)["params"]["diagnostics"]
            self.notifications.append(self.receive())


def main():
    session = Session(sys.argv[1])
    capabilities = session.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})["capabilities"]
    print("definition provider:", bool(capabilities.get("definitionProvider")))
    session.notify("initialized", {})

    session.notify("textDocument/didOpen",
                   {"textDocument": {"uri": URI, "languageId": "mlir", "version": 1, "text": GOOD}})
    print("good file:", [d["message"] for d in session.diagnostics()])

    # `%main` in the copy, line 3.
    at_use = {"textDocument": {"uri": URI}, "position": {"line": 3, "character": GOOD.splitlines()[3].index("%main") + 2}}
    definition = session.request("textDocument/definition", at_use)
    print("definition at line:", definition[0]["range"]["start"]["line"])
    at_operation = {"textDocument": {"uri": URI}, "position": {"line": 3, "character": 6}}
    hover = session.request("textDocument/hover", at_operation)
    print("hover:", hover["contents"]["value"].splitlines()[0])

    session.notify("textDocument/didChange",
                   {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [{"text": BAD}]})
    for diagnostic in session.diagnostics():
        print("bad file: line", diagnostic["range"]["start"]["line"], diagnostic["message"])

    session.request("shutdown", None)
    session.notify("exit", None)
    print("exit code:", session.process.wait(timeout=30))


main()
