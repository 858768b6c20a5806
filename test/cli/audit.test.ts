// `rondo audit`: counts executions anew at a real server, and says how far it is on a terminal only.
import { beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { ask } from "../fixtures/cli/cli-here-fixture.ts";
import { type Ended, fileServer, jsonLines } from "../fixtures/cli/cli-process-fixture.ts";

const atServer = fileServer({});
const IDS = ["a-1", "a-2", "a-3"];

beforeAll(async () => {
  const { url } = atServer();
  const post = async (path: string, body: object): Promise<void> => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
    expect(answer.status).toBeLessThan(300);
  };
  const phases = [{ name: "go", handlers: { go: { waitFor: "go" } } }];
  await post("/v1/workflows", { rondo: 1, name: "waits", phases });
  for (const id of IDS) await post("/v1/executions", { workflow: "waits", input: {}, id });
});

const rondo = (...args: string[]): Promise<Ended> => ask(args, { cwd: atServer().cwd });

/** Standard error is a terminal until the test is over. */
function onTerminal(): void {
  vi.stubEnv("TERM", "xterm");
  vi.stubEnv("NO_COLOR", "1");
  const before = Object.getOwnPropertyDescriptor(process.stderr, "isTTY");
  Object.defineProperty(process.stderr, "isTTY", { value: true, configurable: true });
  onTestFinished(() => {
    vi.unstubAllEnvs();
    if (before === undefined) Reflect.deleteProperty(process.stderr, "isTTY");
    else Object.defineProperty(process.stderr, "isTTY", before);
  });
}

const SUM = /^3 executions, [\d,]+ events, 3 tasks: 0 lost, 0 counted twice, 0 findings\n$/;

test("all executions are counted; the sum is on stderr, and nothing else where that is no terminal", async () => {
  expect(await rondo("audit")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: expect.stringMatching(SUM) as string,
  });
});

test("those that are named, or so many", async () => {
  const named = await rondo("audit", "a-1", "a-3", "--json");
  expect(jsonLines<{ execution: string }>(named.stdout).map(({ execution }) => execution)).toEqual([
    "a-1",
    "a-3",
  ]);
  const newest = await rondo("audit", "--limit", "2", "--json");
  expect(jsonLines<{ execution: string }>(newest.stdout).map(({ execution }) => execution)).toEqual([
    "a-3",
    "a-2",
  ]);
  expect(await rondo("audit", "nothing")).toMatchObject({ code: 3, stdout: "" });
  expect(await rondo("audit", "--limit", "none")).toMatchObject({ code: 2, stdout: "" });
});

test("on a terminal it says how far it is, in a line that is gone at the end; with --json it does not", async () => {
  onTerminal();
  const { stderr } = await rondo("audit");
  expect(stderr).toContain("auditing 0 executions");
  expect(stderr.split("\u001b[1A\u001b[2K").at(-1)).toMatch(SUM);
  const json = await rondo("audit", "--json");
  expect(json.stderr).toMatch(SUM);
});
