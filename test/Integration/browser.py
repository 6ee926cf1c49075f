# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opens local pages in headless Chromium (Debian: chromium), without a network.

  browser.look("index.html",  "document.images.length")   -> what JavaScript finds in the page
  browser.look("search.html?q=didx", SCRIPT, wait=3)      -> after three seconds of the page's time
"""

import html
import json
import os
import re
import shutil
import tempfile

import harness

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

#: What a page gets for a look: once loaded, and again until it is the last time, the script's value becomes the text of an element.
EYE = """<script>
(() => {
  const element = document.createElement("pre");
  element.id = "tandem-seen";
  const see = () => {
    try { element.textContent = JSON.stringify({value: (0, eval)(%s) ?? null}); }
    catch (error) { element.textContent = JSON.stringify({error: String(error)}); }
    document.body.append(element);
  };
  window.addEventListener("load", () => { see(); setInterval(see, 100); });
})();
</script>"""


def _chromium(url, *options):
    with tempfile.TemporaryDirectory(prefix="tandem-chromium-") as profile:
        # Without its sandbox, which root and containers cannot make: these are our own pages, without network.
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
                   "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", *options, url]
        done = harness.run(command, harness.environment(HOME=profile), limit=60 * harness.SLOWER)
    assert done.code == 0, str(done)
    return done.out


def look(page, script, wait=1):
    """The value of an expression in JavaScript, `wait` seconds after the page has loaded; the page's time is not the clock's."""
    path, query, question = page.partition("?")
    folder, name = os.path.split(os.path.abspath(path))
    with open(path, encoding="utf-8") as file:
        text = file.read()
    eye = EYE % json.dumps(script).replace("</", "<\\/")
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix="look-", suffix="-" + name, encoding="utf-8") as copy:
        copy.write(text.replace("</head>", eye + "</head>", 1) if "</head>" in text else eye + text)
        copy.flush()
        dom = _chromium(f"file://{copy.name}{query}{question}", f"--virtual-time-budget={wait * 1000:.0f}", "--dump-dom")
    seen = re.search(r'<pre id="tandem-seen">(.*?)</pre>', dom, re.S)
    assert seen, f"{page}: the script did not run\n{dom[:2000]}"
    result = json.loads(html.unescape(seen.group(1)))
    assert "value" in result, f"{page}: {script}: {result.get('error')}"
    return result["value"]
