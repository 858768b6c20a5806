// Commands whose results are kept and told to others, through a whole server: group L of the conformance list, as far as
// it is about post-operations.
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ServerOptions } from "../../../src/compose/compose-server.ts";
import { importInto } from "../../../src/compose/compose-transfer.ts";
import { topic } from "../../../src/sdk/topic.ts";
import { DaprStub } from "../../fixtures/broker/dapr-stub-fixture.ts";
import { type Api, ended, STORES, serve, until } from "../../fixtures/server/api-fixture.ts";
import { exportToFile } from "../../fixtures/store/export-to-file.ts";
import { PostgresServer, TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

const RETRY = { attempts: 5, backoff: "constant", min: "10ms", max: "10ms" };
const PERSISTENCE = {
  target_statestore_name: "statestore-discovery",
  target_statestore_key: "project-x",
  target_statestore_partition_key: "project-x",
  retry: RETRY,
};

/** A workflow of commands, one after another; each is given its post-operations. */
function definition(name: string, steps: readonly object[]) {
  const phases = steps.map((postOps, i) => ({
    name: `step-${i}`,
    handlers: {
      [`step-${i}`]: {
        command: { cmd_type: `TYPE_${i}`, cmd_data: { i }, cmd_metadata: { cmd_post_op: postOps } },
        topic: "LEXI_CMD_EMBED",
      },
    },
  }));
  return { rondo: 1, name, phases };
}

async function run(api: Api, id: string, steps: readonly object[], project = "default"): Promise<void> {
  const registered = await api.post("/v1/workflows", definition("commands", steps));
  expect(registered.status, registered.text).toBeLessThan(300);
  const started = await api.post("/v1/executions", { workflow: "commands", input: {}, id, project });
  expect(started.status, started.text).toBe(201);
}

async function open(options: ServerOptions = {}): Promise<{ api: Api; done: string[] }> {
  const api = await serve(options);
  const done: string[] = [];
  api.rondo.serve(
    topic("LEXI_CMD_EMBED", ({ cmd }) => {
      done.push(cmd.cmd_type);
      return { type: cmd.cmd_type };
    }),
  );
  return { api, done };
}

interface Call {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

/** Receivers of broadcasts on loopback. */
async function receiver(answer: (path: string, calls: number, response: ServerResponse) => void) {
  const calls: Call[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      const { url = "", headers } = request;
      calls.push({ path: url, headers, body: JSON.parse(text) });
      answer(url, calls.filter(({ path }) => path === url).length, response);
    });
  });
  onTestFinished(() => server.close().closeAllConnections());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { calls, host, url: (path: string) => `http://${host}${path}` };
}

