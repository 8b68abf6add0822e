"""Who reaches the page, and whom it asks; and the folders that others may open."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import streamlit
from streamlit import net_util
from streamlit.testing.v1 import AppTest
from streamlit.web import cli
from typer.testing import CliRunner

from fxopt.errors import ModelError
from fxopt.models import LocalFolder, architectures
from fxopt.ui import ahead, command
from fxopt.ui.folders import Folders, folders_of
from fxopt.ui.workshop import most_upload_megabytes
from fxopt_cli.main import cli as fxopt_cli
from tests.browser.serving import ROOT, answering, free_port
from tests.load.crowd import Visitor

# ---- folders


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    return folder


@pytest.fixture
def named(tmp_path: Path) -> Folders:
    """Folders below one that is named, and others beside it."""
    model(tmp_path / "models" / "inner" / "bert")
    model(tmp_path / "secret" / "bert")
    (tmp_path / "models" / "loose").symlink_to(tmp_path / "secret" / "bert")
    (tmp_path / "models" / "dangling").symlink_to(tmp_path / "secret" / "nothing")
    (tmp_path / "models" / "circle").symlink_to(tmp_path / "models" / "circle")
    (tmp_path / "models" / "links").mkdir()
    (tmp_path / "models" / "links" / "config.json").symlink_to(tmp_path / "secret" / "bert" / "config.json")
    (tmp_path / "inside").symlink_to(tmp_path / "models" / "inner")
    (tmp_path / "models-too").mkdir()
    return folders_of("0.0.0.0", [str(tmp_path / "models")])


@pytest.mark.parametrize(
    "text", ["{}/models/inner/bert", "inner/bert", "./inner/../inner/bert/", "{}/models/links/../inner/bert"]
)
def test_a_folder_below_a_named_one_is_opened(named: Folders, tmp_path: Path, text: str) -> None:
    assert named.folder(text.format(tmp_path)) == tmp_path / "models" / "inner" / "bert"


def test_of_every_other_folder_nothing_is_told(named: Folders, tmp_path: Path) -> None:
    for text in (
        "{}/secret/bert", "{}/secret/nothing", "{}/models/loose", "{}/models/dangling", "{}/models/links", "loose",
        "{}/models/../secret/bert", "{}/models/../secret/nothing", "../secret/bert", "../nothing", "{}/models-too",
        "{}/inside/bert", "/", "/etc", "/nowhere", "/root", "/proc/self/root{}/models/inner/bert",
    ):  # fmt: skip
        with pytest.raises(ModelError) as refused:
            named.folder(text.format(tmp_path))
        assert str(refused.value) == f"only folders below {tmp_path / 'models'} can be opened at this server", text


@pytest.mark.parametrize("text", ["nowhere", "~", "~root", "circle", "{}/models/nowhere"])
def test_a_folder_below_a_named_one_that_is_not_there_is_no_secret(named: Folders, tmp_path: Path, text: str) -> None:
    found = named.folder(text.format(tmp_path))
    assert found.parent == tmp_path / "models"
    with pytest.raises(ModelError, match="there is no such folder"):
        LocalFolder(found).description


def test_a_server_for_others_without_named_folders_opens_none() -> None:
    folders = folders_of("0.0.0.0", [])
    assert folders.is_empty
    for text in ("/", "/etc", "/nowhere", "here"):
        with pytest.raises(ModelError, match=r"^no folder can be opened at this server$"):
            folders.folder(text)


def test_named_folders_hold_on_this_machine_too(tmp_path: Path) -> None:
    assert folders_of("127.0.0.1", []).folder(str(tmp_path)) == tmp_path
    with pytest.raises(ModelError, match="only folders below"):
        folders_of("127.0.0.1", [str(tmp_path / "models")]).folder(str(tmp_path))


# ---- the server


def served_by(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> command.Serving:
    """The settings with which the command line serves."""
    served: list[command.Serving] = []
    monkeypatch.setattr(command, "serve", served.append)
    done = CliRunner().invoke(fxopt_cli, ["app", *arguments])
    assert done.exit_code == 0, done.output
    return served[0]


def test_the_command_tells_the_page_which_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    named = ["--serve", "::", "--folders", str(tmp_path), str(tmp_path / "other"), "--headless"]
    given = served_by(named, monkeypatch)
    assert command.streamlit_options(given)[:2] == ["--server.address=::", "--server.port=8501"]
    assert given.folders == (str(tmp_path), str(tmp_path / "other"))
    assert given.headless
    alone = served_by([], monkeypatch)
    assert command.streamlit_options(alone)[:2] == ["--server.address=127.0.0.1", "--server.port=8501"]
    assert command.streamlit_options(alone)[2:] == [f"--server.maxUploadSize={most_upload_megabytes()}"]
    assert alone.folders == ()
    for wrong, told in (
        (["--folders", str(tmp_path / "nowhere")], f"{tmp_path / 'nowhere'} is not a folder"),
        (["--folders"], "requires an argument"),
        (["--port", "none"], "--port"),
        (["here"], "no model is called 'here'"),
        (["digits_conv_net", "bert-base"], "the page begins with one built-in model or folder"),
    ):
        done = CliRunner().invoke(fxopt_cli, ["app", *wrong], env={"COLUMNS": "300"})
        assert done.exit_code == 2
        assert told in done.output


def test_an_address_of_ipv6_has_brackets_in_its_url_and_one_for_all_networks_is_that_of_this_machine() -> None:
    urls = {address: command.Serving(address, port=80).url for address in ("127.0.0.1", "::1", "::", "0.0.0.0")}
    assert urls == {
        "127.0.0.1": "http://127.0.0.1:80", "::1": "http://[::1]:80", "::": "http://localhost:80",
        "0.0.0.0": "http://localhost:80",
    }  # fmt: skip
    for address, told in (("::1", ["--browser.serverAddress=[::1]"]), ("::", []), ("127.0.0.1", [])):
        options = command.streamlit_options(command.Serving(address))
        assert [one for one in options if one.startswith("--browser")] == told


@pytest.mark.parametrize("arguments", [[], ["--serve", "0.0.0.0"]])
def test_a_server_for_others_imports_the_architectures_before_it_listens(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    done: list[str] = []

    class Transformers:
        def __getattr__(self, name: str) -> None:
            done.append(name)

    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(architectures, "transformers_module", Transformers)
    monkeypatch.setattr(cli, "main", lambda prog_name: done.append("listens"))
    monkeypatch.setattr(ahead, "work_ahead", lambda: None)
    assert CliRunner().invoke(fxopt_cli, ["app", *arguments]).exit_code == 0
    imported = [name for one in architectures.ARCHITECTURES for name in (one.model, one.config)]
    assert done == [*(imported if arguments else []), "listens"]


def test_without_streamlit_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("streamlit", "streamlit.web"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit, match=r"pip install 'fxopt\[app\]'"):
        command.serve(command.Serving())


def test_the_checkout_has_the_settings_of_the_package() -> None:
    checkout, package = (folder / ".streamlit" / "config.toml" for folder in (ROOT, command.APP.parent))
    assert checkout.read_text() == package.read_text()


def test_with_the_page_streamlit_asks_nobody_for_an_address(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_util, "_external_ip", None)
    app.run()
    assert net_util.get_external_ip() == ""


BY_COMMAND = ("-m", "fxopt", "app", "--headless", "--port={port}")
BY_STREAMLIT = ("-m", "streamlit", "run", str(ROOT / "app.py"), "--server.headless=true", "--server.port={port}")


@contextmanager
def started(tmp_path: Path, *call: str, asked: list[bytes]) -> Iterator[tuple[int, int]]:
    """The port and the process of a server, all of whose requests to other machines would come to `asked`."""
    port, log = free_port(), tmp_path / "log.txt"
    with socket.create_server(("127.0.0.1", 0)) as outside:
        threading.Thread(target=_listen, args=(outside, asked), daemon=True).start()
        proxy = f"http://127.0.0.1:{outside.getsockname()[1]}"
        environment = {**os.environ, "http_proxy": proxy, "https_proxy": proxy, "no_proxy": "", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = str(ROOT)
        with answering(
            [sys.executable, *(part.format(port=port) for part in call)], port, log, tmp_path, environment
        ) as server:
            yield port, server.pid


def _listen(outside: socket.socket, asked: list[bytes]) -> None:
    while True:
        try:
            caller, _ = outside.accept()
        except OSError:
            return
        with caller:
            asked.append(caller.recv(1000))


def listening_at(process: int) -> set[str]:
    """The addresses at which a process listens, as Linux tells them."""
    inodes = {os.readlink(entry)[8:-1] for entry in Path(f"/proc/{process}/fd").iterdir() if _is_socket(entry)}
    found = set()
    for table, family, parts in (("tcp", socket.AF_INET, 1), ("tcp6", socket.AF_INET6, 4)):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in inodes:
                words = bytes.fromhex(local.partition(":")[0])
                found.add(socket.inet_ntop(family, b"".join(words[4 * i : 4 * i + 4][::-1] for i in range(parts))))
    return found


def _is_socket(entry: Path) -> bool:
    try:
        return os.readlink(entry).startswith("socket:")
    except OSError:
        return False


def answer_to_page(port: int, host: str, origin: str) -> int:
    """The status that a page from `origin` gets which opens a connection by the name `host`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {
        "Host": host, "Origin": origin, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    connection.request("GET", "/_stcore/stream", headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("door", [BY_COMMAND, BY_STREAMLIT], ids=["command", "streamlit"])
def test_the_server_is_for_this_machine_alone_and_asks_nobody(tmp_path: Path, door: tuple[str, ...]) -> None:
    asked: list[bytes] = []
    with started(tmp_path, *door, asked=asked) as (port, process):
        assert listening_at(process) == {"127.0.0.1"}
        asyncio.run(_visit(f"http://127.0.0.1:{port}"))
        assert answer_to_page(port, f"127.0.0.1:{port}", f"http://127.0.0.1:{port}") == 101
        assert answer_to_page(port, f"localhost:{port}", f"http://localhost:{port}") == 101
        # a page from elsewhere, and one whose name was made to lead here
        assert answer_to_page(port, f"127.0.0.1:{port}", "http://elsewhere.example") == 403
        assert answer_to_page(port, f"elsewhere.example:{port}", f"http://elsewhere.example:{port}") == 403
    assert asked == []


@pytest.mark.slow
def test_a_server_ends_though_a_browser_reads_no_further(tmp_path: Path) -> None:
    """A browser that leaves while a file comes reads no more of it, and closes the connection a minute later."""
    file = max(
        (Path(streamlit.__file__).parent / "static" / "static" / "js").iterdir(), key=lambda one: one.stat().st_size
    )
    port = free_port()
    command = [sys.executable, "-m", "fxopt", "app", "--headless", f"--port={port}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with socket.socket() as browser:
        with answering(command, port, tmp_path / "log.txt", tmp_path, environment) as server:
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            browser.connect(("127.0.0.1", port))
            browser.sendall(f"GET /static/js/{file.name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert browser.recv(15) == b"HTTP/1.1 200 OK"
        assert server.returncode in (0, -signal.SIGTERM)


async def _visit(address: str) -> None:
    async with Visitor(address) as visitor:
        await visitor.open()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_to_serve_others_is_a_choice_and_asks_nobody_either(tmp_path: Path) -> None:
    asked: list[bytes] = []
    with started(tmp_path, *BY_COMMAND, "--serve", "0.0.0.0", "--folders", str(tmp_path), asked=asked) as (
        port,
        process,
    ):
        assert listening_at(process) == {"0.0.0.0"}
        assert answer_to_page(port, f"our-host:{port}", f"http://our-host:{port}") == 101
        assert answer_to_page(port, f"our-host:{port}", "http://elsewhere.example") == 403
    assert asked == []
