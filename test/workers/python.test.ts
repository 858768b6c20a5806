// The worker in plain Python: registers, enumerates in pages, processes, reads results, beats, ends on SIGTERM.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { needCommand } from "../fixtures/need-command.ts";
import { ProcessFixture } from "../fixtures/workers/worker-process-fixture.ts";
import { Proxy } from "../fixtures/workers/worker-proxy-fixture.ts";

const SCRIPT = fileURLToPath(new URL("../../examples/python-worker.py", import.meta.url));

const hasPython = needCommand("python3", "python3");

async function python(url: string): Promise<ChildProcess> {
  const child = spawn("python3", [SCRIPT], {
    env: { ...process.env, RONDO_URL: url },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream }))
    if (/^worker python~.* serves /.test(line)) return child;
  throw new Error("the worker ended before it served");
}

const TEXT = Array.from({ length: 1_200 }, (_, i) => "word ".repeat(i % 5)).join("\n");
const WORDS = TEXT.split(/\s+/).filter((word) => word !== "").length;

test.skipIf(!hasPython)("it does a whole workflow, and SIGTERM ends it with exit code 0", async () => {
  const fixture = await ProcessFixture.open();
  const child = await python(fixture.server.url);
  const output = await fixture.server.rondo.run("word-count", { text: TEXT });
  expect(output).toEqual({ lines: 1_200, words: WORDS });
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});

test.skipIf(!hasPython)(
  "it goes on after the network failed, and a server that has forgotten it",
  async () => {
    const fixture = await ProcessFixture.open();
    const proxy = await Proxy.start(fixture.server.url);
    await python(proxy.url);
    const running = fixture.server.rondo.run("word-count", { text: TEXT });
    proxy.cut();
    const { data } = (await (await fetch(`${fixture.server.url}/v1/workers`)).json()) as {
      data: { id: string }[];
    };
    for (const { id } of data) await fetch(`${fixture.server.url}/v1/workers/${id}`, { method: "DELETE" });
    expect(await running).toEqual({ lines: 1_200, words: WORDS });
  },
);

test.skipIf(!hasPython)("it ends on SIGTERM also while its server is away", async () => {
  const fixture = await ProcessFixture.open();
  const proxy = await Proxy.start(fixture.server.url);
  const child = await python(proxy.url);
  proxy.isDown = true;
  proxy.cut();
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});
