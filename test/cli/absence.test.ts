// Verbs that follow an execution say when the server goes away and when it is back, once each, and lose nothing.
import { expect, test } from "vitest";
import { outlastAbsence } from "../../src/cli/server/outlast-absence.ts";
import type { Fetch } from "../../src/client/transport.ts";
import type { Clock } from "../../src/std/clock.ts";
import { cli, folder, startCli, startServer } from "../fixtures/cli/cli-process-fixture.ts";

const WAITS = `
import { workflow } from "rondo";
export const waits = workflow({ name: "waits" })
  .phase("say", { process: ({ log }) => log("said") })
  .waitFor("go");`;

interface Request {
  readonly method?: string;
  readonly accept?: string;
  readonly signal?: AbortSignal;
}

/** A fetch that answers or fails as it is told, over a clock that is moved by hand. */
function world() {
  const said: string[] = [];
  let [now, asked, answers] = [0, 0, false];
  let due: (() => void) | null = null;
  const clock = {
    now: () => now,
    after: (ms: number, then: () => void) => {
      due = () => {
        now += ms;
        then();
      };
      return () => {};
    },
  } as unknown as Clock;
  const bare = (async () => {
    asked++;
    if (!answers) throw new Error("refused");
    return { status: 200 };
  }) as unknown as Fetch;
  const fetch = outlastAbsence(bare, { name: "it", say: (line) => said.push(line), clock });
  const ask = (works: boolean, { method = "GET", accept = "text/event-stream", signal }: Request = {}) => {
    answers = works;
    const request = { method, headers: { accept }, ...(signal === undefined ? {} : { signal }) };
    return fetch("/", request).then(
      () => "answered",
      () => "failed",
    );
  };
  /** Lets the time pass that is waited for; false if none is. */
  const pass = async (): Promise<boolean> => {
    await new Promise((resolve) => setImmediate(resolve));
    const [then] = [due];
    due = null;
    then?.();
    return then !== null;
  };
  return { said, ask, pass, asked: () => asked, answer: (works: boolean) => void (answers = works) };
}

const AWAY = "it does not answer; trying again";
const BACK = "it answers again";

test("only a server that has answered is missed, from the second failure in a row, and once", async () => {
  const { said, ask } = world();
  for (const works of [false, false, true, false, true]) await ask(works);
  const signal = AbortSignal.abort();
  for (const works of [false, false]) await ask(works, { signal });
  expect(said).toEqual([]);
  for (const works of [false, false, false]) await ask(works);
  expect(said).toEqual([AWAY]);
  for (const works of [true, true, false, true]) await ask(works);
  expect(said).toEqual([AWAY, BACK]);
});

test("what is read is asked for again until it is back, or for a minute; what is done is not", async () => {
  const { said, ask, pass, asked, answer } = world();
  const read = { accept: "application/json" };
  expect(await ask(false, read)).toBe("failed");
  expect(await ask(true, read)).toBe("answered");
  const waited = ask(false, read);
  for (let i = 0; i < 3; i++) expect(await pass()).toBe(true);
  answer(true);
  await pass();
  expect(await waited).toBe("answered");
  expect([asked(), said]).toEqual([7, [AWAY, BACK]]);
  expect(await ask(false, { ...read, method: "POST" })).toBe("failed");
  await ask(true, read);
  const lost = ask(false, read);
  let pauses = 0;
  while (await pass()) pauses++;
  expect([await lost, pauses]).toEqual(["failed", 300]);
  expect(said).toEqual([AWAY, BACK, AWAY]);
});

/** Brings the execution to where it waits. */
async function work(cwd: string): Promise<void> {
  const worker = startCli(["run", "waits.ts", "--id", "w"], { cwd });
  await worker.line(/^go: started/);
  worker.kill("SIGTERM");
  await worker.ended;
}

test.each(["SIGKILL", "SIGTERM"] as const)(
  "a server that ends by %s is missed, and found again",
  async (end) => {
    const cwd = folder({ "waits.ts": WAITS });
    const first = await startServer({ cwd });
    await work(cwd);
    const followers = [
      ["events", "w", "--follow"],
      ["logs", "w", "--follow"],
      ["wait", "w"],
      ["run", "waits", "--id", "w", "--wait"],
    ].map((args) => startCli(args, { cwd }));
    await followers[0]?.line(/created/);
    await followers[1]?.line(/said/);
    for (const follower of followers.slice(2)) await follower.line(/goes on/);
    first.process.kill(end);
    await first.process.ended;
    for (const follower of followers) await follower.line(/^file:\.rondo does not answer; trying again$/);
    await startServer({ cwd });
    for (const follower of followers) await follower.line(/^file:\.rondo answers again$/);
    expect(await cli(["signal", "w", "go"], { cwd })).toMatchObject({ code: 0 });
    const ended = await Promise.all(followers.map((follower) => follower.ended));
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    for (const { stderr } of ended) expect(stderr.match(/answer/g)).toHaveLength(2);
    expect(ended[0]?.stdout.match(/^ +\d+ /gm)?.map(Number)).toEqual(
      Array.from({ length: ended[0]?.stdout.trimEnd().split("\n").length ?? 0 }, (_, i) => i + 1),
    );
  },
  120_000,
);

test("a server that never answered is told at once", async () => {
  const cwd = folder();
  const args = ["events", "w", "--follow", "--url", "http://127.0.0.1:1"];
  const { code, stderr } = await cli(args, { cwd });
  expect({ code, lines: stderr.match(/answer|cannot reach/g) }).toEqual({ code: 6, lines: ["cannot reach"] });
});
