"""The browser of the tests: the chromium of the system."""

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
