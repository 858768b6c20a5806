// What is refused, with a path and before anything is stored; and what the engine does with values that cannot be stored.
import { ExecutionFailed, openRondo, RondoError, workflow } from "rondo";
import { connect } from "rondo/client";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

class Point {
  x = 1;
}
const cycle: Record<string, unknown> = {};
cycle["self"] = cycle;
const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);

/** Everything that INTERFACES says is refused: [what, value, path within, code]. */
const UNSTORABLE: [what: string, value: unknown, within: string, code: string][] = [
  ["a Map", { a: new Map() }, ".a", "not_storable"],
  ["a Set", { a: new Set() }, ".a", "not_storable"],
  ["a Buffer", { a: [Buffer.from("x")] }, ".a[0]", "not_storable"],
  ["a class instance", { a: { b: new Point() } }, ".a.b", "not_storable"],
  ["a function", { a: () => 1 }, ".a", "not_storable"],
  ["a BigInt", { a: 1n }, ".a", "not_storable"],
  ["NaN", { a: Number.NaN }, ".a", "not_storable"],
  ["Infinity", [Number.POSITIVE_INFINITY], "[0]", "not_storable"],
  ["a cycle", cycle, ".self", "not_storable"],
  ["a lone surrogate", { a: "\ud800" }, ".a", "not_storable"],
  ["undefined in a list", { a: [undefined] }, ".a[0]", "not_storable"],
  ["a symbol", { a: Symbol("s") }, ".a", "not_storable"],
  ["too deep a nesting", deep(101), "", "too_deep"],
];

const echo = workflow<unknown>({ name: "echo" })
  .phase("a", { process: ({ task }) => task })
  .returns(() => "ok");

describe("an input that cannot be stored", () => {
  test.each(UNSTORABLE)(
    "%s is refused at start with its path, and nothing is stored",
    async (_what, value, within, code) => {
      const rondo = await open([echo]);
      const refused = await failure(rondo.start(echo, value, { id: "e1" }));
      expect(refused).toBeInstanceOf(RondoError);
      expect(refused.code).toBe(code);
      expect(refused.path?.startsWith(`input${within}`)).toBe(true);
      expect(await failure(rondo.execution("e1").describe())).toMatchObject({ code: "not_found" });
      expect(await rondo.run(echo, { fine: true })).toBe("ok");
    },
  );

  test("over 1 MiB is refused", async () => {
    const rondo = await open([echo]);
    expect(await failure(rondo.start(echo, "x".repeat(1_048_576)))).toMatchObject({
      code: "too_large",
      path: "input",
    });
  });
});

describe("a result that cannot be stored", () => {
  const give = workflow<{ i: number }>({ name: "give" }).phase("a", {
    process: ({ input }) => (input.i < 0 ? "fine" : UNSTORABLE[input.i]?.[1]),
  });

  test.each(UNSTORABLE.map(([what], i) => [what, i] as const))(
    "%s fails its task at once with the path; the engine is unharmed and the next execution fine",
    async (_what, i) => {
      const rondo = await open([give]);
      const [, , within, code] = UNSTORABLE[i] as (typeof UNSTORABLE)[number];
      const failed = (await failure(rondo.run(give, { i }))) as ExecutionFailed;
      expect(failed).toBeInstanceOf(ExecutionFailed);
      expect(failed.code).toBe(code);
      expect(failed.message).toContain(`result${within}`);
      expect(failed.execution.error?.attempt).toBe(1);
      expect(await rondo.run(give, { i: -1 })).toBe("fine");
    },
  );
});

describe("a task that cannot be stored", () => {
  const list = workflow<{ i: number }>({ name: "list" }).phase("a", {
    enumerate: ({ input }) => [{ fine: 1 }, input.i < 0 ? 2 : UNSTORABLE[input.i]?.[1]],
    process: () => null,
  });

  test.each(UNSTORABLE.map(([what], i) => [what, i] as const))(
    "%s fails the enumeration at once with number and path; the next execution is fine",
    async (_what, i) => {
      const rondo = await open([list]);
      const [, , within, code] = UNSTORABLE[i] as (typeof UNSTORABLE)[number];
      const failed = (await failure(rondo.run(list, { i }))) as ExecutionFailed;
      expect(failed.code).toBe(code);
      expect(failed.message).toContain(`task 1${within}`);
      expect(await rondo.run(list, { i: -1 })).toBeNull();
    },
  );
});

test("a signal or an output that cannot be stored is refused, and the execution goes on or fails", async () => {
  const waits = workflow({ name: "waits" })
    .waitFor("go")
    .returns(() => new Map() as unknown as null);
  const rondo = await open([waits]);
  const execution = await rondo.start(waits, null);
  expect(await failure(execution.signal("go", { a: [1n] }))).toMatchObject({
    code: "not_storable",
    path: "signal.a[0]",
  });
  expect(await failure(execution.signal("go", "x".repeat(262_144)))).toMatchObject({ code: "too_large" });
  expect(await failure(execution.signal("no\nlines"))).toMatchObject({ code: "invalid_input" });
  await execution.signal("go", { toJSON: () => 7 });
  expect(await failure(execution.result())).toMatchObject({ code: "not_storable" });
});

