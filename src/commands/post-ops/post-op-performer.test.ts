// The performer against servers on loopback that the list opens, with results in a journal.
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { commit, start } from "../../../test/fixtures/store/example-writes.ts";
import type { PostOpTask } from "../../engine/post-ops/post-ops.ts";
import type { Event } from "../../kernel/event.ts";
import { encodeEntries } from "../../kernel/journal/journal-entry.ts";
import { AllowList } from "../../net/guard/allow-list.ts";
import { GuardedHttp } from "../../net/guard/guarded-http.ts";
import { systemClock } from "../../std/clock.ts";
import { isRejection, unwrap } from "../../std/rejection.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { parseStateStores } from "../state/state-settings.ts";
import { StateStores } from "../state/state-stores.ts";
import { Performer } from "./post-op-performer.ts";
import { WebhookSecrets, type WebhookSecretsGiven } from "./webhook-secrets.ts";

const NOW = 1_794_700_800_123;
const RESULT = '{"files":12,"__metadata__":{"user_id":"u"}}';

interface PostOpFixture {
  readonly performer: Performer;
  readonly store: MemoryStore;
}

async function setUp(
  options: {
    allow?: string[];
    secrets?: WebhookSecretsGiven;
    stores?: Record<string, unknown>;
    result?: string | null;
    guard?: Pick<GuardedHttp, "refusalOf" | "send">;
  } = {},
): Promise<PostOpFixture> {
  const store = new MemoryStore();
  const info = await store.open();
  const { result = RESULT } = options;
  const place = { phase: "step-0", visit: 1, handler: "step-0", task: 0, attempt: 1, step: 0 };
  const event: Event = {
    kind: "command.receipted",
    ...place,
    procStatus: result === null ? "ERROR" : "COMPLETE",
    result,
    error: result === null ? "{}" : null,
    worker: "w",
    ms: 1,
  };
  const entries = encodeEntries(
    [1, 2, 3].map((seq) => ({ seq, at: 1_000, event })),
    "e1",
  );
  await commit(store, info, [{ ...start("ex1"), entries }]);
  const onFault = (): void => {};
  const performer = new Performer({
    store,
    stateStores: new StateStores({
      store,
      settings: unwrap(parseStateStores(options.stores ?? {})),
      onFault,
    }),
    guard: options.guard ?? new GuardedHttp({ allow: unwrap(AllowList.parse(options.allow ?? [])) }),
    secrets: unwrap(WebhookSecrets.parse(options.secrets ?? [])),
    clock: { ...systemClock(), now: () => NOW },
    version: "9.9.9",
  });
  onTestFinished(() => performer.close());
  return { performer, store };
}

const base = {
  id: "ex1/step-0/1/step-0/0/broadcast/0",
  execution: "ex1",
  project: "project-x",
  workflow: "w",
  attempt: 1,
  phase: "step-0",
  visit: 1,
  handler: "step-0",
  task: 0,
  step: 0,
  index: 0,
  receipt: 3,
};
const policy = { attempts: 3, backoff: "constant", retryMinMs: 1, retryMaxMs: 1, timeoutMs: 60_000 } as const;
const persistence = (plan: object = {}, more: object = {}) =>
  ({
    ...base,
    op: "persistence",
    plan: { store: "statestore-discovery", key: "project-x", partition: "project-x", ...policy, ...plan },
    ...more,
  }) as PostOpTask;
const broadcast = (url: string, plan: object = {}) =>
  ({
    ...base,
    op: "broadcast",
    plan: { url, staticPayload: undefined, awaited: false, ...policy, ...plan },
  }) as PostOpTask;
const perform = (performer: Performer, task: PostOpTask) =>
  performer.perform(task, new AbortController().signal);

interface Call {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

async function serve(
  answer: (response: ServerResponse) => void = (response) => void response.writeHead(204).end(),
) {
  const calls: Call[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const { method, url, headers } = request;
      calls.push({ method, url, headers, body });
      answer(response);
    });
  });
  onTestFinished(() => server.close().closeAllConnections());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { calls, host: `127.0.0.1:${port}`, url: `http://127.0.0.1:${port}/hook` };
}

