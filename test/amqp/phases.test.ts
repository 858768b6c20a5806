// Groups A and B of the conformance cases over real queues, with a worker that knows nothing but the protocol.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { until } from "../faults/until.ts";
import { all } from "../local/open.ts";
import { AmqpBench, described } from "./amqp-bench.ts";
import { fatal } from "./raw-worker.ts";

let bench: AmqpBench;
let isHere = true;
beforeEach(async () => {
  const made = await AmqpBench.make();
  isHere = made !== null;
  if (made !== null) bench = made;
}, 180_000);
afterEach(() => (isHere ? bench.close() : undefined));

const work = (name = "work", more: object = {}) => ({
  name,
  handlers: { [name]: { use: name, enumerate: { use: name }, retry: { min: 1, max: 1 }, ...more } },
});
const kinds = (events: readonly { kind: string }[]) => events.map(({ kind }) => kind.replace("workflow.", ""));

describe("phases over queues", () => {
  test("A1 three tasks are processed, and handler, phase and workflow finish once each, in this order", async ({
    skip,
  }) => {
    if (!isHere) return skip();
    const rondo = await bench.open();
    const worker = await bench.worker({
      work: { enumerate: () => ["a", "b", "c"], process: ({ data }) => `${String(data)}!` },
    });
    const flow = described("flow", [work(), { name: "end", handlers: {}, final: true }]);
    const handle = await rondo.start(flow, { n: 1 } as never);
    await handle.result({ timeout: 20_000 });
    expect(worker.seen.map(({ data }) => data).sort()).toEqual(["a", "b", "c"]);
    const events = kinds(await all(handle.events()));
    expect(events.filter((kind) => kind.endsWith("finished"))).toEqual([
      "handler.finished",
      "phase.finished",
      "phase.finished",
      "finished",
    ]);
    await bench.isTidy();
    expect(bench.faults).toEqual([]);
  });
});
