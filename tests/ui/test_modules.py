"""The page's JavaScript comes to the browser as one module for each component."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from fxopt.ui.modules import joined


@pytest.mark.parametrize("entry", ["store", "mount", "layouts", "keys", "hover"])
def test_a_joined_module_imports_nothing_and_says_nothing_twice(entry: str) -> None:
    code = joined(entry)
    assert not re.search(r"^(import|export (?!default))", code, re.MULTILINE)
    assert code.count("export default") == 1
    declared = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", code, re.MULTILINE)
    assert [name for name, times in Counter(declared).items() if times > 1] == []


def test_a_module_stands_behind_those_that_it_imports() -> None:
    code = joined("store")
    scene, camera, pane, picture = (code.index(f"class {name} ") for name in ("Scene", "Camera", "Pane", "Picture"))
    assert max(scene, camera) < pane
    assert scene < picture
    assert code.index("const STYLES = ") < pane
