from fxopt import Workbench, fingerprint
from fxopt.workbench.site_code import site_code
from tests.examples import EXAMPLES

ATTENTION, CONV = EXAMPLES[0], EXAMPLES[3]


def test_the_code_of_a_site_is_the_same_whether_the_site_is_on_or_off() -> None:
    wb = Workbench(ATTENTION.graph())
    told = site_code(wb, "MergeLinears", "q")
    assert [line.partition(" = ")[0] for line in told.before.splitlines()] == ["q", "k", "v"]
    assert [line.partition(" = ")[0] for line in told.after.splitlines()] == ["q_k_v_merged", "q", "k", "v"]
    assert wb.is_restored
    wb.turn_on("MergeLinears")
    before = fingerprint(wb.current)
    assert site_code(wb, "MergeLinears", "q") == told
    assert fingerprint(wb.current) == before


def test_a_fold_removes_its_line_and_rewires_the_one_that_read_it() -> None:
    told = site_code(Workbench(CONV.graph()), "FuseBatchNorm2dInConv2d", "stem_bn")
    assert "stem_bn = " in told.before
    assert "stem_bn" not in told.after
    assert "stem = self.stem" in told.before
    assert "stem = self.stem" in told.after
