// What is left when the worker is not there to clean up: nothing that runs, and no folder.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rondo-test-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const POOL = fileURLToPath(new URL("../../../dist/src/worker/sandbox/sandbox-pool.js", import.meta.url));
const JAIL = fileURLToPath(new URL("../../../dist/src/worker/sandbox/jail.js", import.meta.url));

/** A worker that runs one script, says the pid of its child, and goes on by `then`. */
async function startWorker(
  expression: string,
  then: string,
  { timeoutMs = 1_000, open = "openSandboxPool({ unsafeNoJail: true, childrenMax: 1 })" } = {},
): Promise<{ pid: number; worker: ReturnType<typeof spawn> }> {
  const source = `
    const { openSandboxPool, SandboxPool } = await import(${JSON.stringify(POOL)});
    const { NO_JAIL } = await import(${JSON.stringify(JAIL)});
    const pool = await ${open};
    const runs = [{ name: "one", expression: ${JSON.stringify(expression)}, timeoutMs: ${timeoutMs} }];
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

/** The process and those under it: in a jail the sandbox is the child of a helper. */
function withChildren(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return [pid, ...(children === "" ? [] : children.split(" ").map(Number).flatMap(withChildren))];
}

function isThere(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}

async function gone(pid: number): Promise<boolean> {
  for (let i = 0; i < 1_200 && isThere(pid); i++) await new Promise((resolve) => setTimeout(resolve, 50));
  return !isThere(pid);
}

/** The folders of children; each test begins and ends without any. */
function folders(): string[] {
  return readdirSync(folder).filter((name) => name.startsWith("rondo-script-"));
}

test.skipIf(process.platform !== "linux").each([
  ["a loop", "s => { console.log(1); for (;;); }"],
  ["a promise that never settles", "s => { console.log(1); return new Promise(() => {}) }"],
])("the child of a worker that was killed ends by itself, even in %s", async (_what, expression) => {
  // The limit is longer than a busy machine takes to get from the log line to the kill.
  const { pid, worker } = await startWorker(expression, "", { timeoutMs: 30_000 });
  expect(folders()).toHaveLength(1);
  worker.kill("SIGKILL");
  expect(await gone(pid)).toBe(true);
  expect(folders()).toEqual([]);
});

// Its limit is far away, so nothing but the worker's end can end it.
test.skipIf(process.platform !== "linux").each([
  ["in the jail of this machine", "openSandboxPool({ unsafeNoJail: true, childrenMax: 1 })"],
  ["without a jail", "new SandboxPool(NO_JAIL, { childrenMax: 1 })"],
])("a child that spins does not outlive a worker that was killed, %s", async (_where, open) => {
  const spin = "s => { console.log(1); for (;;); }";
  const { pid, worker } = await startWorker(spin, "", { timeoutMs: 600_000, open });
  const processes = withChildren(pid);
  onTestFinished(() => processes.filter(isThere).forEach((left) => process.kill(left, "SIGKILL")));
  worker.kill("SIGKILL");
  expect(await Promise.all(processes.map(gone))).toEqual(processes.map(() => true));
  expect(folders()).toEqual([]);
});

test("an idle pool does not keep its process alive", async () => {
  const { pid, worker } = await startWorker("s => { console.log(1) }", "await running.done;");
  const [code] = worker.exitCode === null ? ((await once(worker, "exit")) as [number]) : [worker.exitCode];
  expect(code).toBe(0);
  expect(await gone(pid)).toBe(true);
  expect(folders()).toEqual([]);
});

test("a process that closes its pool goes on afterwards", async () => {
  const then = "await running.done; await pool.close(); console.log('closed'); process.exitCode = 7;";
  const { worker } = await startWorker("s => { console.log(1) }", then);
  const [code] = worker.exitCode === null ? ((await once(worker, "exit")) as [number]) : [worker.exitCode];
  expect(code).toBe(7);
});
