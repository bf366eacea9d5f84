"""The page as a person sees it: what can be done, and what is shown."""

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 60  # far away: how soon a thing happens is not part of these tests


class Page:
    def __init__(self, browser, address, width, height):
        self.browser = browser
        self.expected = []  # parts of complaints that a test brings about
        browser.switch_to.new_window("tab")
        self.window = browser.current_window_handle
        self.resize(width, height)
        browser.get(address)

    def resize(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def close(self):
        self.browser.switch_to.window(self.window)
        self.forget()
        self.log = self.browser.get_log("browser")
        self.browser.close()
        self.browser.switch_to.window(self.browser.window_handles[0])

    def forget(self):
        """The browser keeps nothing of this page for the next one."""
        self.run("running?.controller.abort(); localStorage.clear(); turns = []")
        self.run_when_done("forget()")

    def complaints(self):
        return [line["message"] for line in self.log if not any(part in line["message"] for part in self.expected)]

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """In one step, as what is found may be replaced at any time; "" where there is nothing."""
        return self.run("return (document.querySelector(arguments[0])?.innerText || '').trim()", selector)

    def said(self):
        """The messages that the next question is sent with, texts only."""
        return self.run("""return messagesOf().map(({role, content}) =>
          [role, typeof content === "string" ? content : content.map(part => part.text ?? part.type).join(" ")])""")

    def reload(self):
        self.run_when_done("keep()")
        self.browser.refresh()
        self.run_when_done("work")

    def run_when_done(self, promise):
        self.browser.execute_async_script(f"const done = arguments[0]; Promise.resolve({promise}).then(() => done())")

    def wait(self, condition, what):
        return WebDriverWait(self.browser, SECONDS, 0.02).until(lambda _: condition(), what)

    def type(self, text, *keys):
        self.find("#question").send_keys(text, *keys)

    def press(self, *keys):
        """Keys for whatever has the focus."""
        self.browser.switch_to.active_element.send_keys(*keys)

    def focused(self):
        """The name that a screen reader has for what has the focus."""
        return self.browser.switch_to.active_element.accessible_name

    def attach(self, *files):
        before = len(self.all("#pending li"))
        self.find("#files").send_keys("\n".join(str(file) for file in files))
        self.wait(lambda: len(self.all("#pending li")) == before + len(files), "the images are attached")

    def be_greedy(self):
        """From now on the likeliest token is taken, so that answers are always the same."""
        self.run("document.getElementById('temperature').value = 0")

    def ask(self, text):
        self.be_greedy()
        self.type(text, Keys.ENTER)

    def answers(self):
        return self.all(".answer")

    def show_answer(self, text, **fields):
        """A question and an answer that is over, as if a model had written it."""
        self.run("""const turn = addQuestion("A question", []); Object.assign(turn, {text: arguments[0]}, arguments[1]);
                    finish(turn); showState();""", text, fields)
        return self.answers()[-1]

    def is_at_end(self):
        return self.run("return document.documentElement.scrollHeight - innerHeight - scrollY") < 2

    def wait_for_answer(self, n=1):
        """The n-th answer when it is over."""
        self.wait(lambda: len(self.all('.answer[aria-busy="false"]')) >= n, f"answer {n} is over")
        return self.answers()[n - 1]

    def facts(self, answer):
        """What is shown below an answer, by name."""
        rows = answer.find_elements(By.CSS_SELECTOR, ".facts dl div")
        return {row.find_element(By.TAG_NAME, "dt").text: row.find_element(By.TAG_NAME, "dd").text for row in rows}

    def prefer_dark(self, dark):
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def is_dark(self):
        red, green, blue = self.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        return red + green + blue < 384

    def is_too_wide(self):
        return self.run("return document.documentElement.scrollWidth > innerWidth")
