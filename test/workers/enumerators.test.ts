// Who enumerates, over HTTP with real workers: a fan-out has the same tasks whoever connects first, and waits with a
// reason while nobody is there that enumerates.
import { describe, expect, test } from "vitest";
import type { Claimed, EventsAnswer, WireEventBody, WorkItem } from "../../src/protocol/worker-wire.ts";
import type { RemoteWorker } from "../../src/worker/http/remote-worker.ts";
import { type Api, type Got, type Loose, serve, textOf } from "../fixtures/server/api-fixture.ts";
import { until } from "../fixtures/until.ts";
import { startRemoteWorker } from "../fixtures/workers/remote-worker-fixture.ts";

const TASKS = 100;
const USE = "resize";
const FAN = { rondo: 2, name: "fan", phases: [{ name: "all", handlers: { all: { use: USE } } }] };

/** A server that knows the fan-out. */
async function open(): Promise<Api> {
  const api = await serve();
  fine(await api.post("/v1/workflows", FAN));
  return api;
}

/** A worker in TypeScript, registered when this resolves. */
async function join(api: Api, name: string, enumerates: boolean): Promise<RemoteWorker> {
  let registered: (id: string) => void = () => {};
  const isRegistered = new Promise<string>((resolve) => {
    registered = resolve;
  });
  const code = {
    use: USE,
    process: ({ task }: { task: unknown }) => task,
    ...(enumerates ? { enumerate: () => Array(TASKS).keys() } : {}),
  };
  const worker = await startRemoteWorker({
    addresses: [api.url],
    name,
    workflows: [{ name: "fan", definition: FAN, handlers: [code] }] as never,
    onRegistered: registered,
  });
  await isRegistered;
  return worker;
}

/** The body of an answer; anything but 200 or 201 fails the test. */
function fine({ status, body, text }: Got): Loose {
  if (status !== 200 && status !== 201) throw new Error(`${status}: ${text}`);
  return body;
}

/** A worker of any language: requests of the worker protocol, one after another. */
class RawClient {
  readonly #api: Api;
  readonly #id: string;

  private constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  static async join(
    api: Api,
    id: string,
    handler: { readonly enumerates?: boolean } = {},
  ): Promise<RawClient> {
    const handlers = [{ use: USE, ...handler }];
    fine(await api.post("/v1/workers", { name: "raw", worker: id, handlers, capacity: 10 }));
    return new RawClient(api, id);
  }

