// Verbs about executions, at a real server.
import { beforeAll, describe, expect, test } from "vitest";
import { ask } from "../fixtures/cli/cli-here-fixture.ts";
import {
  cli,
  type Ended,
  fileServer,
  folder,
  jsonLines,
  startCli,
  startServer,
} from "../fixtures/cli/cli-process-fixture.ts";

const FLOWS = `
import { flow, workflow } from "rondo";
export const sum = workflow<{ n: number }>({ name: "sum" })
  .phase("add", {
    *enumerate({ input }) { for (let i = 0; i < input.n; i++) yield i; },
    process({ task, log }) {
      log("adding", task);
      if (task === 1) log.warn("one");
      if (task === 2) throw new Error("two is too much");
      return task;
    },
    retry: { attempts: 1 },
    tolerate: 1,
  })
  .returns(({ phases }) => phases.add.reduce((total, n) => total + n, 0));
export const entity = flow("entity", async ({ waitFor, continueAs }, n: number) =>
  n === 3 ? waitFor("end") : continueAs(n + 1));
export const fails = workflow({ name: "fails" }).phase("p", {
  tasks: [0, 1],
  process({ task }) { if (task === 1) throw new Error("no"); return task; },
  retry: { attempts: 1 },
});`;
const APPROVAL = JSON.stringify({
  rondo: 1,
  name: "approval",
  phases: [
    { name: "approved", handlers: { approved: { waitFor: "approved" } } },
    { name: "nap", handlers: { nap: { sleep: "1ms" } } },
  ],
});

interface View {
  readonly id: string;
  readonly status: string;
  readonly revision: number;
}

const atServer = fileServer({ "flows.ts": FLOWS, "approval.json": APPROVAL });
beforeAll(() => put(atServer().url, APPROVAL));

/** The server of all tests, and rondo in its folder. */
function world() {
  const server = atServer();
  const { cwd } = server;
  const rondo = (...args: string[]): Promise<Ended> => ask(args, { cwd });
  const json = async <T>(...args: string[]): Promise<T> => {
    const { stdout } = await ok(rondo(...args, "--json"));
    return jsonLines<T>(stdout)[0] as T;
  };
  return { cwd, server, rondo, json };
}

async function put(url: string, definition: string): Promise<void> {
  const headers = { "content-type": "application/json" };
  const { ok: isPut } = await fetch(`${url}/v1/workflows`, { method: "POST", headers, body: definition });
  expect(isPut).toBe(true);
}

async function ok(ended: Promise<Ended>): Promise<Ended> {
  const { code, stderr, ...rest } = await ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr });
  return { code, stderr, ...rest };
}