function sorted(calls: readonly Call[]): Call[] {
  return calls.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

async function kinds(api: Api, id: string): Promise<string[]> {
  const { body } = await api.get(`/v1/executions/${id}/events?limit=1000`);
  return (body["data"] as unknown as { kind: string }[]).map(({ kind }) => kind);
}

describe.each(STORES)("over a %s store", (_, store) => {
  test("a result is enriched, kept, then told, and then the next command goes out", async () => {
    const { calls, host, url } = await receiver((_path, _calls, response) => void response.end());
    const { api, done } = await open({ store: store(), allowTargets: [host] });
    const enrichment = { prop_map: [{ key: "__metadata__", val: { project_id: "project-x" } }] };
    await run(api, "one", [
      {
        cmd_result_enrichment: enrichment,
        cmd_result_persistence: PERSISTENCE,
        cmd_result_broadcasts: [
          { url: url("/a"), await: true },
          { url: url("/b"), static_payload: { message: "done" } },
        ],
      },
      {},
    ]);
    expect(await ended(api, "one")).toMatchObject({ status: "done" });
    const result = { type: "TYPE_0", __metadata__: { project_id: "project-x" } };
    const state = await api.get("/v1/state/statestore-discovery/project-x?partition=project-x");
    expect(state.body).toMatchObject({
      store: "statestore-discovery",
      key: "project-x",
      partition: "project-x",
      value: result,
      project: "default",
      execution: "one",
      seq: expect.any(Number),
    });
    await until(() => calls.length === 2);
    expect(sorted(calls).map(({ path, body }) => [path, body])).toEqual([
      ["/a", result],
      ["/b", { message: "done" }],
    ]);
    expect(sorted(calls).map(({ headers }) => headers["webhook-id"])).toEqual([
      "one/step-0/1/step-0/0/broadcast/0",
      "one/step-0/1/step-0/0/broadcast/1",
    ]);
    await until(
      async () => (await kinds(api, "one")).filter((kind) => /postop.done/.test(kind)).length === 3,
    );
    expect(done).toEqual(["TYPE_0", "TYPE_1"]);
  });
});

describe("a state store that is down", () => {
  test("holds the next command, and is tried until it is up", async () => {
    const dapr = await DaprStub.make();
    onTestFinished(() => dapr.close());
    let down = 3;
    dapr.instead = () => (down-- > 0 ? 503 : null);
    const { api, done } = await open({ stateStores: { "statestore-discovery": dapr.url } });
    await run(api, "one", [{ cmd_result_persistence: PERSISTENCE }, {}]);
    expect(await ended(api, "one")).toMatchObject({ status: "done" });
    expect(done).toEqual(["TYPE_0", "TYPE_1"]);
    const events = await kinds(api, "one");
    expect(events.filter((kind) => kind.includes("postop.failed"))).toHaveLength(3);
    expect(events.findIndex((kind) => kind.includes("postop.done"))).toBeLessThan(
      events.findLastIndex((kind) => kind.includes("command.receipted")),
    );
    expect(dapr.values.get("statestore-discovery|project-x|project-x")?.value).toMatchObject({
      type: "TYPE_0",
    });
  });

  test("for good fails the command; a retry redoes the persistence only", async () => {
    const dapr = await DaprStub.make();
    onTestFinished(() => dapr.close());
    dapr.instead = () => 503;
    const { api, done } = await open({ stateStores: { "statestore-discovery": dapr.url } });
    await run(api, "one", [{ cmd_result_persistence: PERSISTENCE }, {}]);
    expect(await ended(api, "one")).toMatchObject({ status: "failed" });
    expect(done).toEqual(["TYPE_0"]);
    dapr.instead = () => null;
    expect((await api.post("/v1/executions/one/retry")).status).toBe(200);
    await until(async () => {
      const { body } = await api.get("/v1/executions/one");
      return (body["status"] as unknown) === "done";
    });
    expect(done).toEqual(["TYPE_0", "TYPE_1"]);
    expect(dapr.values.size).toBe(1);
  });
});

describe("a broadcast that fails", () => {
  test("keeps neither the others nor the workflow up, and has one id in all its tries", async () => {
    const { calls, host, url } = await receiver((path, times, response) => {
      response.writeHead(path === "/flaky" && times < 3 ? 500 : path === "/gone" ? 410 : 200).end();
    });
    const { api } = await open({ allowTargets: [host] });
    const broadcasts = ["/gone", "/flaky", "/fine"].map((path) => ({ url: url(path), retry: RETRY }));
    await run(api, "one", [{ cmd_result_broadcasts: broadcasts }, {}]);
    expect(await ended(api, "one")).toMatchObject({ status: "done" });
    await until(async () => {
      const events = await kinds(api, "one");
      return events.filter((kind) => kind.includes("postop")).length === 5;
    });
    expect(sorted(calls).map(({ path }) => path)).toEqual(["/fine", "/flaky", "/flaky", "/flaky", "/gone"]);
    const flaky = calls.filter(({ path }) => path === "/flaky").map(({ headers }) => headers["webhook-id"]);
    expect(new Set(flaky).size).toBe(1);
  });

  test("because its target is not allowed sends nothing", async () => {
    const { calls, url } = await receiver((_path, _calls, response) => void response.end());
    const { api } = await open({ allowTargets: ["other.example"] });
    await run(api, "one", [{ cmd_result_broadcasts: [{ url: url("/a"), await: true }] }]);
    expect(await ended(api, "one")).toMatchObject({ status: "done" });
    const { body } = await api.get("/v1/executions/one/events?limit=1000&detail=full");
    const failed = (body["data"] as unknown as { kind: string; error?: unknown }[]).filter(({ kind }) =>
      kind.includes("postop.failed"),
    );
    expect(failed).toHaveLength(1);
    expect(JSON.stringify(failed)).toContain("to allowTargets");
    expect(calls).toEqual([]);
  });
});

describe("state", () => {
  test("is seen by those who may see its project", async () => {
    const { api } = await open();
    await run(api, "one", [{ cmd_result_persistence: PERSISTENCE }], "project-x");
    await ended(api, "one");
    await api.makeToken("admin");
    const path = "/v1/state/statestore-discovery/project-x?partition=project-x";
    for (const [project, status] of [
      ["project-x", 200],
      ["project-y", 404],
    ] as const)
      expect((await api.get(path, { token: await api.makeToken("viewer", project) })).status).toBe(status);
    expect((await api.get(path, { token: await api.makeToken("worker") })).status).toBe(403);
    expect((await api.get(path, { token: null })).status).toBe(401);
  });

  test("of another project is not replaced", async () => {
    const { api } = await open();
    await run(api, "one", [{ cmd_result_persistence: PERSISTENCE }], "project-x");
    await ended(api, "one");
    await run(api, "two", [{ cmd_result_persistence: PERSISTENCE }], "project-y");
    expect(await ended(api, "two")).toMatchObject({ status: "failed" });
    const { body } = await api.get("/v1/state/statestore-discovery/project-x?partition=project-x");
    expect(body).toMatchObject({ execution: "one", project: "project-x" });
  });

  test("that is not there, or in no store, is not found; keys may hold anything", async () => {
    const { api } = await open({ stateStores: { here: "embedded" } });
    const key = "a/b c?d#e%2F é";
    await run(api, "one", [
      { cmd_result_persistence: { target_statestore_name: "here", target_statestore_key: key } },
    ]);
    expect(await ended(api, "one")).toMatchObject({ status: "done" });
    const got = await api.get(`/v1/state/here/${encodeURIComponent(key)}`);
    expect(got.body).toMatchObject({ key, partition: null, value: { type: "TYPE_0" } });
    expect((await api.get(`/v1/state/here/${encodeURIComponent(key)}?partition=p`)).status).toBe(404);
    const missing = await api.get("/v1/state/there/a");
    expect(missing.status).toBe(404);
    expect(missing.body["hint"]).toContain("the state stores are: embedded, here");
  });

  test("in a store that does not answer is told as such", async () => {
    const { api } = await open({ stateStores: { far: "http://127.0.0.1:1" } });
    const got = await api.get("/v1/state/far/a");
    expect([got.status, got.body["code"]]).toEqual([503, "store_unavailable"]);
  });

  test("outlives the server, and moves with its store into a database and back", async () => {
    const database = await TestDatabase.make();
    onTestFinished(() => database.remove());
    const place = temporaryDirectory();
    const [here, back] = [join(place, "here"), join(place, "back")];
    const { api } = await open({ store: `file:${here}` });
    await run(api, "one", [{ cmd_result_persistence: PERSISTENCE }]);
    await ended(api, "one");
    const path = "/v1/state/statestore-discovery/project-x?partition=project-x";
    const { body: before } = await api.get(path);
    await api.close();
    const schema = database.newSchema();
    const out = join(place, "out");
    await exportToFile({ store: `file:${here}` }, out);
    await importInto({ store: database.url, schema, file: out });
    await exportToFile({ store: database.url, schema }, out);
    await importInto({ store: `file:${back}`, file: out });
    const again = await serve({ store: `file:${back}` });
    const { body: after } = await again.get(path);
    expect(after).toEqual(before);
    expect(after["value"]).toEqual({ type: "TYPE_0" });
  }, 120_000);
});

test("of a cluster's nodes, each reads what another has kept", async () => {
  const database = await PostgresServer.make();
  onTestFinished(() => database.remove());
  const { api, done } = await open({ store: database.url });
  const other = await serve({ store: database.url });
  onTestFinished(async () => {
    await other.close();
    await api.close();
  });
  const ids = ["one", "two", "three", "four"];
  const key = (id: string) => ({ ...PERSISTENCE, target_statestore_key: id });
  for (const id of ids) await run(api, id, [{ cmd_result_persistence: key(id) }, {}]);
  for (const id of ids) {
    expect(await ended(other, id)).toMatchObject({ status: "done" });
    const { body } = await other.get(`/v1/state/statestore-discovery/${id}?partition=project-x`);
    expect(body).toMatchObject({ execution: id, value: { type: "TYPE_0" } });
  }
  expect(done).toHaveLength(8);
}, 120_000);

test("a definition with a state store that there is not is refused, with those that there are", async () => {
  const { api } = await open({ stateStores: { here: "embedded" } });
  const steps = [{}, { cmd_result_persistence: PERSISTENCE }];
  const refused = await api.post("/v1/workflows", definition("commands", steps));
  expect([refused.status, refused.body["code"]]).toEqual([422, "invalid_definition"]);
  expect(refused.text).toContain('step-1.step-1: there is no state store \\"statestore-discovery\\"');
  expect(refused.body["hint"]).toContain("the state stores are: embedded, here");
});

test.each([
  [".", "p"],
  ["..", "p"],
  ["a\nb", "p"],
  ["k", "\u0000"],
  ["漢".repeat(400), "漢".repeat(400)],
])(
  "a definition with the key %j and the partition %j, where no store can keep anything, is refused",
  async (key, partition) => {
    const { api } = await open();
    const kept = { ...PERSISTENCE, target_statestore_key: key, target_statestore_partition_key: partition };
    const refused = await api.post(
      "/v1/workflows",
      definition("commands", [{ cmd_result_persistence: kept }]),
    );
    expect([refused.status, refused.body["code"]]).toEqual([422, "invalid_definition"]);
    expect(refused.body["path"]).toContain("target_statestore_key");
  },
);

test("wrong settings are refused when Rondo opens", async () => {
  for (const options of [
    { stateStores: { a: "mysql://x" } },
    { allowTargets: ["http://x"] },
    { webhookSecrets: ["short"] },
  ])
    await expect(serve(options)).rejects.toMatchObject({ name: "RondoError", code: "invalid_input" });
});
