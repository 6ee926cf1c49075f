# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What conftest.py makes of a tandem-run that passes, fails, dies, hangs or ends badly: here a script of shell."""

import conftest
import pytest

_STUB = """#!/bin/sh
n=0
for f in "$@"; do case $f in *.tsp) n=$((n + 1));; esac; done
for f in "$@"; do
  case $f in
    *good*.tsp) w="verified x: ranks 2";;
    *bad*.tsp) w="FAILED x: wrong"; rc=1;;
    *ends*.tsp) echo "$f: FAILED x: lost"; echo "0 passed, 1 failed, 1 not run: y"; exit 1;;
    *dies*.tsp) echo "about to die"; kill -9 $$;;
    *hangs*.tsp) exec sleep 30;;
    *late*.tsp) w="verified x: ranks 2"; rc=1;;
    *) continue;;
  esac
  if [ $n = 1 ]; then echo "$w"; else echo "$f: $w"; fi
done
exit ${rc:-0}
"""


@pytest.mark.parametrize("files, wrong", [
    (["good1", "good2"], {}),
    (["good1", "bad", "good2"], {"bad": "x: wrong"}),
    (["ends", "good1", "good2"], {"ends": "x: lost"}),
    (["good1", "dies", "good2"], {"dies": "status -9"}),
    (["good1", "hangs", "good2"], {"hangs": "no end within 1 s"}),
    (["good1", "late"], {"late": "status 1 at the end"}),
    (["late"], {"late": "status 1 at the end"}),
    (["bad"], {"bad": "x: wrong"}),
])
def test_run_programs(files, wrong, tmp_path, monkeypatch):
    stub = tmp_path / "tandem-run"
    stub.write_text(_STUB)
    stub.chmod(0o755)
    monkeypatch.setattr(conftest, "BIN", tmp_path)
    monkeypatch.setattr(conftest, "PATIENCE", 1)
    found = {file: outcome.error for file, outcome in conftest.run_programs([f"{name}.tsp" for name in files], []).items()}
    assert set(found) == {f"{name}.tsp" for name in files}
    for name in files:
        assert wrong[name] in found[f"{name}.tsp"] if name in wrong else not found[f"{name}.tsp"]


def test_what_is_skipped():
    for error, is_refused, skipped in (("x: libtandem_gated.so is not installed", False, True), ("schedule push: expected", True, True),
                                       ("rank 1 was refused: another world", False, False)):
        with pytest.raises(pytest.skip.Exception if skipped else AssertionError):
            conftest.Outcome(error, is_refused=is_refused).check()
