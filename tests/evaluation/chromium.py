"""Chromium without a screen, driven over its own debugging pipe: no driver, no package.

The protocol is one JSON object a message, ended by a zero byte: commands go to
the browser's descriptor 3, answers and events come from its descriptor 4.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile

FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--hide-scrollbars",
  "--remote-debugging-pipe",
]
LAUNCH = (
  "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
  " os.execv(sys.argv[3], sys.argv[3:])"
)


def find() -> str | None:
  """The browser's path, None where there is none."""
  return next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
  )


class Page:
  """One blank page; `with Page() as page`."""

  def __enter__(self):
    self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    to_browser, self._write = os.pipe()
    self._read, from_browser = os.pipe()
    # Moved out of the way first, so that putting one at 3 cannot close the other.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_browser, from_browser)]
    command = [find(), *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
    self._process = subprocess.Popen(
      [sys.executable, "-c", LAUNCH, *map(str, high), *command],
      pass_fds=high,
      stderr=subprocess.DEVNULL,
    )
    for fd in (to_browser, from_browser, *high):
      os.close(fd)
    self._buffer, self._count, self._session = b"", 0, None
    self.events = []
    targets = self.send("Target.getTargets")["targetInfos"]
    target = next(t["targetId"] for t in targets if t["type"] == "page")
    attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
    self._session = attached["sessionId"]
    for domain in ("Page", "Runtime", "Network", "Log", "Performance"):
      self.send(f"{domain}.enable")
    return self

  def __exit__(self, *_):
    self._session = None
    self.send("Browser.close")
    self._process.wait(timeout=20)
    os.close(self._write)
    os.close(self._read)
    self._profile.cleanup()

  def _receive(self):
    while b"\0" not in self._buffer:
      part = os.read(self._read, 1 << 16)
      if not part:
        raise RuntimeError("Chromium closed its pipe")
      self._buffer += part
    message, self._buffer = self._buffer.split(b"\0", 1)
    return json.loads(message)

  def send(self, method, **params):
    """Sends a command and returns its result; events that come first are kept."""
    self._count += 1
    message = {"id": self._count, "method": method, "params": params}
    if self._session:
      message["sessionId"] = self._session
    data = json.dumps(message).encode() + b"\0"
    while data:
      data = data[os.write(self._write, data) :]
    while True:
      answer = self._receive()
      if answer.get("id") == self._count:
        if "error" in answer:
          raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]
      self.events.append(answer)

  def open(self, url, *, width, height=900, scheme="light"):
    """Loads `url` in a window of this size and colour scheme.

    Returns:
      The processor's seconds that the page's process took, all its threads: what it would
      take at most on a machine that has nothing else to do.
    """
    self.send(
      "Emulation.setDeviceMetricsOverride",
      width=width,
      height=height,
      deviceScaleFactor=1,
      mobile=False,
    )
    features = [
      {"name": "prefers-color-scheme", "value": scheme},
      {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    self.send("Emulation.setEmulatedMedia", features=features)
    self.send("Page.navigate", url="about:blank")
    started = self._processor_time()
    self.send("Page.navigate", url=url)
    done = "new Promise(r => { const go = () => requestAnimationFrame(() => setTimeout(r, 0));"
    done += " document.readyState === 'complete' ? go() : addEventListener('load', go) })"
    self.evaluate(done)
    return self._processor_time() - started

  def _processor_time(self):
    metrics = self.send("Performance.getMetrics")["metrics"]
    return next(m["value"] for m in metrics if m["name"] == "ProcessTime")

  def evaluate(self, expression):
    """The value of a JavaScript expression; promises are awaited."""
    result = self.send(
      "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
    )
    if "exceptionDetails" in result:
      raise RuntimeError(str(result["exceptionDetails"])[:2000])
    return result["result"].get("value")

  def _middle(self, selector):
    box = self.evaluate(
      f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
      " e.scrollIntoView({block: 'center'}); const b = e.getClientRects()[0];"
      " return [b.left + Math.min(b.width / 2, 20), b.top + b.height / 2] })()"
    )
    return {"x": box[0], "y": box[1]}

  def hover(self, selector):
    self.send("Input.dispatchMouseEvent", type="mouseMoved", **self._middle(selector))

  def click(self, selector):
    place = self._middle(selector)
    for kind in ("mousePressed", "mouseReleased"):
      self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

  def press(self, key, code=0):
    for kind in ("rawKeyDown", "keyUp"):
      self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

  def type(self, text):
    self.send("Input.insertText", text=text)

  def screenshot(self, path):
    data = self.send("Page.captureScreenshot", format="png")["data"]
    path.write_bytes(base64.b64decode(data))
