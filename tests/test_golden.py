"""Each example after the default run of all passes, as text to be read in review.

A pass is named where it has anything to say, so that a new one changes no file but those of models that it acts on.
"""

import pytest
from torch.fx import GraphModule

from fxopt import ALL_PASSES
from fxopt.core import Ledger
from tests import examples
from tests.conftest import Golden
from tests.examples import Example
from tests.passes.declared import EXAMPLES


def as_text(gm: GraphModule) -> str:
    code = gm.code.strip().replace(";  ", "\n        ; ")
    leaves = [(path, module) for path, module in gm.named_modules() if path and not list(module.children())]
    modules = "\n".join(f"    {path}: {module}" for path, module in leaves)
    return f"{code}\n\n{modules}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_the_default_run_of_all_passes(example: Example, golden: Golden) -> None:
    gm = example.graph()
    stages = [f"captured\n\n{as_text(gm)}"]
    for kind in ALL_PASSES:
        pass_ = kind()
        scan = pass_.scan(gm)
        found = [f"  + {match.site}: {pass_.explain(match)}" for match in scan.matches]
        found += [f"  - {miss}" for miss in scan.misses]
        before = len(Ledger.entries_of(gm))
        pass_(gm)
        if found:
            heading = "\n".join([f"== {pass_.name}", *found])
            stages.append(f"{heading}\n\n{as_text(gm)}" if len(Ledger.entries_of(gm)) > before else heading)
    golden.check(example.name.replace(" ", "_"), "\n\n".join(stages) + "\n", needed=example in examples.EXAMPLES)
