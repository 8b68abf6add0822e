"""Going to a node, by a key or a button: the modules that hide it are opened, and the node itself is selected."""

from __future__ import annotations

from dataclasses import replace

from streamlit.testing.v1 import AppTest

from fxopt.ui import graph_panel, keys
from fxopt.ui.going import go_to, move_of
from fxopt.ui.viewing import fold, unfold
from tests.ui.visitor import FOLD, act, assert_usable, message, session, switch, texts


def test_a_step_to_a_site_opens_what_hides_it_and_folds_what_the_step_before_opened(app: AppTest) -> None:
    of = session(app)
    unfold(of, frozenset())
    heard = keys.Heard()
    keys.act(of, heard, message(of, [1, "ArrowRight", None]))
    assert (of.view.selected, of.open_modules) == ("stem_norm", {"stem"})
    assert of.view.gone_to[1:] == ("stem_norm", "site 1 of 4")
    keys.act(of, heard, message(of, [2, "ArrowRight", None]))
    assert of.view.selected == of.view.gone_to[1] != "stem_norm"
    assert "stem" not in of.open_modules
    fold(of, "residual")
    assert "residual" not in of.open_modules, "what was opened can be folded by hand"


def test_a_near_miss_and_a_node_that_its_rewrite_took_away_are_gone_to(app: AppTest) -> None:
    switch(app, FOLD, True)
    of = session(app)
    unfold(of, frozenset())
    go_to(of, "stem_norm")
    assert of.view.selected == "stem_norm"
    assert of.view.gone_to[1] == "stem_conv", "what its rewrite left in the graph as it is now"
    assert of.open_modules == {"stem"}
    app.run()
    act(app, "go", "forked_norm").run()
    assert of.view.gone_to[1:] == ("forked_norm", "near miss 1 of 2")
    go_to(of, "nowhere")
    assert (of.view.selected, of.view.gone_to[1], of.view.revealed) == ("nowhere", "", frozenset())


def test_diff_opens_what_has_changed_and_what_the_visitor_folds_stays_folded(app: AppTest) -> None:
    of = session(app)
    unfold(of, frozenset())
    switch(app, FOLD, True)
    assert of.open_modules == frozenset()
    of.view = replace(of.view, together="Diff")
    assert "stem" in of.open_modules
    key, name, told = move_of(of)
    assert (name, told) == ("stem_conv", "Fold BatchNorm2d")
    switch(app, "FuseBatchNorm1dInLinear", True)
    assert move_of(of)[1:] == ("head_hidden", "Fold BatchNorm1d"), "what the last act changed"
    switch(app, "FuseBatchNorm1dInLinear", False)
    assert_usable(app.run())
    fold(of, "stem")
    assert "stem" not in of.open_modules
    fold(of, "stem")
    assert "stem" in of.open_modules
    switch(app, FOLD, False)
    assert of.open_modules == {"stem"}
    assert move_of(of)[0] != key


def test_in_diff_the_inspector_tells_of_the_box_that_was_pointed_at_and_of_its_counterpart(app: AppTest) -> None:
    app.selectbox(key="model").set_value("digits_transformer").run()
    switch(app, "MergeLinears", True)
    of = session(app)
    of.view = replace(of.view, together="Diff")
    for box, shown, link in (("block1_attention_key", "Now", ""), ("block1_attention_key~", "Original", "Became")):
        graph_panel._select(of, box, "Diff")
        app.run()
        assert (of.view.selected, of.view.shown) == ("block1_attention_key", shown)
        assert "calls `block1.attention.key` → **`operator.getitem`**" in texts(app)
        assert ("Became" in texts(app)) == bool(link)
    assert graph_panel._knows(of, "block1_attention_key~")
    go_to(of, "block1_attention_key")
    assert of.view.shown == "Now"
