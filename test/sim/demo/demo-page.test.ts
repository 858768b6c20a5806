// The demo in a browser: what is on the page, and its buttons.
import { expect, test } from "vitest";
import { CliProcess, folder } from "../../fixtures/cli/cli-process-fixture.ts";
import { findBarriers, hasBrowser, openPage } from "../../fixtures/dashboard/browser-fixture.ts";

test.runIf(hasBrowser)(
  "the page shows all parts as they are played, and its buttons do harm",
  async () => {
    const demo = new CliProcess("dist/tools/demo/main.js", ["--exit", "--tasks", "40000"], { cwd: folder() });
    const url = /http:\S+/.exec(await demo.line(/^ {2}page /))?.[0] ?? "";
    const page = await openPage(url);
    page.setDefaultTimeout(60_000);
    await page.getByRole("button", { name: "Kill a worker" }).click();
    await page.getByText(/^Worker-\d+ \(pid \d+\) was killed with -9\.$/).waitFor();
    await page.getByRole("button", { name: "Duplicate messages" }).click();
    await page.getByRole("button", { name: "Duplicate messages", pressed: true }).waitFor();
    expect(await page.getByRole("button", { name: "Play again" }).count()).toBe(0);
    await page.getByRole("img", { name: /^[\d,]+ tasks: .*done/ }).waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.getByText("✓ 0 lost, 0 counted twice").waitFor();
    await page.getByText("40000 tasks were done, each of them counted once").waitFor();
    await page.getByText(/below 10000 there are 1229 primes/).waitFor();
    expect(await demo.ended).toMatchObject({ code: 0, stderr: "" });
  },
  180_000,
);