describe("an input schema", () => {
  const typed = workflow({
    name: "typed",
    input: z.object({ bucket: z.string().min(3), size: z.coerce.number<string>().default(5) }),
  })
    .phase("a", { process: ({ task, input }) => [task.size, input.size] })
    .returns(async ({ phases }) => {
      for await (const sizes of phases.a.results()) return sizes;
      return null;
    });

  test("refuses at start, with the path, before anything is stored", async () => {
    const rondo = await open([typed]);
    for (const input of [{ bucket: "b" }, { bucket: 7 }, {}, null, "text"]) {
      const refused = await failure(rondo.start(typed, input as never, { id: "e1" }));
      expect(refused).toBeInstanceOf(RondoError);
      expect(refused.code).toBe("invalid_input");
    }
    expect((await failure(rondo.start(typed, { bucket: "b" }))).message).toContain("bucket");
    expect(await failure(rondo.execution("e1").describe())).toMatchObject({ code: "not_found" });
  });

  test("refuses also when the workflow is named, not given", async () => {
    const rondo = await open([typed]);
    expect(await failure(rondo.start("typed", { bucket: "b" }))).toMatchObject({ code: "invalid_input" });
  });

  test("gives handlers its output; what is stored is the caller's", async () => {
    const rondo = await open([typed]);
    const execution = await rondo.start(typed, { bucket: "photos", size: "12" });
    expect(await execution.result()).toEqual([12, 12]);
    expect((await execution.describe()).input).toEqual({ bucket: "photos", size: "12" });
    expect(await rondo.run(typed, { bucket: "photos" })).toEqual([5, 5]);
  });

  test("gives batches its output", async () => {
    const inBatches = workflow({ name: "batches", input: z.object({ size: z.coerce.number<string>() }) })
      .phase("a", { batch: 5, processBatch: ({ tasks }) => tasks.map(({ size }) => size + 1) })
      .returns(({ phases }) => phases.a.reduce((sum, n) => sum + n, 0));
    const rondo = await open([inBatches]);
    expect(await rondo.run(inBatches, { size: "7" })).toBe(8);
  });
});

describe("ids", () => {
  const one = workflow<unknown>({ name: "one" }).waitFor("go");
  const other = workflow<unknown>({ name: "other" }).waitFor("go");

  test("the same id, workflow and input finds the same execution", async () => {
    const rondo = await open([one]);
    const first = await rondo.start(one, { a: 1, b: [2] }, { id: "e1" });
    const again = await rondo.start(one, { b: [2], a: 1 }, { id: "e1" });
    expect(again.id).toBe(first.id);
    expect((await rondo.list()).data).toHaveLength(1);
    await again.signal("go");
    expect(await first.result()).toBeNull();
    expect(await rondo.run(one, { a: 1, b: [2] }, { id: "e1" })).toBeNull();
  });

  test("another input or workflow under the id is a conflict, also when it is over", async () => {
    const rondo = await open([one, other]);
    const first = await rondo.start(one, 1, { id: "e1" });
    expect(await failure(rondo.start(one, 2, { id: "e1" }))).toMatchObject({ code: "conflict" });
    expect(await failure(rondo.start(other, 1, { id: "e1" }))).toMatchObject({ code: "conflict" });
    await first.signal("go");
    await first.result();
    expect(await failure(rondo.run(one, 2, { id: "e1" }))).toMatchObject({ code: "conflict" });
  });

  test("that are not ids are refused: too long, with ~, with control characters, empty, only dots", async () => {
    const rondo = await open([one]);
    for (const id of ["", "a\nb", "a~b", "a".repeat(201), ".", "..", "a\u200eb", "ä".repeat(101)])
      expect([id, (await failure(rondo.start(one, 1, { id }))).code]).toEqual([id, "invalid_input"]);
    for (const id of ["a", "nightly-2026-11-15", "A:b_c-d", "9", "a".repeat(200), "a b", "a/b", "ä", "-a"])
      expect((await rondo.start(one, 1, { id })).id).toBe(id);
  });
});

