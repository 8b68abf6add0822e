"""The script that Streamlit runs, with its settings beside it.

Both have a folder of their own, because Streamlit imports from the folder of its script before all others.
"""

from fxopt.ui.page import page

if __name__ == "__main__":
    page()
