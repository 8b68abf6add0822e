"""Values of widgets that cannot be read: a browser may send any bytes as the value of any widget.

Streamlit reads them before the page's script begins, or where the widget is drawn, and keeps a value that it cannot
read, such as JSON that is nested too deeply or text for a number. Every later run of that visitor's page would fail.
"""

from __future__ import annotations

from typing import Any

from streamlit.runtime.scriptrunner import get_script_run_ctx


def drop_unreadable() -> int:
    """Drop the values from the visitor's browser that their widgets cannot read; return the number of them."""
    context = get_script_run_ctx()
    if context is None:
        return 0
    sent = context.session_state._state._new_widget_state
    unreadable = [identity for identity in sent if not _is_readable(sent, identity)]
    for identity in unreadable:
        del sent[identity]
    return len(unreadable)


def _is_readable(sent: Any, identity: str) -> bool:
    try:
        sent[identity]
        sent.get_serialized(identity)  # Streamlit writes it again to see whether it has changed
    except KeyError:  # of a widget that is not drawn yet
        return True
    except Exception:  # noqa: BLE001 - each kind of widget has errors of its own
        return False
    return True