describe("persistence", () => {
  test("keeps the enriched result under store, key and partition, with who wrote it", async () => {
    const { performer } = await setUp();
    expect(await perform(performer, persistence())).toEqual({ kind: "done" });
    const place = { store: "statestore-discovery", key: "project-x", partition: "project-x" };
    expect(await performer.readState(place)).toEqual({
      value: RESULT,
      project: "project-x",
      version: { at: 1_000, execution: "ex1", seq: 3 },
    });
    expect(await performer.readState({ ...place, partition: null })).toBeNull();
    expect(await performer.readState({ ...place, store: "other" })).toBeNull();
  });

  test.each(["constructor", "__proto__", "toString"])(
    "in a store named %s is like in any other",
    async (store) => {
      const { performer } = await setUp();
      expect(await perform(performer, persistence({ store }))).toEqual({ kind: "done" });
      expect(await performer.readState({ store, key: "project-x", partition: "project-x" })).toMatchObject({
        value: RESULT,
      });
      const named = await setUp({ stores: { known: "embedded" } });
      expect(await perform(named.performer, persistence({ store }))).toMatchObject({ fatal: true });
    },
  );

  test("that is repeated, or older than what is there, is done and changes nothing", async () => {
    const { performer, store } = await setUp();
    await perform(performer, persistence());
    const before = await store.listDocuments("state", { max: 9 });
    expect(await perform(performer, persistence())).toEqual({ kind: "done" });
    expect(await perform(performer, persistence({}, { receipt: 2 }))).toEqual({ kind: "done" });
    expect(await store.listDocuments("state", { max: 9 })).toEqual(before);
  });

  test("fails for good where it would fail again", async () => {
    const { performer } = await setUp({ stores: { here: "embedded" } });
    expect(await perform(performer, persistence())).toMatchObject({
      kind: "failed",
      fatal: true,
      error: { message: expect.stringContaining("the state stores are: embedded, here") },
    });
    await perform(performer, persistence({ store: "here" }));
    expect(
      await perform(performer, persistence({ store: "here" }, { project: "other", receipt: 3 })),
    ).toMatchObject({
      fatal: true,
      error: { name: "ForeignState" },
    });
    expect(await perform(performer, persistence({ store: "here", key: "a\0b" }))).toMatchObject({
      fatal: true,
      error: { name: "WrongPlace" },
    });
    expect(await perform(performer, persistence({ store: "here", key: "é".repeat(1_001) }))).toMatchObject({
      fatal: true,
      error: { name: "WrongPlace" },
    });
    expect(await perform(performer, persistence({ store: "here" }, { receipt: 77 }))).toMatchObject({
      fatal: true,
      error: { name: "NoResult" },
    });
  });

  test("to a store that is down fails, and may be tried again", async () => {
    const { performer } = await setUp({
      stores: { db: "postgres://x@127.0.0.1:1/x", web: "http://127.0.0.1:1", cache: "redis://127.0.0.1:1" },
    });
    for (const store of ["db", "web", "cache"]) {
      const outcome = await perform(performer, persistence({ store }));
      expect(outcome).toMatchObject({ kind: "failed" });
      expect(outcome).not.toHaveProperty("fatal");
      const read = await performer.readState({ store, key: "k", partition: null });
      expect(isRejection(read) && read.code).toBe("store_unavailable");
    }
  });
});

