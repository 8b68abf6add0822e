"""Models that a script, a REPL or a notebook opens by `fxopt.explore`, less the server and the browser."""

from __future__ import annotations

import asyncio
import copy
import operator
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch import nn

import fxopt
from fxopt.ui import exploring, guest
from fxopt.ui.command import PAGE
from fxopt.ui.own_models import offer, offered
from fxopt.ui.token_gate import Message, Receive, Send, TokenGate
from tests.cli.models import branches, make
from tests.ui.visitor import assert_usable, session, switch, texts


class Server:
    def address(self, **parameters: str) -> str:
        return str(parameters)


class Keeper:
    ended = False

    def end(self) -> None:
        self.ended = True


@pytest.fixture(autouse=True)
def keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    kept = Keeper()
    monkeypatch.setattr(exploring, "_server", Server())
    monkeypatch.setattr(exploring, "Keeper", lambda: kept)
    monkeypatch.setattr(exploring, "has_display", lambda: False)
    yield kept
    for opened in tuple(exploring._open):
        opened.close()
    offer([])


def asked_for(key: str) -> AppTest:
    app = AppTest.from_file(str(PAGE), default_timeout=120)
    app.query_params["model"] = key
    return app.run()


def test_the_page_opens_on_the_model_that_the_address_names(capsys: pytest.CaptureFixture[str], keeper: Keeper) -> None:
    model, x = make()
    first = fxopt.explore(model.eval(), x, name="first")
    fxopt.explore(model, {"x": x}, name="second")
    assert capsys.readouterr().out.splitlines()[0] == str(first)
    app = asked_for(first.model.key)
    assert_usable(app)
    assert session(app).opened.source.title == "first"
    assert session(app).opened.model is model
    again = fxopt.explore(nn.Sequential(nn.Linear(3, 3)).eval(), torch.rand(2, 3), name="first")
    first.close()  # another model has taken its place
    assert session(asked_for(again.model.key)).opened.model is again.model.model
    again.close()
    assert not keeper.ended, "the second one is open"
    exploring._open[0].close()
    assert keeper.ended
    assert_usable(app.run())  # goes on with another model


def test_a_model_that_is_not_here_is_told_and_another_one_opened() -> None:
    app = asked_for("own:gone")
    assert_usable(app)
    (toast,) = app.toast
    assert toast.value.replace("\\", "") == "The address asks for a model that is not here: own:gone"


def test_the_error_of_a_capture_comes_to_the_caller_and_to_the_page() -> None:
    model, x = branches()
    with pytest.raises(fxopt.CaptureError, match="no way of capturing Branches"):
        fxopt.explore(model.eval(), x, name="branches")
    app = asked_for("own:branches")
    assert not app.exception
    assert "return x * 2 if x.sum() > 0 else x" in "\n".join(one.value for one in app.code)
    assert "The graph up to there" in texts(app)


def test_a_model_in_training_mode_is_opened_with_a_word() -> None:
    with pytest.warns(fxopt.FxoptWarning, match=r"trained is in training mode, .* for inference: model.eval\(\)"):
        opened = fxopt.explore(nn.Linear(3, 3), torch.rand(2, 3), name="trained")
    assert opened.model in offered()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((lambda x: x, (torch.rand(2),)), "opens a torch.nn.Module; this is function"),
        ((nn.ReLU(), 3), "the inputs are of type int; give a tuple"),
        ((nn.ReLU(),), "ReLU"),
        ((), "this is nothing"),
        ((nn.ReLU(), nn.ReLU(), (torch.rand(2),), 4), "this is more"),
        ((torch.fx.symbolic_trace(nn.ReLU()),), "the shape of the input input is unknown; give an example"),
    ],
)
def test_wrong_arguments_open_nothing(given: tuple[Any, ...], message: str) -> None:
    before = offered()
    with pytest.raises(fxopt.FxoptError, match=message):
        fxopt.explore(*given)
    assert offered() == before


def test_a_graph_of_torch_is_not_written_to() -> None:
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4)))
    opened = fxopt.explore(gm, torch.rand(2, 3))
    assert opened.name == "Sequential"
    assert not gm.meta.get("fxopt")
    assert all("tensor_info" not in node.meta for node in gm.graph.nodes)


def test_main_is_given_back_to_a_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = ModuleType("__main__"), ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", mine)
    monkeypatch.setattr(guest, "_MAIN", [])
    guest.give_back_main()
    assert sys.modules["__main__"] is mine
    guest.be_guest()
    monkeypatch.setitem(sys.modules, "__main__", other)
    guest.give_back_main()
    assert sys.modules["__main__"] is mine


def answer(kind: str, query: str = "", cookie: str = "") -> list[Message]:
    """The messages of a gate before an application that answers with 200."""
    sent: list[Message] = []

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "let in"})

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"cookie", cookie.encode())] if cookie else []
    scope = {"type": kind, "path": "/", "query_string": query.encode(), "headers": headers}
    asyncio.run(TokenGate(application, "secret", "fxopt-1")(scope, receive, send))
    return sent


