"""The page, from top to bottom."""

from __future__ import annotations

from fxopt.ui.delivery import deliver_all
from fxopt.ui.frame import frame_styles
from fxopt.ui.graph_component import graph_code
from fxopt.ui.guest import give_back_main
from fxopt.ui.learning import begin_awaited, choose_awaited_model
from fxopt.ui.lesson_panel import lesson_panel, lesson_styles
from fxopt.ui.model_picker import model_picker
from fxopt.ui.outside import ask_nobody
from fxopt.ui.panel import BESIDE
from fxopt.ui.refused import refuse_requests
from fxopt.ui.workplace import workplace


def page() -> None:
    """Draw the page for one visitor: to be called in the script that Streamlit runs, after `curtain.begin`."""
    ask_nobody()
    refuse_requests()
    deliver_all()
    give_back_main()
    frame_styles()
    lesson_styles()
    graph_code()
    choose_awaited_model()
    session = model_picker()
    begin_awaited(session)
    if session is not None:
        for name in BESIDE:
            session.drawn.forget(name)  # it comes after the rest, if it comes at all
        workplace(session)
        lesson_panel(session)