  async claim(max = 10, waitMs = 0): Promise<readonly WorkItem[]> {
    const body = fine(await this.#api.post(`/v1/workers/${this.#id}/claim`, { max, waitMs }));
    return (body as unknown as Claimed).work;
  }

  async tell({ attempt, token }: WorkItem, ...events: readonly [n: number, body: WireEventBody][]) {
    const sent = {
      tokens: { [attempt]: token },
      events: events.map(([n, event]) => ({ attempt, n, ...event })),
    };
    const body = fine(await this.#api.post(`/v1/workers/${this.#id}/events`, sent));
    return body as unknown as EventsAnswer;
  }

  /** Claims and does tasks until none comes for a while; gives what it was given to do. */
  async work(): Promise<string[]> {
    const seen: string[] = [];
    for (let given = await this.claim(10, 500); given.length > 0; given = await this.claim(10, 500))
      for (const item of given) {
        seen.push(item.do);
        await this.tell(item, [1, { kind: "receipt", status: "done", result: item.task }]);
      }
    return seen;
  }
}

async function start(api: Api): Promise<string> {
  return textOf(fine(await api.post("/v1/executions", { workflow: "fan", input: null }))["id"]);
}

const why = async (api: Api, id: string) => textOf((await api.get(`/v1/executions/${id}/why`)).body["why"]);

/** How many tasks the execution had when it was done. */
async function ended(api: Api, id: string): Promise<unknown> {
  let view = (await api.get(`/v1/executions/${id}`)).body;
  await until("it is done", async () => {
    view = (await api.get(`/v1/executions/${id}`)).body;
    return textOf(view["status"]) === "done";
  });
  const { total, done } = (view as unknown as { phases: { handlers: { total: number; done: number }[] }[] })
    .phases[0]?.handlers[0] ?? { total: -1, done: -1 };
  return { total, done };
}

const ALL = { total: TASKS, done: TASKS };
const ONLY_PROCESSED =
  '"all" waits for a worker that enumerates "resize": the connected ones only process it.';

describe("a worker in TypeScript with only process, beside one with enumerate", () => {
  test.each([
    ["first", [false, true]],
    ["last", [true, false]],
  ] as const)("joins %s: the fan-out has all its tasks", async (_, order) => {
    const api = await open();
    const early = await start(api);
    const between: string[] = [];
    for (const enumerates of order) {
      await join(api, enumerates ? "lister" : "plain", enumerates);
      between.push(await start(api));
    }
    for (const id of [early, ...between]) expect(await ended(api, id)).toEqual(ALL);
  });

  test("alone: the fan-out waits, says for whom, and has all its tasks once that worker is there", async () => {
    const api = await open();
    await join(api, "plain", false);
    const id = await start(api);
    expect(await why(api, id)).toBe(ONLY_PROCESSED);
    expect((await api.get(`/v1/executions/${id}`)).body["phases"]).toMatchObject([
      { handlers: [{ total: 0 }] },
    ]);
    await join(api, "lister", true);
    expect(await ended(api, id)).toEqual(ALL);
  });
});

describe("a raw client that registers with use alone", () => {
  test.each([
    ["first", ["raw", "lister"]],
    ["last", ["lister", "raw"]],
  ] as const)("joins %s, beside a worker that enumerates: it is given tasks only", async (_, order) => {
    const api = await open();
    let raw: RawClient | undefined;
    for (const name of order) {
      if (name === "raw") raw = await RawClient.join(api, "raw");
      else await join(api, name, true);
    }
    const ids = [await start(api), await start(api)];
    const seen = await raw?.work();
    for (const id of ids) expect(await ended(api, id)).toEqual(ALL);
    expect(seen).not.toContain("enumerate");
  });

  test.each([
    ["first", ["raw", "plain"]],
    ["last", ["plain", "raw"]],
  ] as const)(
    "joins %s, beside a worker that only processes: it is told to enumerate, and must say the total",
    async (_, order) => {
      const api = await open();
      let raw: RawClient | undefined;
      for (const name of order) {
        if (name === "raw") raw = await RawClient.join(api, "raw");
        else await join(api, name, false);
      }
      const id = await start(api);
      const [item] = ((await raw?.claim(1, 5_000)) ?? []) as readonly [WorkItem];
      expect([item.do, item.number]).toEqual(["enumerate", -1]);
      // As if it were a task: refused, also when the answer was lost and it is sent again.
      const receipt: WireEventBody = { kind: "receipt", status: "done", result: 1 };
      for (let i = 0; i < 2; i++)
        expect(await raw?.tell(item, [1, receipt])).toMatchObject({
          verdicts: { [item.attempt]: "stale" },
          refused: { [item.attempt]: { n: 1, path: "total" } },
        });
      expect((await api.get(`/v1/executions/${id}`)).body["status"]).toBe("running");
      const answer = await raw?.tell(
        item,
        [2, { kind: "page", from: 0, tasks: [1, 2, 3] }],
        [3, { kind: "receipt", status: "done", total: 3 }],
      );
      expect(answer?.verdicts).toEqual({ [item.attempt]: "accepted" });
      expect(await ended(api, id)).toEqual({ total: 3, done: 3 });
    },
  );

  test("and says that it does not enumerate is given nothing while there is only the enumeration", async () => {
    const api = await open();
    const raw = await RawClient.join(api, "raw", { enumerates: false });
    const id = await start(api);
    expect(await raw.claim()).toEqual([]);
    expect(await why(api, id)).toBe(ONLY_PROCESSED);
    await join(api, "lister", true);
    expect(await raw.work()).not.toContain("enumerate");
    expect(await ended(api, id)).toEqual(ALL);
  });
});
