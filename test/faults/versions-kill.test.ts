// Two versions of a workflow in worker processes over HTTP, on PostgreSQL: workers are killed and stopped, the server is killed, and
// executions are moved. No execution gets code of another version than its own.
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "rondo/client";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../tools/bench/free-ports.ts";
import { type CliProcess, folder, jsonLines, startCli } from "../fixtures/cli/cli-process-fixture.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";
import { until } from "../fixtures/until.ts";

const EXECUTIONS = 40;
const V1 = "1.0.0";
const V2 = "2.0.0";

/** The code of a version. It notes what it does. The second one has a phase more. */
const codeOf = (version: string): string => `
import { appendFileSync } from "node:fs";
import { workflow } from "rondo";
const note = (id, did) => appendFileSync("ledger", JSON.stringify({ version: "${version}", id, did }) + "\\n");
const heartbeat = "2s";
export const order = workflow({ name: "order", version: "${version}" })
  .phase("pack", {
    heartbeat,
    *enumerate({ execution }) {
      note(execution, "enumerate");
      yield* [1, 2];
    },
    async process({ execution, step, sleep }) {
      await step("one", () => note(execution, "one"));
      await sleep("nap", 20);
      await step("two", () => note(execution, "two"));
    },
  })
  .waitFor("paid")
  ${version === V1 ? "" : '.phase("audit", { heartbeat, process: ({ execution }) => note(execution, "audit") })'}
  .phase("ship", { heartbeat, process: ({ execution }) => note(execution, "ship") })
  .returns(({ execution }) => {
    note(execution, "returns");
    return "${version}";
  });
`;

test("each execution gets code of its version only, and says which one it waits for", async () => {
  const database = await TestDatabase.make();
  onTestFinished(() => database.remove());
  const cwd = folder({
    "v1.mjs": codeOf(V1),
    "v2.mjs": codeOf(V2),
    "rondo.config.json": JSON.stringify({ heartbeat: "2s", claimLease: "2s", sweep: "100ms" }),
  });
  appendFileSync(join(cwd, "ledger"), "");
  const env = { RONDO_STORE: await database.newDatabase() };
  const port = String(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const begin = async (args: readonly string[], ready: RegExp): Promise<CliProcess> => {
    const process = startCli(args, { cwd, env });
    await process.line(ready);
    return process;
  };
  const serve = () => begin(["start", "--port", port, "--json"], /^\{"url":/);
  const work = (file: string) => begin(["worker", file, "--url", url], /^worker .* serves /);
  const kill = async (process: CliProcess): Promise<void> => {
    process.kill("SIGKILL");
    await process.ended;
  };

  let server = await serve();
  let first = await work("v1.mjs");
  const second = await work("v2.mjs");
  const client = connect({ url });
  const versionOf = (n: number) => (n % 2 === 0 ? V1 : V2);
  for (let n = 0; n < EXECUTIONS; n++) {
    await client.start(`order@${versionOf(n)}`, null, { id: `o${n}` });
    if (n === 10) await kill(first);
    if (n === 15) second.kill("SIGSTOP");
    if (n === 20) first = await work("v1.mjs");
    if (n === 25) {
      await kill(server);
      server = await serve();
    }
    if (n === 30) second.kill("SIGCONT");
  }
  const waitsForPay = async (n: number) => (await client.execution(`o${n}`).why()).includes('"paid"');
  for (let n = 0; n < EXECUTIONS; n++)
    await until(`o${n} waits for its payment`, () => waitsForPay(n), {
      state: () => client.execution(`o${n}`).why(),
    });

  await kill(first);
  const late = await client.start(`order@${V1}`, null, { id: "late" });
  await until("it names the version", async () =>
    (await late.why()).includes('none serves "order.pack" in a version that fits "^1.0.0" (there are 2.0.0)'),
  );
  expect(await client.versions("order")).toMatchObject([
    { version: V2, open: EXECUTIONS / 2, unserved: [] },
    { version: V1, open: EXECUTIONS / 2 + 1, canRetire: false },
  ]);

  const moved = new Set<number>();
  for (let n = 0; n < EXECUTIONS; n += 4) {
    await client.execution(`o${n}`).move({ version: V2 });
    moved.add(n);
  }
  await work("v1.mjs");
  await late.signal("paid");
  expect(await late.result()).toBe(V1);
  for (let n = 0; n < EXECUTIONS; n++) {
    await client.execution(`o${n}`).signal("paid");
    expect(await client.execution(`o${n}`).result()).toBe(moved.has(n) ? V2 : versionOf(n));
  }
  const ledger = jsonLines<{ version: string; id: string; did: string }>(
    readFileSync(join(cwd, "ledger"), "utf8"),
  );
  const isRight = ({ version, id, did }: (typeof ledger)[number]): boolean => {
    if (id === "late") return version === V1;
    const n = Number(id.slice(1));
    const isAfterMove = moved.has(n) && ["audit", "ship", "returns"].includes(did);
    return version === (isAfterMove ? V2 : versionOf(n));
  };
  expect(ledger.filter((line) => !isRight(line))).toEqual([]);
  expect(new Set(ledger.map(({ id }) => id)).size).toBe(EXECUTIONS + 1);
  expect((await client.versions("order"))[1]).toMatchObject({ version: V1, open: 0, canRetire: true });
});