describe("reading", () => {
  test("ps lists, filters and bounds; as a table and as lines of JSON", async () => {
    const cwd = folder();
    const { url } = await startServer({ cwd });
    await put(url, APPROVAL);
    const rondo = (...args: string[]): Promise<Ended> => ask(args, { cwd });
    expect(await rondo("ps")).toMatchObject({ code: 0, stdout: "", stderr: "no executions\n" });
    for (const id of ["a", "b", "c"]) await ok(rondo("run", "approval", "--id", id, "--project", id));
    await ok(rondo("cancel", "b"));
    const table = (await ok(rondo("ps"))).stdout.trimEnd().split("\n");
    expect(table[0]).toMatch(/^ID +WORKFLOW +PROJECT +STATUS +PHASE +TASKS +AGE +TOOK$/);
    expect(table.slice(1).map((line) => line.split(/ {2,}/).slice(0, 5))).toEqual([
      ["c", "approval", "c", "running", "approved"],
      ["b", "approval", "b", "cancelled", "-"],
      ["a", "approval", "a", "running", "approved"],
    ]);
    for (const mark of ["\t", "\x1b"]) expect(table.join("")).not.toContain(mark);
    const ids = async (...args: string[]): Promise<string[]> =>
      jsonLines<View>((await ok(rondo("ps", "--json", ...args))).stdout).map(({ id }) => id);
    expect(await ids()).toEqual(["c", "b", "a"]);
    expect(await ids("--status", "cancelled")).toEqual(["b"]);
    expect(await ids("--project", "a")).toEqual(["a"]);
    expect(await ids("--workflow", "other")).toEqual([]);
    expect(await ids("--limit", "2")).toEqual(["c", "b"]);
    expect((await rondo("ps", "--limit", "2")).stderr).toContain("there are more than 2");
    expect((await rondo("ps", "--status", "lost")).code).toBe(2);
  });

  test("an entity is one line of ps; inspect names the execution before and the one after", async () => {
    const { rondo, json, cwd } = world();
    const worker = startCli(["worker", "flows.ts"], { cwd });
    await worker.line(/serves/);
    await ok(rondo("run", "entity", "-i", "1", "--id", "entity-1"));
    while ((await json<View>("inspect", "entity-1")).id !== "entity-1~3");
    const table = (await ok(rondo("ps", "--workflow", "entity"))).stdout.trimEnd().split("\n");
    expect(table.slice(1).map((line) => line.split(/ {2,}/)[0])).toEqual(["entity-1~3"]);
    const { stderr } = await rondo("ps", "--workflow", "entity");
    expect(stderr).toContain("2 executions that continued as others are left out; --continued shows them");
    const all = await ok(rondo("ps", "--workflow", "entity", "--continued", "--json"));
    expect(jsonLines<View>(all.stdout).map(({ id }) => id)).toEqual(["entity-1~3", "entity-1~2", "entity-1"]);
    const second = (await ok(rondo("inspect", "entity-1~2"))).stdout;
    expect(second).toMatch(/^continues +entity-1~1$/m);
    expect(second).toMatch(/^continued +as entity-1~3$/m);
    await ok(rondo("signal", "entity-1", "end"));
    await ok(rondo("wait", "entity-1"));
  });

  test("inspect shows all of it, now and after any event; tasks, logs and events show their parts", async () => {
    const { rondo, json } = world();
    const ran = await rondo("run", "flows.ts", "--workflow", "sum", "-i", '{"n":4}', "--id", "s");
    expect(ran).toMatchObject({ code: 0, stdout: "4\n" });

    const view = await json<View>("inspect", "s");
    expect(view).toMatchObject({ id: "s", status: "done", input: { n: 4 }, output: 4 });
    expect(await json<View>("inspect", "s", "--at", "2")).toMatchObject({ status: "running", revision: 2 });
    const shown = (await ok(rondo("inspect", "s"))).stdout;
    for (const part of [/^status +done$/m, /^output +4$/m, /^add +done +add +4 +3 +1$/m])
      expect(shown).toMatch(part);

    const failed = await json<unknown>("tasks", "s", "--failed");
    expect(failed).toMatchObject({
      phase: "add",
      handler: "add",
      n: 2,
      error: { message: "two is too much" },
    });
    const tasks = await ok(rondo("tasks", "s", "--phase", "add", "--json", "--full"));
    expect(
      jsonLines<{ n: number; status: string; task: unknown }>(tasks.stdout).map((row) => [
        row.n,
        row.status,
        row.task,
      ]),
    ).toEqual([
      [0, "done", 0],
      [1, "done", 1],
      [2, "failed", 2],
      [3, "done", 3],
    ]);
    expect((await ok(rondo("tasks", "s", "--phase", "add"))).stdout).toMatch(
      /^add +add +2 +failed +1 .*two is too much$/m,
    );
    expect(await rondo("tasks", "s", "--phase", "nope")).toMatchObject({ code: 3 });

    const events = jsonLines<{ seq: number; kind: string }>(
      (await ok(rondo("events", "s", "--json"))).stdout,
    );
    expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: view.revision }, (_, i) => i + 1));
    const last = await ok(rondo("events", "s", "--from", String(view.revision)));
    expect(last.stdout).toMatch(/^ +\d+ \d\d:\d\d:\d\d\.\d{3} finished status=done output=4 round=1\n$/);
    expect((await ok(rondo("events", "s", "--full", "--json"))).stdout).toContain('"result":3');

    const logs = jsonLines<{ text: string; level: string }>((await ok(rondo("logs", "s", "--json"))).stdout);
    expect(logs.map(({ text }) => text)).toEqual(["adding 0", "adding 1", "one", "adding 2", "adding 3"]);
    const warned = await ok(rondo("logs", "s", "--level", "warn", "-f"));
    expect(warned.stdout).toMatch(/^\d\d:\d\d:\d\d\.\d{3} add\/add#1 one\n$/);
  });

  test("events -f and logs -f follow until the execution is over; Ctrl-C stops following only", async () => {
    const { cwd, rondo } = world();
    await ok(rondo("run", "approval", "--id", "f"));
    const events = startCli(["events", "f", "-f", "--json"], { cwd });
    const logs = startCli(["logs", "f", "-f"], { cwd });
    const left = startCli(["events", "f", "-f"], { cwd });
    await Promise.all([events.line(/handler\.started/), left.line(/handler\.started/)]);
    left.kill("SIGINT");
    expect((await left.ended).code).toBe(130);
    await ok(rondo("signal", "f", "approved"));
    const followed = await events.ended;
    expect(followed.code).toBe(0);
    const kinds = jsonLines<{ kind: string }>(followed.stdout).map(({ kind }) => kind);
    expect([kinds[0], kinds.at(-1)]).toEqual(["workflow.created", "workflow.finished"]);
    expect(await logs.ended).toMatchObject({ code: 0, stdout: "" });
  });

  test("events -f of what was retried goes on through its rounds", async () => {
    const { cwd, rondo } = world();
    await ok(rondo("run", "approval", "--id", "rounds"));
    await ok(rondo("cancel", "rounds"));
    expect(await rondo("wait", "rounds")).toMatchObject({ code: 7 });
    await ok(rondo("retry", "rounds"));
    const events = startCli(["events", "rounds", "-f", "--json"], { cwd });
    await events.line(/workflow\.retried/);
    await ok(rondo("signal", "rounds", "approved"));
    const followed = await events.ended;
    expect(followed.code).toBe(0);
    const shown = jsonLines<{ seq: number; kind: string; round?: number }>(followed.stdout);
    expect(shown.map(({ seq }) => seq)).toEqual(Array.from({ length: shown.length }, (_, i) => i + 1));
    expect(shown.at(-1)).toMatchObject({ kind: "workflow.finished", round: 2 });
    const again = await ok(rondo("events", "rounds", "-f", "--json"));
    expect(again.stdout).toBe(followed.stdout);
  });
});