def test_the_gate_lets_in_by_the_token_and_then_by_the_cookie_and_nobody_else() -> None:
    first = answer("http", "model=own%3Aa%26b&token=secret")[0]
    headers = dict(first["headers"])
    assert (first["status"], headers[b"location"]) == (303, b"/?model=own%3Aa%26b")
    assert headers[b"set-cookie"].startswith(b"fxopt-1=secret; Path=/; HttpOnly; SameSite=Strict")
    for kind in ("http", "websocket"):
        for others in ("other=1", 'theme={"dark":true}', "fxopt-1=old", "=;;"):
            assert answer(kind, cookie=f"{others}; fxopt-1=secret") == [{"type": "let in"}]
    assert answer("lifespan") == [{"type": "let in"}]
    for query, cookie in (("", ""), ("token=", ""), ("token=wrong", "fxopt-2=secret"), ("", "fxopt-1=%00; =;;")):
        assert answer("http", query, cookie)[0]["status"] == 403
        assert answer("websocket", query, cookie) == [{"type": "websocket.close", "code": 1008}]
    assert answer("websocket", "token=secret")[0]["type"] == "websocket.close"


def test_a_graph_of_ones_own_code_is_compared_site_by_site() -> None:
    model, x = make()
    before = fxopt.capture(model.eval(), (x,))
    after = copy.deepcopy(before)
    after.graph.find_nodes(op="call_function", target=operator.truediv)[0].target = operator.mul
    after.q = nn.Linear(4, 6)
    after.recompile()
    opened = fxopt.explore(before, after, name="both")
    app = asked_for(opened.model.key)
    assert_usable(app)
    on = session(app).workbench.state_of("your changes")
    assert [(site.site, site.on, site.changed) for site in on.sites] == [
        ("q", True, ("q",)),
        ("truediv", True, ("truediv",)),
    ]
    assert session(app).view.together == "Diff"
    torch.testing.assert_close(session(app).workbench.current(x), after(x))
    switch(app, "your changes", False)
    assert session(app).workbench.is_restored
    assert_usable(app)


def test_the_parts_of_a_captured_graph_have_the_classes_of_the_model() -> None:
    class Block(nn.Sequential):
        """Captured as a plain module."""

    before = fxopt.capture(nn.Sequential(*(Block(nn.Linear(4, 4), nn.ReLU()) for _ in range(2))), (torch.rand(2, 4),))
    opened = fxopt.explore(before, fxopt.core.shared_copy(before), name="blocks")
    app = asked_for(opened.model.key)
    assert "| `0` | Block | 50 % |" in texts(app)


def test_a_pass_that_was_applied_is_compared_and_a_graph_with_passes_in_force_is_no_before() -> None:
    model, x = make()
    before = fxopt.capture(model.eval(), (x,))
    after = fxopt.ChangeTrueDivToMulByInverse()(fxopt.core.shared_copy(before))
    opened = fxopt.explore(before, after)
    graph = opened.model.passes()[0](fxopt.core.shared_copy(before))
    assert [node.target for node in graph.graph.nodes if node.name == "truediv"] == [operator.mul]
    with pytest.raises(fxopt.RewriteError, match=r"give explore\(before, after\)"):
        fxopt.explore(after, x)
    assert fxopt.ChangeTrueDivToMulByInverse().sites_on(after) == ("truediv",), "it is as it was"


def test_a_log_is_stepped_through_by_the_picker() -> None:
    model, x = make()
    gm = fxopt.capture(model.eval(), (x,))
    with fxopt.record(gm) as log:
        fxopt.FuseBatchNorm2dInConv2d()(gm)
        log.step("nothing", lambda gm: None)
        log.step("dead code", lambda gm: gm.graph.eliminate_dead_code())
        fxopt.FuseBatchNorm2dInConv2d()(gm, reverse=True)
    with pytest.raises(fxopt.FxoptError, match="a log and the inputs of its graphs; this is more"):
        fxopt.explore(log, x, x)
    opened = fxopt.explore(log, x)
    titles = [one.title.rpartition(",")[0] for one in (opened.model, *opened.others)]
    assert titles == ["1. FuseBatchNorm2dInConv2d", "4. FuseBatchNorm2dInConv2d, reversed"]
    assert [source.title for source in offered()][:2] == [opened.model.title, opened.others[0].title]
    app = asked_for(opened.model.key)
    assert_usable(app)
    state = session(app).workbench.states[0]
    assert (state.name, state.on, state.sites_on) == ("your changes", True, 1)
    opened.close()
    assert opened.others[0] not in offered()
    with fxopt.record(gm) as empty:
        empty.step("nothing", lambda gm: None)
    with pytest.raises(fxopt.FxoptError, match="no step of this log has changed a graph"):
        fxopt.explore(empty)
