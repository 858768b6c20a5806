// What is left when the worker is not there to clean up: nothing that runs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";

// A worker that is killed leaves the (empty) folders of its children behind.
const folder = mkdtempSync(join(tmpdir(), "rondo-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

const POOL = fileURLToPath(new URL("../../dist/script/sandbox-pool.js", import.meta.url));

/** A worker that runs one script, says the pid of its child, and goes on by `then`. */
async function startWorker(
  expression: string,
  then: string,
): Promise<{ pid: number; worker: ReturnType<typeof spawn> }> {
  const source = `
    const { openSandboxPool } = await import(${JSON.stringify(POOL)});
    const pool = await openSandboxPool({ unsafeNoJail: true, childrenMax: 1 });
    const runs = [{ name: "one", expression: ${JSON.stringify(expression)}, timeoutMs: 1000 }];
    const attempt = { project: "a", runs, state: "1", input: "1", attempt: 1 };
    const running = pool.run(attempt, ({ kind }) => kind === "log" && console.log(pool.children[0].pid));
    ${then}`;
  const worker = spawn(process.execPath, ["--input-type=module", "-e", source], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, TMPDIR: folder },
  });
  const [said] = (await once(worker.stdout, "data")) as [Buffer];
  return { pid: Number(said.toString()), worker };
}

async function gone(pid: number): Promise<boolean> {
  for (let i = 0; i < 200 && existsSync(`/proc/${pid}`); i++)
    await new Promise((resolve) => setTimeout(resolve, 50));
  return !existsSync(`/proc/${pid}`);
}

test.skipIf(process.platform !== "linux").each([
  ["a loop", "s => { console.log(1); for (;;); }"],
  ["a promise that never settles", "s => { console.log(1); return new Promise(() => {}) }"],
])("the child of a worker that was killed ends by itself, even in %s", async (_what, expression) => {
  const { pid, worker } = await startWorker(expression, "");
  worker.kill("SIGKILL");
  expect(await gone(pid)).toBe(true);
});

test("an idle pool does not keep its process alive", async () => {
  const { pid, worker } = await startWorker("s => { console.log(1) }", "await running.done;");
  const [code] = worker.exitCode === null ? ((await once(worker, "exit")) as [number]) : [worker.exitCode];
  expect(code).toBe(0);
  expect(await gone(pid)).toBe(true);
});

test("a process that closes its pool goes on afterwards", async () => {
  const then = "await running.done; await pool.close(); console.log('closed'); process.exitCode = 7;";
  const { worker } = await startWorker("s => { console.log(1) }", then);
  const [code] = worker.exitCode === null ? ((await once(worker, "exit")) as [number]) : [worker.exitCode];
  expect(code).toBe(7);
});