describe("changing", () => {
  test("pause, resume, signal, cancel and retry say what became of it; why says what it waits for", async () => {
    const { cwd, rondo, json } = world();
    await ok(rondo("run", "approval", "--id", "x"));
    expect((await ok(rondo("why", "x"))).stdout).toBe('"approved" waits for the signal "approved".\n');
    expect(await rondo("pause", "x", "--reason", "lunch")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringContaining("it is paused") as string,
    });
    expect(await json<unknown>("why", "x")).toMatchObject({
      id: "x",
      why: expect.stringContaining("lunch") as string,
    });
    expect(await json<View>("resume", "x")).toMatchObject({ id: "x", status: "running" });
    expect(await rondo("resume", "x")).toMatchObject({ code: 4 });
    // A misspelt name is kept, and the sender sees what the execution waits for.
    expect(await rondo("signal", "x", "aproved")).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/is kept until.*\n.*waits for the signal "approved"/) as string,
    });
    const signal = cli(["signal", "x", "approved", "-d", "-", "--id", "once"], { cwd, stdin: '{"by":"jo"}' });
    await ok(signal);
    expect(await rondo("wait", "x")).toMatchObject({ code: 0, stdout: "null\n" });
    const sent = jsonLines<{ kind: string; data?: unknown }>((await rondo("events", "x", "--json")).stdout);
    expect(sent.filter(({ kind }) => kind === "workflow.signalled")).toMatchObject([
      { signal: "aproved" },
      { data: { by: "jo" } },
    ]);
    expect(await rondo("cancel", "x")).toMatchObject({ code: 4 });
    expect(await rondo("signal", "x", "approved")).toMatchObject({ code: 4 });
  });

  test("retry of chosen tasks: by number, by handler and by error; a dry run counts them", async () => {
    const { rondo, json } = world();
    expect(await rondo("run", "flows.ts", "--workflow", "fails", "--id", "chosen")).toMatchObject({
      code: 1,
    });
    const retry = (...more: string[]) => rondo("retry", "chosen", ...more);
    const counted = await ok(retry("--phase", "p", "--handler", "p", "--dry-run"));
    expect(counted.stdout + counted.stderr).toContain('1 task of "p" would run again');
    expect(await json<unknown>("retry", "chosen", "--error", "Error", "--dry-run")).toEqual({
      tasks: 1,
      skipped: [],
    });
    expect(await retry("--phase", "p", "--tasks", "0")).toMatchObject({ code: 4 });
    expect(await retry("--phase", "p", "--visit", "2")).toMatchObject({ code: 3 });
    expect(await retry("--error", "Other")).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("errors there: Error (1 task)") as string,
    });
    expect(await retry("--error", "Error", "--tasks", "1")).toMatchObject({ code: 2 });
    expect((await ok(rondo("dlq", "--execution", "chosen"))).stdout).toContain("Error: ");
    expect(await retry("--tasks", "1")).toMatchObject({ code: 2 });
    for (const wrong of ["1,", "", "0-1", "0x1", "1.5"])
      expect(await retry("--phase", "p", `--tasks=${wrong}`)).toMatchObject({ code: 2 });
    expect(await retry("--phase", "p", "--visit", "last")).toMatchObject({ code: 2 });
    const again = await ok(retry("--phase", "p", "--tasks", "1"));
    expect(again.stdout + again.stderr).toContain('1 task of "p" runs again');
    expect((await json<View>("inspect", "chosen")).status).toBe("running");
    await ok(rondo("run", "flows.ts", "--workflow", "sum", "--id", "tolerated", "-i", '{"n":3}'));
    const repaired = await ok(rondo("retry", "tolerated", "--error", "Error"));
    expect(repaired.stdout + repaired.stderr).toContain('1 task with the error "Error" runs again');
  });

  test("a second cancel says that it cleans up; with --force the rest is left out, and why says so", async () => {
    const { rondo } = world();
    const wait = (name: string) => ({ name, handlers: { [name]: { waitFor: name } } });
    const tidy = { rondo: 1, name: "tidy", phases: [wait("work"), wait("sweep")], onCancel: "sweep" };
    await put(atServer().url, JSON.stringify(tidy));
    await ok(rondo("run", "tidy", "--id", "t"));
    const cancel = async (...more: string[]) => (await ok(rondo("cancel", "t", ...more))).stderr;
    expect(await cancel("--force")).toContain("to skip the rest of its clean-up: rondo cancel t --force");
    expect(await cancel()).toContain("execution t cleans up already, so this cancel changes nothing");
    expect(await cancel("--force")).toContain("execution t skips the rest of its clean-up");
    const { stdout } = await ok(rondo("why", "t"));
    expect(stdout).toContain(
      'Its clean-up is not complete: 1 task of "sweep" did not run. To run it: rondo retry t.',
    );
  });

  test("a signal starts an execution that is not there, and the next one after its end", async () => {
    const { rondo } = world();
    const signal = (...more: string[]) =>
      rondo("signal", "y", "approved", "-d", '{"by":"jo"}', "--start", "approval", ...more);
    expect(await signal()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("execution y was started and has received the signal") as string,
    });
    await ok(rondo("wait", "y"));
    expect(await signal()).toMatchObject({ code: 4 });
    expect(await rondo("signal", "y", "approved")).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("rondo signal y approved --start approval -i ... --new") as string,
    });
    expect((await ok(signal("--new"))).stderr).toContain("execution y~2 was started");
    expect(await rondo("signal", "y", "approved", "--new")).toMatchObject({ code: 2 });
  });

  test("what is not there is 3, what is wrong is 2, and nothing is on stdout", async () => {
    const { rondo } = world();
    const refusals: [args: string[], code: number][] = [
      [["inspect", "nope"], 3],
      [["events", "nope"], 3],
      [["events", "nope", "-f"], 3],
      [["tasks", "nope"], 3],
      [["logs", "nope"], 3],
      [["why", "nope"], 3],
      [["wait", "nope"], 3],
      [["cancel", "nope"], 3],
      [["signal", "nope", "s"], 3],
      [["run", "nope"], 3],
      [["run", "approval", "--id", "no~tilde"], 2],
      [["signal", "nope", "s", "-d", "{"], 2],
      [["wait", "nope", "--timeout", "soon"], 2],
      [["inspect", "nope", "--at", "0"], 2],
      [["logs", "nope", "--task", "x"], 2],
    ];
    for (const [args, code] of refusals) {
      const ended = await rondo(...args);
      expect({ args, code: ended.code, stdout: ended.stdout }).toEqual({ args, code, stdout: "" });
      expect(ended.stderr).toMatch(/^rondo: ./);
    }
  });
});

