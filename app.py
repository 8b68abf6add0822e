"""The page, from this checkout: ``streamlit run app.py``. `fxopt app` serves it from anywhere."""

from fxopt.ui.page import page

page()
