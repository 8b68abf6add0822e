"""A graph, a scan, a workbench and a comparison in a real JupyterLab."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.serving import ROOT, free_port

pytestmark = pytest.mark.browser

CELLS = (
    "import torch, fxopt\n"
    "class Net(torch.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.q, self.k = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)\n"
    "    def forward(self, x):\n"
    "        return self.q(x) + self.k(x)\n"
    "gm = fxopt.capture(Net(), (torch.rand(2, 4),))\n"
    "wb = fxopt.Workbench(gm)\n"
    "wb.turn_on('MergeLinears')\n"
    "gm",
    "fxopt.MergeLinears().scan(gm)",
    "wb",
    "from fxopt.evidence import compare_outputs\ncompare_outputs(wb.pristine, wb.current, [((torch.rand(2, 4),), {})])",
    "fxopt.FuseGelu().scan(gm)",
)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a notebook in a JupyterLab of its own."""
    cells = [
        {"cell_type": "code", "id": f"c{i}", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for i, source in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    content = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "graphs.ipynb").write_text(json.dumps(content))
    port = free_port()
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"),
        *("--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path}", "--LabApp.news_url=None"),
    ]
    places = {f"JUPYTER_{name}": str(tmp_path / name) for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")}
    own = {
        **os.environ,
        **places,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    with (tmp_path / "log.txt").open("wb") as log:
        server = subprocess.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(port, server, tmp_path / "log.txt")
        yield f"http://127.0.0.1:{port}/lab/tree/graphs.ipynb"
    finally:
        server.terminate()
        try:
            server.wait(120)  # it ends its kernels first
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and server.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/api")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.2)
        finally:
            connection.close()
    raise AssertionError(f"JupyterLab does not answer:\n{log.read_text()[-3000:]}")


def test_a_graph_a_scan_a_workbench_and_a_comparison_are_drawn_in_jupyterlab(lab: str, page: Page) -> None:
    page.set_default_timeout(90_000)
    page.goto(lab)
    page.locator(".jp-Notebook .jp-Cell").first.click()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    frames = page.locator(".jp-OutputArea iframe")
    expect(frames).to_have_count(3, timeout=90_000)
    for i in range(3):
        frame = frames.nth(i).content_frame
        frames.nth(i).scroll_into_view_if_needed()
        expect(frame.locator(".fx-caption")).to_contain_text("showing")
    names = frames.nth(2).content_frame.locator("body").evaluate("() => __fxopt.views[0].scene.names")
    assert "q_k_merged" in names
    expect(frames.nth(1).content_frame.get_by_text("MergeLinears: 0 of 1 sites on")).to_be_visible()
    expect(page.locator(".jp-OutputArea summary", has_text="Outputs: identical bits")).to_be_visible()
    # nothing to draw: the text of a REPL
    expect(page.locator(".jp-OutputArea").last).to_contain_text("FuseGelu: 0 matches, 0 near misses")
    if folder := os.environ.get("FXOPT_SCREENS"):
        page.screenshot(path=str(Path(folder) / "notebook.png"))
