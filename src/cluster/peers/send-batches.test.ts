// Messages of one turn to one node share a request; each has its own answer.
import { describe, expect, test } from "vitest";
import type { Reply } from "../../engine/driver-options.ts";
import { HttpFault } from "../../net/http-fault.ts";
import { reject } from "../../std/rejection.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import type { PeerAnswer } from "./peer-client.ts";
import type { SendBody } from "./peer-wire.ts";
import { SendBatches, type SentLine } from "./send-batches.ts";

const reply = (seq: number): Reply => ({ answer: { kind: "applied", seq }, existed: false });

interface Sends {
  readonly sends: readonly SendBody[];
}

function world(answer: (sends: readonly SendBody[]) => PeerAnswer<AsyncIterable<SentLine>>) {
  const clock = new VirtualClock();
  const requests: string[] = [];
  const client = {
    call: async <T>(url: string, name: string): Promise<PeerAnswer<T>> => {
      requests.push(`${url} ${name}`);
      return { kind: "answered", value: reply(0) as T };
    },
    open: async <T>(url: string, name: string, body: unknown): Promise<PeerAnswer<AsyncIterable<T>>> => {
      const { sends } = body as Sends;
      requests.push(`${url} ${name} ${sends.length}`);
      return answer(sends) as PeerAnswer<AsyncIterable<T>>;
    },
  };
  const batches = new SendBatches(client, clock);
  const send = (url: string, execution: string, signal?: AbortSignal) =>
    batches.send(
      url,
      { execution, message: { kind: "signal", id: "m", signal: "s", data: "1" }, fresh: false },
      signal === undefined ? {} : { signal },
    );
  return { clock, requests, send };
}

async function* lines(...all: (SentLine | Error)[]): AsyncGenerator<SentLine> {
  for (const line of all) {
    if (line instanceof Error) throw line;
    yield line;
  }
}

describe("messages", () => {
  test("of one turn share a request for each node; one alone has its own", async () => {
    const { requests, send } = world((sends) => ({
      kind: "answered",
      value: lines(...sends.map((_, i) => ({ i, reply: reply(i + 1) })).reverse()),
    }));
    const sent = await Promise.all([send("a", "x"), send("b", "y"), send("a", "z")]);
    expect(requests).toEqual(["a sends 2", "b send"]);
    expect(sent).toEqual([1, 0, 2].map((seq) => ({ kind: "answered", value: reply(seq) })));
    await send("a", "x");
    expect(requests).toHaveLength(3);
  });

  test("have their own refusals, and are unreached if the answer breaks off", async () => {
    const { send } = world(() => ({
      kind: "answered",
      value: lines(
        { i: 0, rejection: reject("not_owner", "moved") },
        { i: 1, rejection: reject("store_unavailable", "full") },
        { i: 2, rejection: reject("not_ready", "stops") },
        new HttpFault("cut off", "reset"),
      ),
    }));
    expect(await Promise.all(["v", "w", "x", "y"].map((id) => send("a", id)))).toMatchObject([
      { kind: "not-owner" },
      { kind: "refused", rejection: { code: "store_unavailable", message: "a: full" } },
      { kind: "unreached", why: "a: stops" },
      { kind: "unreached", why: "cut off" },
    ]);
  });

  test("in any number share a request without a warning of Node about listeners", async () => {
    const warnings: string[] = [];
    const onWarning = ({ name, message }: Error) => warnings.push(`${name}: ${message}`);
    process.on("warning", onWarning);
    const { send } = world((sends) => ({
      kind: "answered",
      value: lines(...sends.map((_, i) => ({ i, reply: reply(i) }))),
    }));
    await Promise.all(Array.from({ length: 30 }, (_, n) => send("a", `e${n}`, new AbortController().signal)));
    await new Promise((turn) => setImmediate(turn));
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });

  test("are sent one by one to a node that does not know such requests", async () => {
    const { requests, send } = world(() => ({ kind: "unreached", why: "a answered 404", status: 404 }));
    for (let turn = 0; turn < 2; turn++)
      expect(await Promise.all([send("a", "x"), send("a", "y")])).toMatchObject([
        { kind: "answered" },
        { kind: "answered" },
      ]);
    expect(requests).toEqual(["a sends 2", "a send", "a send", "a send", "a send"]);
  });

  test("about an execution that has moved wait no longer", async () => {
    let cut = (): void => {};
    const { clock, send } = world(() => ({
      kind: "answered",
      value: (async function* (): AsyncGenerator<SentLine> {
        yield { i: 1, reply: reply(1) };
        await new Promise<void>((resolve) => {
          cut = resolve;
        });
      })(),
    }));
    const abort = new AbortController();
    const moved = send("a", "x", abort.signal);
    expect(await send("a", "y")).toMatchObject({ kind: "answered" });
    abort.abort();
    expect(await moved).toEqual({ kind: "unreached", why: "another node owns it" });
    cut();
    await clock.settle();
  });
});
