"""One site shown for all of its copies."""

from __future__ import annotations

from fxopt.models import ZOO
from fxopt.view import GraphView
from fxopt.workbench import Workbench
from fxopt.workbench.representatives import representatives


def test_one_site_stands_for_its_copies_also_where_another_pass_made_it_possible() -> None:
    source = next(one for one in ZOO if one.key == "digits_transformer")
    model = source.build()
    args, kwargs = source.inputs(model, 8, None)
    wb = Workbench(model, args, kwargs)
    wb.turn_on("MergeLinears")
    wb.turn_on("FuseBiasInLinear")
    found = representatives(wb.states, GraphView.of(wb.pristine), GraphView.of(wb.current))
    merged = next(one for one in found if one.pass_name == "MergeLinears")
    assert merged.copies == 2
    assert merged.nodes[0] == "query_key_value_merged"
    assert sum(one.copies for one in found) == sum(state.sites_on for state in wb.states)
    assert len(found) < sum(state.sites_on for state in wb.states)
    here = {node.name: node.module for node in GraphView.of(wb.current).nodes}
    assert {here[name] for name in merged.nodes} == {"block1.attention"}, "not in the module that was called"
