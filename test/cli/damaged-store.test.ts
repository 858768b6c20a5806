// Damage that is not of one execution: which file and table it is in, what to do, and exit code 8.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { cli, folder, startCli, startServer } from "../fixtures/cli/cli-process-fixture.ts";

const PROGRAM =
  'import { workflow } from "rondo";\nexport const w = workflow({ name: "w" }).phase("p", { process: (x) => x });\n';
const FLOW = { rondo: 2, name: "waits", phases: [{ name: "go", handlers: { go: { waitFor: "go" } } }] };

async function ask(url: string, path: string, body?: object) {
  const headers = { "content-type": "application/json" };
  const post = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
  const answer = await fetch(url + path, post);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

/** A folder with a store that has the execution `e1`, on which statements were run since. */
async function changedStore(sql = ""): Promise<string> {
  const cwd = folder();
  const { url, process } = await startServer({ cwd });
  expect((await ask(url, "/v1/workflows", FLOW)).status).toBe(201);
  expect((await ask(url, "/v1/executions", { workflow: "waits", input: {}, id: "e1" })).status).toBe(201);
  process.kill("SIGTERM");
  await process.ended;
  const file = (await loadDriver()).open(join(cwd, ".rondo", "rondo.db"));
  if (sql !== "") file.exec(sql);
  file.close();
  return cwd;
}

test("a store without its meta row is damaged, and nothing is changed", async () => {
  const cwd = await changedStore("DELETE FROM meta");
  const path = join(cwd, ".rondo", "rondo.db");
  const before = readFileSync(path);
  const { code, stderr } = await cli(["start", "--port", "0"], { cwd });
  expect([code, stderr]).toEqual([
    8,
    expect.stringMatching(/rondo\.db is damaged in meta: .*rondo restore FILE/s),
  ]);
  expect(stderr).not.toContain("bug");
  expect(readFileSync(path).equals(before)).toBe(true);
});

test("a wrong number of partitions is told, and the store works", async () => {
  const cwd = await changedStore("UPDATE meta SET partitions = 7");
  const { url, process } = await startServer({ cwd });
  await process.line(/the table meta says that there are 7 partitions, but an embedded store has one/);
  expect((await ask(url, "/v1/executions/e1/signals", { name: "go" })).status).toBe(200);
});

test("a page that is garbled is told with its table", async () => {
  const cwd = await changedStore();
  const path = join(cwd, ".rondo", "rondo.db");
  const file = (await loadDriver()).open(path);
  const { page } = file
    .prepare("SELECT rootpage AS page FROM sqlite_schema WHERE name = 'journal'")
    .get<{ page: number }>([]) as { page: number };
  file.close();
  const bytes = readFileSync(path);
  bytes.fill(0xa5, (page - 1) * 4_096, (page - 1) * 4_096 + 64);
  const copy = folder();
  mkdirSync(join(copy, ".rondo"), { mode: 0o700 });
  writeFileSync(join(copy, ".rondo", "rondo.db"), bytes, { mode: 0o600 });
  const { code, stderr } = await cli(["start", "--port", "0"], { cwd: copy });
  expect([code, stderr]).toEqual([8, expect.stringContaining("rondo.db is damaged in journal: ")]);
});

test("tasks and commands of an execution with a damaged definition are refused like its other data", async () => {
  const cwd = await changedStore(
    "UPDATE definitions SET body = substr(body, 1, 9) || '~' || substr(body, 11)",
  );
  const { url } = await startServer({ cwd });
  expect(await ask(url, "/v1/executions/e1")).toMatchObject({ body: { status: "damaged" } });
  const [own, inProject] = ["/v1/executions/e1", "/v1/projects/default/workflows"];
  expect(await ask(url, inProject)).toMatchObject({ status: 200 });
  for (const path of [`${own}/tasks`, `${own}/tasks/states`, `${inProject}/e1`])
    expect([path, await ask(url, path)]).toMatchObject([
      path,
      { status: 409, body: { code: "wrong_status", hint: expect.stringContaining("restore") } },
    ]);
});

test("a damaged spool is told once and kept, and the worker works", async () => {
  const cwd = folder({ "flow.ts": PROGRAM });
  const { socket } = await startServer({ cwd });
  expect(socket).toContain("rondo.sock");
  const spool = join(cwd, "spool");
  mkdirSync(spool);
  const file = join(spool, "1-1-1.spool");
  writeFileSync(file, "garbage\n\u0000\n");
  const worker = startCli(["worker", "flow.ts", "--spool", "spool"], { cwd });
  await worker.line(/a spool file is damaged: 2 of its lines cannot be read/);
  await worker.line(/worker \S+ serves/);
  worker.kill("SIGTERM");
  await worker.ended;
  const again = startCli(["worker", "flow.ts", "--spool", "spool"], { cwd });
  await again.line(/worker \S+ serves/);
  expect(again.lines(/spool file is damaged/)).toBe(0);
  rmSync(spool, { recursive: true });
});