describe("waiting", () => {
  test("gives the output and an exit code by how it ended", async () => {
    const { rondo, server, cwd } = world();
    await ok(rondo("run", "approval", "--id", "late"));
    expect(await rondo("wait", "late", "--timeout", "10ms")).toMatchObject({
      code: 124,
      stdout: "",
      stderr: expect.stringContaining("to continue the execution: rondo wait late") as string,
    });
    const waiting = startCli(["wait", "late", "--url", server.url], { cwd });
    await waiting.line(/execution late goes on/);
    await ok(rondo("cancel", "late", "--reason", "no need"));
    expect(await waiting.ended).toMatchObject({ code: 7, stdout: "" });
    const failed = await rondo("run", "flows.ts", "--workflow", "fails", "--id", "bad");
    expect(failed).toMatchObject({ code: 1, stdout: "" });
    const told = await rondo("wait", "bad", "--json");
    expect(told.code).toBe(1);
    expect(JSON.parse(told.stdout)).toMatchObject({ id: "bad", status: "failed", error: { task: 1 } });
    expect(told.stderr).toContain("rondo retry bad");
  });

  test("is left by Ctrl-C with 130, and the execution goes on", async () => {
    const { cwd, rondo, json } = world();
    await ok(rondo("run", "approval", "--id", "w"));
    const waiting = startCli(["run", "approval", "--id", "w", "--wait"], { cwd });
    await waiting.line(/execution w goes on/);
    waiting.kill("SIGINT");
    expect(await waiting.ended).toMatchObject({
      code: 130,
      stdout: "",
      stderr: expect.stringContaining("to continue the execution: rondo wait w\n") as string,
    });
    expect(await json<View>("inspect", "w")).toMatchObject({ status: "running" });
  });
});

