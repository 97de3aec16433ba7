// A browser that a test tells what to do, a JSON object a line on stdin, and that answers in the same way. The
// page is driven from outside and judged by what it shows.
//
//   node page.mjs PLAYWRIGHT CHROMIUM     PLAYWRIGHT is the folder of playwright-core
//   {"do": "open", "url": ..., "size": [W, H], "dark": false, "first": CODE}
//                                         a fresh page, in a browser session of its own; CODE runs before the page's
//   {"do": "get", "value": EXPRESSION}
//   {"do": "press", "key": ...}
//   {"do": "picture", "file": ..., "whole": false}
//   {"do": "complaints"}                                         of the page's console, since it was opened

import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const [playwright, chromium] = process.argv.slice(2);
const browsers = createRequire(import.meta.url)(playwright).chromium;
const quiet = ["quic", "background-networking", "component-update", "sync", "gpu"].map((what) => `--disable-${what}`);
const browser = await browsers.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--no-first-run", ...quiet],
  timeout: 300_000,
});

let page = null;
let complaints = [];

const commands = {
  async open({ url, size, dark, first }) {
    await page?.context().close();
    const context = await browser.newContext({
      ignoreHTTPSErrors: true,
      viewport: { width: size[0], height: size[1] },
      colorScheme: dark ? "dark" : "light",
    });
    page = await context.newPage();
    await page.addInitScript(first);
    complaints = [];
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) complaints.push(message.text());
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.goto(url, { timeout: 300_000, waitUntil: "load" });
  },
  get: ({ value }) => page.evaluate(value),
  press: ({ key }) => page.keyboard.press(key),
  async picture({ file, whole }) {
    await page.screenshot({ path: file, fullPage: whole, timeout: 300_000 });
  },
  complaints: () => complaints,
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command.do](command)) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
