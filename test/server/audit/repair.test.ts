// What follows from a journal and is otherwise: an audit finds it, a repair derives it anew, and the execution goes on.
import { tmpdir } from "node:os";
import { join } from "node:path";
import { flow, workflow } from "rondo";
import { expect, onTestFinished, test } from "vitest";
import { openServer } from "../../../src/compose/compose-server.ts";
import { loadDriver } from "../../../src/store/sqlite/driver.ts";
import { ask } from "../../fixtures/cli/cli-here-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";
import { until } from "../../fixtures/until.ts";

const approval = workflow({ name: "approval" })
  .waitFor("go", { timeout: "1d" })
  .returns(({ phases }) => phases.go.value);

const counter = flow("counter", async ({ waitFor, continueAs }, { n }: { n: number }) => {
  await waitFor("next");
  return n === 2 ? n : continueAs({ n: n + 1 });
});

const OF = "WHERE e = (SELECT e FROM executions WHERE id = 'e1')";
const DAMAGE: Readonly<Record<string, readonly [sql: string, says: string]>> = {
  "a wrong status": [
    "UPDATE executions SET status = 'failed' WHERE id = 'e1'",
    "lists show the status failed",
  ],
  "a wrong phase": ["UPDATE executions SET phase = 'other' WHERE id = 'e1'", "lists show the phase other"],
  "a missing timer": [`DELETE FROM timers ${OF}`, "the stored time is missing"],
  "an extra timer": [
    "INSERT INTO timers SELECT e, 'retry:x', 9e15 FROM executions WHERE id = 'e1'",
    "timer retry:x is stored, but by the journal it is not set",
  ],
};

/** A server on a store with the execution `e1`, which somebody has changed; `again` stops it and opens the next one. */
async function openChanged(
  sql: string,
  before: (server: { readonly url: string }) => Promise<void> = async () => {},
) {
  const directory = join(temporaryDirectory(), "store");
  const open = async () => {
    const server = await openServer({ store: `file:${directory}`, port: 0 });
    server.rondo.serve(approval);
    return server;
  };
  const first = await open();
  await first.rondo.start(approval, {}, { id: "e1" });
  await before(first);
  await first.close();
  const connection = (await loadDriver()).open(join(directory, "rondo.db"));
  connection.exec(sql);
  connection.close();

  let server = await open();
  onTestFinished(() => server.close({ graceMs: 0 }));
  const again = async () => {
    await server.close({ graceMs: 0 });
    server = await open();
    return server;
  };
  return { url: server.url, rondo: server.rondo, again };
}

test.each(Object.keys(DAMAGE))("%s is found, and derived anew", async (what) => {
  const [sql, says] = DAMAGE[what] as readonly [string, string];
  const server = await openChanged(sql);
  const audit = async (method: "GET" | "POST") => {
    const answer = await fetch(`${server.url}/v1/executions/e1/audit`, { method });
    return ((await answer.json()) as { findings: { message: string; isRepaired?: boolean }[] }).findings;
  };
  const found = { code: "differs", seq: 0, message: expect.stringContaining(says) };
  expect(await audit("GET")).toEqual([found]);
  expect(await audit("POST")).toEqual([{ ...found, isRepaired: true }]);
  expect(await audit("GET")).toEqual([]);
  await server.rondo.execution("e1").signal("go", "went on");
  expect(await server.rondo.execution("e1").result()).toBe("went on");
});

test("executions that follow each other under an id have no findings, while the newest is open and after its end", async () => {
  const server = await openServer({ store: `file:${join(temporaryDirectory(), "store")}`, port: 0 });
  onTestFinished(() => server.close({ graceMs: 0 }));
  const { rondo } = server;
  rondo.serve(counter);
  const findings = async (id: string, method = "GET") => {
    const answer = await fetch(`${server.url}/v1/executions/${encodeURIComponent(id)}/audit`, { method });
    return ((await answer.json()) as { findings: object[] }).findings;
  };
  const started = await rondo.start(counter, { n: 1 }, { id: "c" });
  await started.signal("next", null);
  await until("the second one waits", async () => (await started.describe()).id === "c~2");
  expect([await findings("c~1"), await findings("c~2")]).toEqual([[], []]);
  await started.signal("next", null);
  expect(await started.result()).toBe(2);
  await until("the first one knows the end", async () => {
    const { data } = (await (await fetch(`${server.url}/v1/executions`)).json()) as {
      data: { id: string; finishedAt: number }[];
    };
    const { finishedAt } = await rondo.execution("c~1").describe();
    return data.find(({ id }) => id === "c")?.finishedAt !== finishedAt;
  });
  expect([await findings("c~1"), await findings("c~2")]).toEqual([[], []]);
  expect(await findings("c~1", "POST")).toEqual([]);
});

/** Posts JSON, and gives back the answer. */
async function post<T>(url: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  expect(answer.status).toBeLessThan(300);
  return (await answer.json()) as T;
}

/** Registers a worker; gives back a function that claims one task. */
async function register(url: string): Promise<() => Promise<unknown[]>> {
  const wanted = { name: "w", handlers: [{ use: "u" }], capacity: 5 };
  const { worker } = await post<{ worker: string }>(`${url}/v1/workers`, wanted);
  const claim = { max: 1, waitMs: 10_000 };
  return async () => (await post<{ work: unknown[] }>(`${url}/v1/workers/${worker}/claim`, claim)).work;
}

async function readyTask({ url }: { readonly url: string }): Promise<void> {
  const handlers = { only: { use: "u", single: true } };
  await post(`${url}/v1/workflows`, { rondo: 2, name: "task", phases: [{ name: "p", handlers }] });
  await post(`${url}/v1/executions`, { workflow: "task", id: "ready", input: {} });
}

const WANTS = ["none", "nothing"];

test.each(WANTS)(
  "a head that wants %s, with a task: why is true, since it goes on once it is loaded",
  async (want) => {
    const { url } = await openChanged(`UPDATE executions SET want = '${want}' WHERE id = 'ready'`, readyTask);
    const claim = await register(url);
    const why = await (await fetch(`${url}/v1/executions/ready/why`)).json();
    expect(why).toMatchObject({ why: expect.stringContaining("about to give out 1 task") });
    expect(await claim()).toHaveLength(1);
  },
);

test.each(WANTS)("a head that wants %s, with a task, is written again once it is loaded", async (want) => {
  const damaged = await openChanged(`UPDATE executions SET want = '${want}' WHERE id = 'ready'`, readyTask);
  await (await fetch(`${damaged.url}/v1/executions/ready`)).json();
  // The next owner finds the execution by its head alone: nobody asks for it.
  const { url } = await damaged.again();
  const claim = await register(url);
  expect(await claim()).toHaveLength(1);
});

test("rondo audit ends with exit code 1 if something is wrong, and with 0 once all of it is repaired", async () => {
  const [sql, says] = DAMAGE["a wrong status"] as readonly [string, string];
  const { url } = await openChanged(sql);
  const audit = (...flags: string[]) => ask(["audit", "e1", "--url", url, ...flags], { cwd: tmpdir() });
  const found = await audit();
  expect([found.code, found.stdout]).toEqual([1, expect.stringContaining(says)]);
  expect(found.stderr).toMatch(/, 1 finding\n$/);
  const repaired = await audit("--repair");
  expect([repaired.code, repaired.stdout]).toEqual([0, expect.stringMatching(/ \(repaired\)\n$/)]);
  expect(repaired.stderr).toMatch(/, 1 finding, 1 repaired\n$/);
  expect(await audit()).toMatchObject({ code: 0, stdout: "" });
});