describe("running by name", () => {
  test("returns at once with the id; the same id and input go on, another input is a conflict", async () => {
    const { rondo, json } = world();
    expect(await rondo("run", "approval", "--id", "n", "-i", '{"a":1}')).toMatchObject({
      code: 0,
      stdout: "n\n",
    });
    expect(await rondo("run", "approval", "--id", "n", "-i", '{"a":1}')).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("execution n goes on") as string,
    });
    expect(await rondo("run", "approval", "--id", "n", "-i", '{"a":2}')).toMatchObject({ code: 4 });
    const made = await json<View>("run", "approval");
    expect(made).toMatchObject({ status: "running" });
    await ok(rondo("signal", made.id, "approved", "-d", "5"));
    expect(await rondo("run", "approval", "--id", made.id, "--wait")).toMatchObject({
      code: 0,
      stdout: "null\n",
    });
  });

  test("needs a server: 6 with the next step if there is none, or it does not answer", async () => {
    const cwd = folder();
    for (const args of [["run", "approval"], ["ps"], ["why", "x"], ["token", "list"]]) {
      const ended = await cli(args, { cwd });
      expect(ended).toMatchObject({ code: 6, stdout: "" });
      expect(ended.stderr).toContain("no server works on file:.rondo\n  start one: rondo start\n  if you");
    }
    const server = await startServer({ cwd });
    server.process.kill("SIGKILL");
    await server.process.ended;
    for (const args of [["ps"], ["ps", "--url", server.url]])
      expect(await cli(args, { cwd })).toMatchObject({
        code: 6,
        stderr: expect.stringContaining("rondo start") as string,
      });
  });
});

test("ps lists the executions with all of the given tags", async () => {
  const cwd = folder();
  const { url } = await startServer({ cwd });
  const waits = { rondo: 2, name: "waits", phases: [{ name: "go", handlers: { go: { waitFor: "go" } } }] };
  const post = async (path: string, body: unknown) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    expect(answer.ok).toBe(true);
  };
  await post("/v1/workflows", waits);
  for (const [id, tags] of [
    ["one", { team: "ops", tier: "gold" }],
    ["two", { team: "ops" }],
    ["three", { team: "web", tier: "gold" }],
  ])
    await post("/v1/executions", { workflow: "waits", id, tags });
  const ids = async (...tags: string[]) => {
    const { code, stdout } = await cli(["ps", ...tags.flatMap((tag) => ["--tag", tag])], { cwd });
    expect(code).toBe(0);
    return Array.from(stdout.matchAll(/^(one|two|three) /gm), ([, id]) => id);
  };
  // The index of tags follows the commits.
  await expect.poll(() => ids("team"), { timeout: 30_000 }).toEqual(["three", "two", "one"]);
  expect(await ids("team=ops")).toEqual(["two", "one"]);
  expect(await ids("team=ops", "tier=gold")).toEqual(["one"]);
  expect(await ids("team=none")).toEqual([]);
});