describe("a broadcast", () => {
  test("is a POST of the result, with an id that all tries share", async () => {
    const { calls, host, url } = await serve();
    const { performer } = await setUp({ allow: [host] });
    for (const attempt of [1, 2])
      expect(await perform(performer, { ...broadcast(url), attempt })).toEqual({
        kind: "done",
      });
    expect(calls).toHaveLength(2);
    for (const { method, url: path, headers, body } of calls) {
      expect([method, path, body]).toEqual(["POST", "/hook", RESULT]);
      expect(headers).toMatchObject({
        "content-type": "application/json",
        "user-agent": "rondo/9.9.9",
        "webhook-id": base.id,
        "webhook-timestamp": "1794700800",
      });
      expect(headers).not.toHaveProperty("webhook-signature");
    }
  });

  test.each([[{ message: "Repo has been embedded." }], [null], [""]])(
    "says %j instead, if that is its static payload",
    async (staticPayload) => {
      const { calls, host, url } = await serve();
      const { performer } = await setUp({ allow: [host] });
      await perform(performer, broadcast(url, { staticPayload }));
      expect(calls.map(({ body }) => body)).toEqual([JSON.stringify(staticPayload)]);
    },
  );

  test("is signed with every secret of its host", async () => {
    const { calls, host, url } = await serve();
    const encoded = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const plain = "a-secret-of-16-bytes";
    const sign = (key: Buffer | string) =>
      `v1,${createHmac("sha256", key).update(`${base.id}.1794700800.${RESULT}`).digest("base64")}`;
    const keys = [Buffer.from(encoded.slice(6), "base64"), plain];
    const { performer } = await setUp({ allow: [host], secrets: [encoded, plain] });
    await perform(performer, broadcast(url));
    const byHost = await setUp({ allow: [host], secrets: { "*": [encoded], "127.0.0.1": [plain] } });
    await perform(byHost.performer, broadcast(url));
    const elsewhere = await setUp({ allow: [host], secrets: { "example.com": [plain] } });
    await perform(elsewhere.performer, broadcast(url));
    expect(calls.map(({ headers }) => headers["webhook-signature"])).toEqual([
      keys.map(sign).join(" "),
      sign(plain),
      undefined,
    ]);
  });

  test("has the signature of the scheme's own example", () => {
    const secrets = unwrap(WebhookSecrets.parse(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]));
    const message = {
      id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
      at: 1_614_265_330_000,
      body: '{"test": 2432232314}',
    };
    expect(secrets.headersFor("a", message)["webhook-signature"]).toBe(
      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    );
  });

  test.each([
    [200, {}, { kind: "done" }],
    [299, {}, { kind: "done" }],
    [301, { location: "http://127.0.0.1/" }, { fatal: true, message: "redirects to http://127.0.0.1/" }],
    [304, {}, { fatal: true }],
    [400, {}, { fatal: true, message: "answered 400: no" }],
    [401, {}, { fatal: true }],
    [404, {}, { fatal: true }],
    [410, {}, { fatal: true }],
    [408, {}, {}],
    [425, {}, {}],
    [429, { "retry-after": "120" }, { retryAfterMs: 120_000 }],
    [429, { "retry-after": "99999999" }, { retryAfterMs: 86_400_000 }],
    [429, { "retry-after": "soon" }, {}],
    [500, {}, {}],
    [503, { "retry-after": new Date(NOW - 123 + 60_000).toUTCString() }, { retryAfterMs: 59_877 }],
    [503, { "retry-after": new Date(0).toUTCString() }, { retryAfterMs: 0 }],
  ] as const)("that is answered with %i %j ends accordingly", async (status, headers, expected) => {
    const { host, url } = await serve((response) => void response.writeHead(status, headers).end("no"));
    const { performer } = await setUp({ allow: [host] });
    const { message = "", ...rest } = expected as { message?: string; kind?: string };
    const outcome = await perform(performer, broadcast(url));
    if (rest.kind === "done") return expect(outcome).toEqual({ kind: "done" });
    const error = { name: "Refused", code: String(status), message: expect.stringContaining(message) };
    expect(outcome).toEqual({ kind: "failed", error, ...rest });
  });

  test("that nobody answers, or too slowly, may be tried again", async () => {
    const silent = await serve(() => {});
    const { performer } = await setUp({ allow: [silent.host, "127.0.0.1:1"] });
    expect(await perform(performer, broadcast("http://127.0.0.1:1/"))).toEqual({
      kind: "failed",
      error: { name: "NoAnswer", code: "ECONNREFUSED", message: expect.any(String) },
    });
    expect(await perform(performer, broadcast(silent.url, { timeoutMs: 30 }))).toEqual({
      kind: "failed",
      error: { name: "NoAnswer", code: "timeout", message: `${silent.host}: took too long` },
    });
  });

  test("of the same receipt begins after those before it, however long the result takes to be read", async () => {
    const sent: string[] = [];
    const send: GuardedHttp["send"] = async ({ url }) => {
      sent.push(url);
      return { kind: "answer", status: 204, headers: {}, text: "", isCut: false };
    };
    const { performer } = await setUp({ guard: { refusalOf: () => null, send } });
    await Promise.all([
      perform(performer, broadcast("http://a.test/")),
      perform(performer, broadcast("http://b.test/", { staticPayload: 1 })),
      perform(performer, broadcast("http://c.test/")),
    ]);
    expect(sent).toEqual(["http://a.test/", "http://b.test/", "http://c.test/"]);
  });

  test("to a target that is not allowed sends nothing, and says what to do", async () => {
    const { calls, url } = await serve();
    const { performer } = await setUp();
    expect(await perform(performer, broadcast(url))).toMatchObject({
      fatal: true,
      error: { name: "ForbiddenTarget", message: expect.stringContaining("to allowTargets") },
    });
    expect(await perform(performer, broadcast("http://lxi-ui-api:6001/broadcast"))).toMatchObject({
      fatal: true,
      error: { message: expect.stringContaining('"lxi-ui-api:6001"') },
    });
    expect(calls).toEqual([]);
  });
});

test("what the settings would refuse can be asked beforehand", async () => {
  const { performer } = await setUp({ stores: { here: "embedded" } });
  const at = (store: string, key = "k", partition: string | null = null) =>
    performer.refusalOf({ store, key, partition });
  expect(at("here")).toBeNull();
  expect(at("embedded", "...", "..")).toBeNull();
  expect(at("there")).toMatchObject({ code: "not_found" });
  for (const key of ["", ".", "..", "a\nb", "\ud800", "é".repeat(1_001)])
    expect(at("here", key)).toMatchObject({ code: "invalid_input", path: "key" });
  expect(at("here", "k", "\u0000")).toMatchObject({ path: "key" });
});
