"""A headless Chromium, where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str | None:
    """Return why pages cannot be opened here; None if they can."""
    if not any(map(shutil.which, _BROWSERS)) or shutil.which("chromedriver") is None:
        return "no Chromium here: apt-get install chromium chromium-driver, which .ci/run does"
    return None


@contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium with its console and network logged."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(found for name in _BROWSERS if (found := shutil.which(name)))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = Service(shutil.which("chromedriver"), log_output=os.devnull)
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()


def open_page(driver: Any, page: Path, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
    """Open a file in a window of this size, under a light or a dark system theme."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    resize(driver, width, height)
    driver.get(page.as_uri())


def resize(driver: Any, width: int, height: int) -> None:
    """Set the size of the window's contents; narrow ones are those of a phone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def wait_until(driver: Any, condition: Callable[[], bool], seconds: float = 30) -> None:
    """Try a condition every half second; selenium's TimeoutException if it never holds."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, seconds).until(lambda _: condition())