describe("other options of a start", () => {
  const one = workflow<unknown>({ name: "one" }).waitFor("go");

  test.each<[string, object, string]>([
    ["a project that is no name", { project: "no spaces" }, "project"],
    ["a tag that is no text", { tags: { a: 1 } }, "tags.a"],
    ["a tag that is too long", { tags: { a: "x".repeat(201) } }, "tags.a"],
    ["a time that is none", { startAt: new Date(Number.NaN) }, "startAt"],
    ["a deadline that is none", { deadline: 1.5 }, "deadline"],
  ])("%s is refused", async (_what, options, path) => {
    const rondo = await open([one]);
    expect(await failure(rondo.start(one, 1, options))).toMatchObject({ code: "invalid_input", path });
  });

  test("tags come back as they were, whatever they are called", async () => {
    const rondo = await open([one]);
    const tags = { n: "3", all: "x", up: "y" };
    const { id } = await rondo.start(one, 1, { tags });
    const [created] = await first(rondo.execution(id).events());
    expect(created).toMatchObject({ kind: "workflow.created", tags });
    expect((await rondo.execution(id).describe()).tags).toEqual(tags);
  });

  test("a workflow that nobody knows is not found", async () => {
    const rondo = await open([one]);
    expect(await failure(rondo.start("nobody", 1))).toMatchObject({ code: "not_found" });
  });

  test("a workflow that is not served here is stored and waits for a worker", async () => {
    const elsewhere = workflow<unknown>({ name: "elsewhere" }).phase("a", { process: () => 1 });
    const rondo = await open([one]);
    const execution = await rondo.start(elsewhere, 1);
    expect(await execution.why()).toBe('"a" waits for a worker: none serves "elsewhere.a" now.');
    rondo.serve(elsewhere);
    expect(await execution.result()).toBe(1);
  });
});

async function first<T>(items: AsyncIterable<T>): Promise<T[]> {
  for await (const item of items) return [item];
  return [];
}

test.each([7, "", ".", ".."])(
  "%j is the id of no execution, which also a client says without asking",
  async (id) => {
    const rondo = await open([echo]);
    for (const one of [rondo, connect({ url: "http://127.0.0.1:1" })]) {
      const refused = await failure(Promise.resolve().then(() => one.execution(id as string)));
      expect(refused).toMatchObject({ code: "invalid_input", path: "id" });
    }
  },
);

test("an option that a start does not have is refused with those it has; waiting has its own", async () => {
  const rondo = await open([echo]);
  const misspelt = { dealine: 5 } as object;
  const refused = await failure(rondo.start(echo, null, misspelt));
  expect(refused).toMatchObject({ code: "unknown_field", path: "dealine" });
  expect(refused.message).toContain("known are: id, project, tags, startAt, deadline");
  expect(await failure(rondo.run(echo, null, misspelt))).toMatchObject({ code: "unknown_field" });
  expect(await rondo.run(echo, null, { timeout: "1m", signal: new AbortController().signal })).toBe("ok");
});

test("signals are kept by their bytes: what is not ASCII counts for what it takes", async () => {
  const waits = workflow({ name: "waits" }).waitFor("never");
  const rondo = await open([waits]);
  const execution = await rondo.start(waits, null);
  // 3 bytes each: 5 of them fit into 1 MiB, 6 do not.
  const text = "\u20ac".repeat(66_000);
  for (let i = 0; i < 5; i++) await execution.signal("other", text);
  expect(await failure(execution.signal("other", text))).toMatchObject({ code: "rate_limited" });
});

describe("openRondo refuses", () => {
  const cases: [what: string, options: unknown, message: string][] = [
    ["null", null, "openRondo takes an object of options"],
    ["a text", "memory:", 'openRondo takes an object of options (openRondo({ store: "file:.rondo" }))'],
    [
      "a misspelt option",
      { stor: "memory:" },
      'stor: openRondo has no such field (did you mean "store"? known are: store, capacity',
    ],
    ["a store that is a number", { store: 5 }, "store: 5 is not a text"],
    ["a store that is none", { store: {} }, "store: {} is not a text"],
    [
      "a store of another kind",
      { store: "redis://h" },
      '"redis://h" is not the URL of a store that this version supports',
    ],
    ["a capacity of nothing", { store: "memory:", capacity: 0 }, "capacity: 0 is not a whole number from 1"],
    ["a part of the engine", { store: "memory:", settings: {} }, "settings: openRondo has no such field"],
    ["a project as a number", { store: "memory:", projects: { p: 5 } }, "projects.p: 5 is not"],
    [
      "a limit of 0",
      { store: "memory:", projects: { p: { concurrency: 0 } } },
      "projects.p.concurrency: 0 is",
    ],
    ["a broker of another kind", { store: "memory:", broker: "http://h" }, "broker: this is not the address"],
    ["targets as a text", { store: "memory:", allowTargets: "h" }, 'allowTargets: "h" is not a list'],
    ["state stores as a number", { store: "memory:", stateStores: 5 }, "stateStores: this is not an object"],
    ["a log that is no function", { store: "memory:", onLog: console }, "onLog: {} is not a function"],
  ];
  test.each(cases)("%s, and opens nothing", async (_what, options, message) => {
    const refused = await failure(openRondo(options as never));
    expect(refused).toBeInstanceOf(RondoError);
    expect(refused.message).toContain(message);
  });
});
