// The example of an agent in a browser page, in Chromium.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { describe, expect, onTestFinished, test } from "vitest";
import { hasBrowser, openPage } from "../fixtures/dashboard/browser-fixture.ts";
import { ROOT } from "../fixtures/docs/page-fixture.ts";

/** Runs the example and returns the address of its page. */
async function runChat(): Promise<string> {
  const env = { ...process.env, PORT: "0" };
  const child = spawn("sh", ["examples/chat/run.sh"], {
    cwd: ROOT,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  onTestFinished(async () => {
    child.kill("SIGTERM");
    await ended;
    expect(child.exitCode).toBe(0);
  });
  for await (const line of createInterface(child.stdout)) {
    const url = /the page is at (\S+),/.exec(line)?.[1];
    if (url !== undefined) return url;
  }
  throw new Error("the example printed no address");
}

describe.runIf(hasBrowser)("the chat", () => {
  test.each([
    ["Approve", "Where is my order? A-17 is refunded."],
    ["Reject", "Where is my order? A-17 was not refunded."],
  ])("streams its words, waits for a person, and goes on: %s", async (button, answer) => {
    const page = await openPage(await runChat());
    await page.getByRole("button", { name: "Ask" }).click();
    await page.getByText("Let me look for the order. It never arrived, so I would refund it.").waitFor();
    await page.getByText("The agent wants to: refund A-17.").waitFor();
    await page.getByRole("button", { name: button }).click();
    await page.getByText(answer).waitFor();
    await page.getByText("Here is what I did.").waitFor();
    await page.locator("#approval").waitFor({ state: "hidden" });
  });
});
