from fxopt import Workbench
from fxopt.evidence import lines_of, statements_of
from tests.examples import EXAMPLES


def test_every_node_that_is_computed_has_the_statement_of_the_generated_code() -> None:
    for example in EXAMPLES:
        gm = example.graph()
        found = statements_of(gm)
        for node in gm.graph.nodes:
            if node.op not in ("placeholder", "output"):
                assert found[node.name] in gm.code, (example.name, node.name)
        assert "return " in found["output"]


def test_the_lines_of_a_rewrite_stand_in_the_order_of_the_graph() -> None:
    wb = Workbench(EXAMPLES[0].graph())
    wb.turn_on("MergeLinears")
    site = wb.state_of("MergeLinears").sites[0]
    lines = lines_of(wb.current, {*site.created, *site.changed}).splitlines()
    assert lines[0].startswith("q_k_v_merged = ")
    assert len(lines) == 4
    assert lines_of(wb.current, {"nowhere"}) == ""
