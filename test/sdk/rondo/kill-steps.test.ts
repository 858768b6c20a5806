// Real processes, really killed between and inside steps: what a step did is done once, what it gave is kept.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

const SCRIPT = fileURLToPath(new URL("../../fixtures/sdk/steps-child.mjs", import.meta.url));

/** Runs a life of the process until it says a line that begins so, or ends; then kills it. Returns its lines. */
async function live(directory: string, stopAt: string, until: string): Promise<string[]> {
  const child: ChildProcess = spawn(process.execPath, [SCRIPT, directory, stopAt], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const exit = once(child, "exit");
  const lines: string[] = [];
  if (child.stdout === null) throw new Error("the child has no output");
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (line.startsWith(until)) break;
  }
  child.kill("SIGKILL");
  await exit;
  return lines;
}

test("kill -9 between and inside steps: each runs until it is journaled, and never again", async () => {
  const directory = temporaryDirectory();
  const lives: string[][] = [];
  for (const stopAt of ["in:pack", "after:pack", "in:charge", "after:charge", "in:label", "after:label"])
    lives.push(await live(directory, stopAt, stopAt.replace(":", " ")));
  lives.push(await live(directory, "", "result"));
  expect(lives.slice(0, -1)).toEqual([
    ["in pack"],
    ["in pack", "after pack"],
    ["after pack", "in charge"],
    ["after pack", "in charge", "after charge"],
    // After the sleep the task begins anew: what lies between steps runs again, in each attempt.
    ["after pack", "after charge", "after pack", "after charge", "in label"],
    ["after pack", "after charge", "in label", "after label"],
  ]);
  const last = lives.at(-1) ?? [];
  expect(last.filter((line) => line.startsWith("in "))).toEqual(["in send"]);
  const { done, approval } = JSON.parse(last.at(-1)?.replace("result ", "") ?? "null") as {
    done: string[];
    approval: string;
  };
  expect(approval).toBe("by ann");
  expect(done.map((text) => text.split(" ")[0])).toEqual(["pack", "charge", "label", "send"]);
  // Each by the process that came to its end.
  expect(new Set(done.map((text) => text.split(" ")[2])).size).toBe(4);
});
