"""A real browser for tests of pages: Chromium without a window and without a network."""

import shutil
from pathlib import Path
from typing import Any

__all__ = ["Page", "find_chromium", "open_chromium"]


def find_chromium() -> tuple[str, str] | None:
    """Return the programs chromium and chromedriver, or None where one is missing."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((path for name in names if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def open_chromium(browser: str, driver: str) -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"),
        *("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--host-resolver-rules=MAP * ~NOTFOUND"),
        *("--disable-background-networking", "--disable-extensions", "--no-first-run", "--force-device-scale-factor=1"),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    opened.set_script_timeout(120)
    return opened


class Page:
    """A page that is open in a browser."""

    def __init__(self, driver: Any, path: Path, *, ready: str = "return document.readyState === 'complete'") -> None:
        self.driver, self.path, self.ready = driver, path, ready

    def show(self) -> Any:
        """Open the page if the browser shows another one, wide and light; return it."""
        self.resize(1280, 900)
        self.media("light")
        if self.driver.current_url.partition("#")[0] != self.path.as_uri():
            self.driver.get_log("browser")  # what earlier pages said
            self.driver.get(self.path.as_uri())
        self.wait(self.ready)
        return self

    def wait(self, script: str, *arguments: Any) -> Any:
        """Wait until a script returns something true; return that."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, 120, poll_frequency=0.05).until(
            lambda driver: driver.execute_script(script, *arguments)
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def media(self, scheme: str, kind: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def table(self, selector: str) -> list[list[str]]:
        script = (
            "return [...document.querySelector(arguments[0]).rows].map(r => [...r.cells].map(c => c.innerText.trim()))"
        )
        return list(self.run(script, selector))

    def messages(self) -> list[str]:
        """Return what the console has been told since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that the page has asked for, beside its own."""
        return list(self.run("return performance.getEntriesByType('resource').map(e => e.name)"))

    def violations(self) -> list[tuple[str, str, str]]:
        """Return what axe-core finds against accessibility: how bad, which rule, and the first element."""
        from axe_core_python import base

        script = (Path(base.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
        self.run(script)
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document).then(result => done(result.violations))"
        )
        return [(rule["impact"], rule["id"], rule["nodes"][0]["html"]) for rule in found]
