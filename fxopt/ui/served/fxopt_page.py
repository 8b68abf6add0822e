"""The script that Streamlit runs for each visitor, with its settings beside it.

Both have a folder of their own, because Streamlit imports from the folder of its script before all others.
"""

from fxopt.ui.curtain import begin

if __name__ == "__main__":
    curtain = begin()
    from fxopt.ui.page import page  # PyTorch with it

    page()
    curtain.empty()
