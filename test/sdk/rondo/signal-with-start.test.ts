// A start with a signal: it starts, or signals what is open, or says that it has ended; nothing accepted is lost.
import { defineSignal, flow, workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { effort } from "../../fixtures/long.ts";
import { failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";
import { until } from "../../fixtures/until.ts";

const once = workflow<{ n: number }>({ name: "once" })
  .waitFor("item", { schema: z.object({ text: z.string() }) })
  .returns(({ phases, input }) => `${phases.item.value.text} ${input.n}`);

const twice = workflow<{ n: number }>({ name: "twice" })
  .waitFor("first", { signal: "item" })
  .waitFor("second", { signal: "item" })
  .returns(({ phases }) => [phases.first.value, phases.second.value]);

describe("signalWithStart", () => {
  test("starts an execution that is not there, signals one that is open, and refuses one that has ended", async () => {
    const rondo = await open([twice]);
    const first = await rondo.signalWithStart(twice, { n: 1 }, { name: "item", data: 1 }, { id: "e" });
    expect([first.execution.id, first.started, first.signal]).toEqual(["e", true, "delivered"]);
    const other = { name: "item", data: 2, id: "two" };
    const second = await rondo.signalWithStart(twice, { n: 2 }, other, { id: "e" });
    expect([second.execution.id, second.started, second.signal]).toEqual(["e", false, "delivered"]);
    expect(await second.execution.result()).toEqual([1, 2]);
    expect((await second.execution.describe()).input).toEqual({ n: 1 });
    const late = await failure(rondo.signalWithStart(twice, { n: 3 }, { name: "item" }, { id: "e" }));
    expect(late.code).toBe("gone");
    const repeat = await rondo.signalWithStart(twice, { n: 2 }, other, { id: "e" });
    expect([repeat.started, repeat.signal]).toEqual([false, "delivered"]);
    expect((await failure(first.execution.signal("item", 4))).code).toBe("gone");
  });

  test("starts the next execution of an id that has ended, if ifExists asks for it", async () => {
    const rondo = await open([once]);
    const ids: string[] = [];
    for (let n = 1; n <= 12; n++) {
      const signal = { name: "item", data: { text: "t" }, id: `s${n}` };
      const sent = await rondo.signalWithStart(once, { n }, signal, {
        id: "e",
        ifExists: "startNewWhenDone",
      });
      expect(sent.started).toBe(true);
      expect(await sent.execution.result()).toBe(`t ${n}`);
      const repeat = await rondo.signalWithStart(once, { n }, signal, {
        id: "e",
        ifExists: "startNewWhenDone",
      });
      expect([repeat.execution.id, repeat.started]).toEqual([sent.execution.id, false]);
      ids.push(sent.execution.id);
    }
    expect(ids).toEqual(["e", ...Array.from({ length: 11 }, (_, i) => `e~${i + 2}`)]);
    // A request that was delayed for a while comes again.
    for (const n of [1, 2, 5, 11]) {
      const signal = { name: "item", data: { text: "t" }, id: `s${n}` };
      const repeat = await rondo.signalWithStart(once, { n }, signal, {
        id: "e",
        ifExists: "startNewWhenDone",
      });
      expect([repeat.execution.id, repeat.started]).toEqual([ids[n - 1], false]);
    }
  });

  test("starts the next execution of the longest id, and whatever ids others have", async () => {
    const rondo = await open([once, twice]);
    const long = `ä${"x".repeat(198)}`;
    for (const id of [long, "z"]) {
      await rondo.start(twice, { n: 0 }, { id: `${id.slice(0, 10)}:2` });
      for (let n = 1; n <= 3; n++) {
        const signal = { name: "item", data: { text: "t" } };
        const sent = await rondo.signalWithStart(once, { n }, signal, { id, ifExists: "startNewWhenDone" });
        expect(sent.started).toBe(true);
        expect(await sent.execution.result()).toBe(`t ${n}`);
      }
    }
  });

  test("refuses data that no wait takes, another workflow or project under the id, and wrong options", async () => {
    const rondo = await open([once, twice]);
    const item = { name: "item", data: { text: "t" } };
    const codes = async (sent: Promise<unknown>) => {
      const { code, path } = await failure(sent);
      return [code, path];
    };
    const wrong = rondo.signalWithStart(once, { n: 1 }, { name: "item", data: 5 }, { id: "e" });
    expect((await failure(wrong)).code).toBe("invalid_input");
    expect((await failure(rondo.execution("e").describe())).code).toBe("not_found");
    await rondo.signalWithStart(twice, { n: 1 }, item, { id: "e" });
    expect(await codes(rondo.signalWithStart(once, { n: 1 }, item, { id: "e" }))).toEqual([
      "conflict",
      undefined,
    ]);
    const elsewhere = rondo.signalWithStart(twice, { n: 1 }, item, { id: "e", project: "other" });
    expect((await failure(elsewhere)).code).toBe("conflict");
    const misspelt = rondo.signalWithStart(twice, { n: 1 }, item, { id: "f", ifExists: "again" as never });
    expect(await codes(misspelt)).toEqual(["invalid_input", "ifExists"]);
    const nameless = rondo.signalWithStart(twice, { n: 1 }, item, {} as never);
    expect(await codes(nameless)).toEqual(["invalid_input", "id"]);
  });
});

test("a debounce loses no signal in a race with the end of its execution", async () => {
  const races = effort({ usual: 200, long: 10_000 });
  const flushed = new Map<string, number>();
  const debounce = workflow({ name: "debounce", unread: { item: "collect" } })
    .waitFor("collect", { signal: "item", schema: z.string() })
    .phase("flush", {
      process: ({ phases }) => {
        const item = phases.collect.value;
        flushed.set(item, (flushed.get(item) ?? 0) + 1);
      },
    })
    .returns(() => null);
  const rondo = await open([debounce]);
  const outcomes = new Map<string, number>();
  const send = async (race: number, n: number): Promise<void> => {
    const signal = { name: "item", data: `${race}/${n}` };
    const sent = await rondo.signalWithStart(debounce, null, signal, {
      id: `r${race}`,
      ifExists: "startNewWhenDone",
    });
    const outcome = `${sent.execution.id === `r${race}` ? "first" : "next"} ${sent.started ? "started" : sent.signal}`;
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  };
  const race = async (number: number): Promise<void> => {
    await send(number, 0);
    // From at once to well after the end of the execution.
    for (let turn = number % 24; turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve));
    await Promise.all([send(number, 1), send(number, 2)]);
  };
  for (let from = 0; from < races; from += 40)
    await Promise.all(Array.from({ length: Math.min(40, races - from) }, (_, i) => race(from + i)));
  await until("every item is flushed", () => flushed.size === races * 3);
  expect([...flushed.values()].every((times) => times === 1)).toBe(true);
  for (const outcome of ["first started", "first kept", "next started"])
    expect(outcomes.get(outcome) ?? 0, outcome).toBeGreaterThan(0);
}, 600_000);

describe("a signal that a workflow never waits for", () => {
  const approval = defineSignal<{ ok: boolean }>("approval");

  test("is refused with a start, which starts nothing", async () => {
    const waits = workflow({ name: "waits", signals: [] })
      .waitFor("approval")
      .waitFor("second", { signal: "go" });
    const rondo = await open([waits]);
    const refused = await failure(rondo.signalWithStart(waits, null, { name: "aproval" }, { id: "w" }));
    expect(refused).toMatchObject({ code: "invalid_input", hint: 'the workflow waits for "approval", "go"' });
    expect(refused.message).toContain('the workflow "waits" never waits for the signal "aproval"');
    expect((await rondo.list()).data).toEqual([]);
    const { execution } = await rondo.signalWithStart(waits, null, { name: "approval" }, { id: "w" });
    expect(await failure(execution.signal("og"))).toMatchObject({ code: "invalid_input" });
    await execution.signal("go");
    await execution.result();
  });

  test("is refused if the workflow lists the signals of its code", async () => {
    const code = flow("code", async ({ waitFor }) => (await waitFor(approval)).ok, {
      signals: [approval, "later"],
    });
    const rondo = await open([code]);
    const execution = await rondo.start(code, null);
    expect(await failure(execution.signal("aproval", {}))).toMatchObject({
      code: "invalid_input",
      hint: 'the workflow waits for "approval", "later"',
    });
    expect(await execution.signal("later", 1)).toBe("kept");
    await execution.signal(approval, { ok: true });
    expect(await execution.result()).toBe(true);
  });

  test("can be a declared one, whose data is checked", async () => {
    const approval = defineSignal("approval", z.object({ ok: z.boolean() }));
    const code = flow("declared", async ({ waitFor }) => (await waitFor(approval)).ok);
    const rondo = await open([code]);
    const wrong = { name: approval, data: { ok: "perhaps" } as never };
    expect(await failure(rondo.signalWithStart(code, null, wrong, { id: "d" }))).toMatchObject({
      code: "invalid_input",
      path: '"approval".ok',
    });
    expect((await rondo.list()).data).toEqual([]);
    const right = { name: approval, data: { ok: true } };
    const { execution } = await rondo.signalWithStart(code, null, right, { id: "d" });
    expect(await execution.result()).toBe(true);
  });

  test("is kept and listed if code may wait for any", async () => {
    const code = flow("any", async ({ waitFor }) => waitFor("approval"));
    const rondo = await open([code]);
    const execution = await rondo.start(code, null);
    expect(await execution.signal("aproval", 1)).toBe("kept");
    expect((await execution.describe()).unread).toEqual([{ signal: "aproval", count: 1 }]);
    await execution.signal("approval", 2);
    expect(await execution.result()).toBe(2);
  });
});
