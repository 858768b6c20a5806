// Events start, signal and cancel executions by the triggers of workflows, once by their ids.
import { event, on, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { EVENT_WORKFLOW, GATE_WORKFLOW } from "../../../src/kernel/relay/relay.ts";
import { VirtualClock } from "../../../src/testing/virtual-clock.ts";
import { failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";
import { until } from "../../fixtures/until.ts";

interface Paid {
  order: string;
  amount: number;
}

const orderPaid = event<Paid>("order/paid");
const idle = { process: () => null };

const ship = workflow<Paid>({ name: "ship", on: on(orderPaid) }).phase("ship", {
  process: ({ task }) => `shipped ${task.order}`,
});
const thank = workflow<Paid>({ name: "thank", on: on(orderPaid, { match: { amount: 100 } }) }).phase("mail", {
  process: ({ task }) => `thanks for ${task.order}`,
});

/** The inputs of all executions of a workflow, oldest first. */
async function inputs(
  rondo: Pick<Awaited<ReturnType<typeof open>>, "list">,
  name: string,
): Promise<unknown[]> {
  const { data } = await rondo.list({ workflow: name });
  return data.map(({ input }) => input).reverse();
}

describe("an event", () => {
  test("is forgotten by a program without a server after the time that it says", async () => {
    const clock = new VirtualClock();
    const rondo = await open([ship], { clock, eventsKept: "20m" });
    const paid = orderPaid({ order: "A", amount: 1 }, { id: "p-1" });
    expect(await rondo.send(paid)).toMatchObject({ repeated: false });
    await clock.advance("19m");
    expect(await rondo.send(paid)).toMatchObject({ repeated: true });
    await clock.advance("3m");
    expect((await rondo.list({ workflow: EVENT_WORKFLOW })).data).toEqual([]);
    expect(await rondo.send(paid)).toMatchObject({ repeated: false });
  });

  test("starts an execution for each trigger that it matches, once by its id", async () => {
    const rondo = await open([ship, thank]);
    const sent = await rondo.send(orderPaid({ order: "A", amount: 100 }, { id: "p-1" }));
    expect(sent).toMatchObject({ id: "p-1", repeated: false, refused: [] });
    expect(sent.targets.map(({ workflow: name, action }) => [name, action])).toEqual([
      ["ship", "start"],
      ["thank", "start"],
    ]);
    await until("both start", async () => (await rondo.list()).data.length === 2);
    const results = sent.targets.map(({ execution = "" }) => rondo.execution(execution).result());
    expect(await Promise.all(results)).toEqual(["shipped A", "thanks for A"]);
    const again = await rondo.send(orderPaid({ order: "other", amount: 1 }, { id: "p-1" }));
    expect(again).toEqual({ ...sent, repeated: true });
    const other = await rondo.send(orderPaid({ order: "B", amount: 1 }));
    expect(other.targets.map(({ workflow: name }) => name)).toEqual(["ship"]);
    await until("it starts", async () => (await inputs(rondo, "ship")).length === 2);
    expect(await inputs(rondo, "thank")).toEqual([{ order: "A", amount: 100 }]);
    // Events and gates are listed only by their workflow.
    expect((await rondo.list()).data.map(({ workflow: name }) => name).toSorted()).toEqual([
      "ship",
      "ship",
      "thank",
    ]);
    expect((await rondo.list({ workflow: EVENT_WORKFLOW })).data).toHaveLength(2);
  });

  test("does nothing where its data does not fit the workflow", async () => {
    const checked = workflow({
      name: "checked",
      input: z.object({ order: z.string() }),
      on: on<{ order: string }>("order/paid"),
    }).phase("a", { process: () => 1 });
    const rondo = await open([checked]);
    const sent = await rondo.send({ name: "order/paid", data: { order: 7 } });
    expect(sent.targets).toEqual([]);
    expect(sent.refused).toEqual([{ workflow: "checked", reason: expect.stringContaining("order") }]);
  });

  test("that matches nothing is accepted and remembered", async () => {
    const rondo = await open([ship]);
    expect(await rondo.send({ name: "no/trigger", id: "x" })).toEqual({
      id: "x",
      repeated: false,
      targets: [],
      refused: [],
    });
    expect((await rondo.send({ name: "no/trigger", id: "x" })).repeated).toBe(true);
  });

  test("is refused if it is wrong, or has more than 1,000 targets", async () => {
    const rondo = await open([]);
    expect((await failure(rondo.send({ name: "" }))).code).toBe("invalid_input");
    expect((await failure(rondo.send({ name: "a", data: new Map() }))).code).toBe("not_storable");
    expect((await failure(rondo.send({ name: "a", nme: 1 } as never))).code).toBe("unknown_field");
    expect((await failure(rondo.send({ name: "a", data: "x".repeat(300_000) }))).code).toBe("too_large");
    rondo.serve(
      ...Array.from({ length: 1_001 }, (_, i) =>
        workflow<unknown>({ name: `w${i}`, on: on("many") }).phase("a", idle),
      ),
    );
    expect(await failure(rondo.send({ name: "many" }))).toMatchObject({
      code: "too_large",
      message: expect.stringContaining("1001 targets"),
    });
  });

  test("signals the execution that its data names", async () => {
    const approval = workflow<{ n: number }>({
      name: "approval",
      on: on<never>("approval/given", { signal: "approval", execution: "/execution" }),
    }).waitFor("approval");
    const rondo = await open([approval]);
    const execution = await rondo.start(approval, { n: 1 }, { id: "a-1" });
    await rondo.send({ name: "approval/given", data: { execution: "a-1", by: "ann" } });
    expect(await execution.result()).toEqual({ execution: "a-1", by: "ann" });
  });

  test("of two workflows signals the same execution twice", async () => {
    const both = workflow<{ n: number }>({
      name: "both",
      on: on<never>("x", { signal: "one", execution: "/id" }),
    })
      .waitFor("one")
      .waitFor("two")
      .returns(({ phases }) => [phases.one.value, phases.two.value]);
    const other = workflow<{ id: string }>({
      name: "other",
      on: on<never>("x", { signal: "two", execution: "/id" }),
    }).phase("none", { process: () => 1 });
    const rondo = await open([both, other]);
    const execution = await rondo.start(both, { n: 1 }, { id: "b-1" });
    await rondo.send({ name: "x", data: { id: "b-1" } });
    expect(await execution.result()).toEqual([{ id: "b-1" }, { id: "b-1" }]);
  });

  test("signals no execution of another project, and none by a text that is no id", async () => {
    const target = workflow<{ n: number }>({
      name: "target",
      on: on<never>("go", { signal: "go", execution: "/id" }),
    }).waitFor("go");
    const rondo = await open([target]);
    const execution = await rondo.start(target, { n: 1 }, { id: "t-1", project: "theirs" });
    const foreign = await rondo.send({ name: "go", data: { id: "t-1" }, project: "ours" });
    for (const id of ["\u0000", "", "x".repeat(201), "..", 7])
      expect(await rondo.send({ name: "go", data: { id } })).toMatchObject({
        targets: [],
        refused: [
          { workflow: "target", reason: '"/id" in the data of the event is not the id of an execution' },
        ],
      });
    // Messages to one execution are applied in their order, so the foreign one has come before this.
    await rondo.send({ name: "go", data: { id: "t-1", mine: true }, project: "theirs" });
    expect(await execution.result()).toEqual({ id: "t-1", mine: true });
    expect(foreign.targets).toHaveLength(1);
  });

  test("uses the newest definition of a workflow", async () => {
    const rondo = await open([ship]);
    await rondo.send(orderPaid({ order: "A", amount: 1 }));
    rondo.serve(workflow<Paid>({ name: "ship" }).phase("ship", { process: () => 1 }));
    expect((await rondo.send(orderPaid({ order: "B", amount: 1 }))).targets).toEqual([]);
  });
});

describe("a trigger", () => {
  interface Edit {
    doc: string;
    n: number;
  }
  const edited = event<Edit>("doc/edited");

  test("debounces by key, over crashes", async () => {
    const index = workflow<Edit>({
      name: "index",
      on: on(edited, { key: "/doc", debounce: { quiet: "10s", max: "1m" } }),
    }).phase("index", { process: ({ task }) => task.n });
    const rondo = await testRondo({ workflows: [index] });
    for (let n = 0; n < 5; n++) {
      for (const doc of ["a", "b"]) await rondo.send(edited({ doc, n }, { id: `${doc}${n}` }));
      await rondo.clock.advance("5s");
      if (n === 2) await rondo.crash();
    }
    expect(await inputs(rondo, "index")).toEqual([]);
    await rondo.clock.advance("10s");
    expect(await inputs(rondo, "index")).toEqual([
      { doc: "a", n: 4 },
      { doc: "b", n: 4 },
    ]);
    await rondo.send(edited({ doc: "a", n: 9 }));
    await rondo.clock.advance("10s");
    expect(await inputs(rondo, "index")).toHaveLength(3);
    await rondo.close();
  });

  test("collects batches, whose input is a list", async () => {
    const load = workflow<Edit[]>({
      name: "load",
      on: on(edited, { batch: { max: 3, wait: "1m" } }),
    }).phase("load", { process: ({ task }) => task.length });
    const rondo = await testRondo({ workflows: [load] });
    for (let n = 0; n < 4; n++) await rondo.send(edited({ doc: "a", n }));
    await rondo.settle();
    const numbers = async () =>
      (await inputs(rondo, "load")).map((list) => (list as Edit[]).map(({ n }) => n));
    expect(await numbers()).toEqual([[0, 1, 2]]);
    await rondo.clock.advance("1m");
    expect(await numbers()).toEqual([[0, 1, 2], [3]]);
    await rondo.close();
  });

  test("throttles starts exactly", async () => {
    const starts: number[] = [];
    const now = () => rondo.clock.now();
    const slow = workflow<Edit>({
      name: "slow",
      on: on(edited, { throttle: { limit: 2, per: "10s" } }),
    }).phase("slow", { process: () => void starts.push(now()) });
    const rondo = await testRondo({ workflows: [slow] });
    const from = now();
    for (let n = 0; n < 5; n++) await rondo.send(edited({ doc: "a", n }));
    for (let i = 0; i < 30; i++) await rondo.clock.advance("1s");
    expect(starts.map((at) => Math.floor((at - from) / 10_000))).toEqual([0, 0, 1, 1, 2]);
    await rondo.close();
  });

  test("keeps one execution of a key: skips, replaces or signals", async () => {
    const waits = (name: string, singleton: "skip" | "cancel") =>
      workflow<Edit>({ name, on: on(edited, { key: "/doc", singleton }) }).waitFor("go");
    const joins = workflow<Edit>({
      name: "joins",
      on: on(edited, { key: "/doc", singleton: "signal", signal: "go" }),
    }).waitFor("go");
    const rondo = await open([waits("skips", "skip"), waits("replaces", "cancel"), joins]);
    const statuses = async (name: string) =>
      (await rondo.list({ workflow: name })).data.map(({ status }) => status).reverse();
    await rondo.send(edited({ doc: "a", n: 1 }));
    await until("the effects", async () => (await statuses("joins")).length === 1);
    await rondo.send(edited({ doc: "a", n: 2 }));
    await until("the effects", async () => (await statuses("replaces")).join() === "cancelled,running");
    await until("the effects", async () => (await statuses("joins")).join() === "done");
    expect(await statuses("skips")).toEqual(["running"]);
    const [joined] = (await rondo.list({ workflow: "joins" })).data;
    expect(joined?.output).toEqual({ doc: "a", n: 2 });
    await until("the gate ends", async () => {
      const { data } = await rondo.list({ workflow: GATE_WORKFLOW });
      return data.filter(({ status }) => status === "done").length === 1;
    });
    await rondo.send(edited({ doc: "a", n: 3 }));
    await until("the effects", async () => (await statuses("joins")).length === 2);
  });

  test("cancels the executions of a key by another event", async () => {
    const order = workflow<{ order: string }>({
      name: "order",
      on: on(event<{ order: string }>("order/placed"), {
        key: "/order",
        cancelOn: { event: "order/withdrawn", key: "/id" },
      }),
    }).waitFor("paid");
    const rondo = await open([order]);
    for (const one of ["a", "b"]) await rondo.send({ name: "order/placed", data: { order: one } });
    await until("the effects", async () => (await inputs(rondo, "order")).length === 2);
    await rondo.send({ name: "order/withdrawn", data: { id: "a" } });
    const cancelled = async () => (await rondo.list({ workflow: "order", status: "cancelled" })).data;
    await until("the effects", async () => (await cancelled()).length === 1);
    expect((await cancelled())[0]?.input).toEqual({ order: "a" });
  });

  test("cancelOn reaches an entity that cleans up before it continues", async () => {
    let begun = 0;
    const entity = workflow<{ id: string }>({
      name: "entity",
      on: on(event<{ id: string }>("opened"), { key: "/id", cancelOn: { event: "closed", key: "/id" } }),
      finally: "close",
    })
      .phase("live", {
        process({ continueAs }): Promise<never> {
          begun++;
          return continueAs({ id: "a" });
        },
      })
      .waitFor("close");
    const rondo = await open([entity]);
    await rondo.send({ name: "opened", data: { id: "a" } });
    await until("the clean-up", async () => (await rondo.list({ status: "cleaning" })).data.length === 1);
    const id = (await rondo.list({ status: "cleaning" })).data[0]?.id as string;
    await rondo.send({ name: "closed", data: { id: "a" }, id: "c" });
    let continues = 0;
    for await (const { kind } of rondo.execution(`${id}~1`).events())
      if (kind === "workflow.continuing" && ++continues === 2) break;
    await rondo.execution(id).signal("close");
    await expect(rondo.execution(id).result()).rejects.toThrow("cancelled");
    const views = (await rondo.list({ workflow: "entity" })).data.map((one) => `${one.id} ${one.status}`);
    expect(views.toSorted()).toEqual([`${id} done`, `${id}~2 cancelled`]);
    expect(begun).toBe(1);
    // The gate has heard of the end, so the next event starts another entity.
    await rondo.send({ name: "opened", data: { id: "a" } });
    await until("the next one", async () => begun === 2);
  });

  test("is refused where its options do not go together", () => {
    const name = "w";
    const refused = (options: object) => {
      const made = workflow<unknown>({ name, on: on("e", options) }).phase("a", idle);
      return open([made]).then(
        () => "accepted",
        (thrown: unknown) => (thrown as Error).message,
      );
    };
    const batch = { max: 2, wait: "1s" };
    return expect(
      Promise.all([
        refused({ batch, debounce: { quiet: "1s" } }),
        refused({ singleton: "signal" }),
        refused({ signal: "go" }),
        refused({ execution: "/id" }),
        refused({ throttle: { limit: 0, per: "1s" } }),
      ]),
    ).resolves.toEqual([
      expect.stringContaining("on[0].batch: cannot be used together with debounce"),
      expect.stringContaining("on[0].signal: is missing"),
      expect.stringContaining("on[0].signal: does not say which execution gets the signal"),
      expect.stringContaining("on[0].signal: is missing"),
      expect.stringContaining("on[0].throttle.limit"),
    ]);
  });
});

test("no workflow can have a name of the engine", async () => {
  const taken = workflow({ name: EVENT_WORKFLOW }).phase("a", { process: () => null });
  expect((await failure(open([taken]))).message).toContain(
    "is the name of one of the engine's own workflows",
  );
});
