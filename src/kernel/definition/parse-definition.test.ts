// Definitions from outside: the canonical form, its hash, and every refusal with its message (INTERFACES 2).
import fc from "fast-check";
import { validRange } from "semver";
import { describe, expect, test } from "vitest";
import { isRejection } from "../../std/rejection.ts";
import type { Definition } from "./definition.ts";
import { parseDefinition, parseStored } from "./parse-definition.ts";
import { compilePlan, definitionHash } from "./plan.ts";

// The same run every time; change the seed to look elsewhere.
fc.configureGlobal({ seed: 1 });

function parsed(data: unknown): Definition {
  const definition = parseDefinition(data);
  if (isRejection(definition)) throw new Error(definition.message);
  return definition;
}

const one = (phase: object, ...more: object[]) => ({ name: "w", phases: [{ name: "a", ...phase }, ...more] });
const handler = (options: object) => one({ handlers: { h: { use: "u", ...options } } });

const canonical = (options: object) => parsed(handler(options)).phases[0]?.handlers["h"];
const run = (name: string) => ({ name, expression: "s => s" });

describe("the canonical form", () => {
  test("has durations in milliseconds", () => {
    expect(canonical({ timeout: "1.5s", heartbeat: "1m" })).toEqual({
      use: "u",
      timeout: 1_500,
      heartbeat: 60_000,
    });
  });

  test("leaves defaults out", () => {
    const options = {
      retry: { attempts: 3, crashes: 4, backoff: "exponential", min: "1s", max: "1m" },
      heartbeat: "30s",
      priority: 0,
      tolerate: 0,
      batch: 1,
    };
    expect(canonical(options)).toEqual({ use: "u" });
    expect(parsed(one({ handlers: {}, final: false, maxVisits: 1_000 })).phases).toEqual([
      { name: "a", handlers: {} },
    ]);
    expect(parsed(one({ handlers: { h: { waitFor: "s", optional: false } } })).phases[0]?.handlers).toEqual({
      h: { waitFor: "s" },
    });
  });

  test("keeps what is said and is not the default", () => {
    const options = {
      version: "~1.2",
      retry: { attempts: 5 },
      concurrency: 200,
      key: "/customer",
      concurrencyPerKey: 5,
      identity: "/key",
      priority: -3,
      tolerate: "1%",
    };
    expect(canonical(options)).toEqual({ use: "u", ...options });
  });

  test("has rates, batches, runs and children", () => {
    expect(canonical({ rate: { limit: 100, per: "1m" }, batch: 50 })).toEqual({
      use: "u",
      rate: { limit: 100, per: 60_000 },
      batch: 50,
    });
    const script = [{ ...run("one"), timeout: "5s" }, run("two")];
    const handlers = {
      map: { script, state: { n: [1, null] }, resume: true },
      again: { script: [run("one")], tasks: [1, 2], resume: false },
      invoices: { workflow: "invoice", enumerate: { use: "list-invoices" }, concurrency: 20 },
    };
    expect(parsed(one({ handlers })).phases[0]?.handlers).toEqual({
      map: { script: [{ ...run("one"), timeout: 5_000 }, run("two")], state: { n: [1, null] } },
      again: { script: [run("one")], tasks: [1, 2], resume: false },
      invoices: handlers.invoices,
    });
  });

  test("a range that is taken is one that semver knows, and what semver does not know is refused", () => {
    const piece = fc.constantFrom(
      ...["1", "1.2", "1.2.3", "0.0.1", "*", "x", "1.x", "v2", "01", "1.0.0-a.1", "1.0.0-01", "1.0.0+b"],
      ...["~", "^", ">=", "<", "=", "<>", "-", " - ", " ", "||", " || ", "latest", ".", "1.2.3.4", "-1"],
    );
    let taken = 0;
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 5 }), (pieces) => {
        const version = pieces.join("");
        const isTaken = !isRejection(parseDefinition(handler({ version })));
        if (isTaken) taken++;
        if (isTaken) expect(validRange(version), version).not.toBeNull();
      }),
      { numRuns: 3_000, seed: 7 },
    );
    expect(taken).toBeGreaterThan(200);
    for (const version of ["latest", "1..2", "1.2.3.4", "~", "1 -", "a || b", "1 2 -", " "])
      expect(isRejection(parseDefinition(handler({ version }))), version).toBe(true);
  });

  test.each(["1", "1.2.3", "~1.2", "^1", ">=1 <3", "1 - 2", "1.x || >=2.5.0", "*", "1.0.0-beta.1"])(
    "keeps a range of versions: %s",
    (version) => expect(canonical({ version })).toEqual({ use: "u", version }),
  );

  test("has max at least at min where only min is given", () => {
    expect(canonical({ retry: { min: "5m" } })).toEqual({ use: "u", retry: { min: 300_000, max: 300_000 } });
  });

  test("is what parsing it again gives", () => {
    const first = parsed({
      name: "w",
      input: { type: "object" },
      phases: [
        { name: "a", handlers: { h: { use: "u", timeout: "1h", tolerate: "01%" } }, onError: "fix" },
        { name: "b", handlers: { s: { sleep: "1d" }, t: { waitFor: "go", timeout: 5, optional: true } } },
        { name: "c", handlers: {}, next: { use: "n", among: ["a", "d"] }, maxVisits: 7 },
        { name: "d", handlers: {}, final: true },
        { name: "fix", handlers: {}, final: "failed" },
      ],
      returns: { use: "w.returns" },
    });
    expect(parsed(structuredClone(first))).toEqual(first);
    expect(definitionHash(parsed(first))).toBe(definitionHash(first));
  });
});

describe("the hash", () => {
  const base = () => parsed(handler({ timeout: "30s", retry: { attempts: 5, min: "2s" } }));

  test("does not depend on the order of keys", () => {
    const turned = parsed({
      phases: [
        {
          handlers: { h: { retry: { min: 2_000, attempts: 5 }, timeout: 30_000, use: "u" } },
          name: "a",
        },
      ],
      name: "w",
      rondo: 1,
    });
    expect(definitionHash(turned)).toBe(definitionHash(base()));
  });

  test("does not depend on defaults being written down", () => {
    const said = parsed(
      one({
        handlers: {
          h: {
            use: "u",
            timeout: "30s",
            heartbeat: "30s",
            priority: 0,
            tolerate: 0,
            retry: { attempts: 5, crashes: 4, backoff: "exponential", min: "2s", max: "1m" },
          },
        },
        maxVisits: 1_000,
      }),
    );
    expect(definitionHash(said)).toBe(definitionHash(base()));
  });

  test("depends on the order of phases, and on every option", () => {
    const hashes = [
      { name: "w", phases: [{ name: "a" }, { name: "b" }] },
      { name: "w", phases: [{ name: "b" }, { name: "a" }] },
      { name: "v", phases: [{ name: "a" }, { name: "b" }] },
      { name: "w", phases: [{ name: "a" }, { name: "b", final: true }] },
      { name: "w", phases: [{ name: "a" }, { name: "b" }], returns: { use: "r" } },
      handler({}),
      handler({ timeout: 1 }),
      handler({ tolerate: 1 }),
    ].map((data) => definitionHash(parsed(data)));
    expect(new Set(hashes).size).toBe(hashes.length);
    for (const hash of hashes) expect(hash).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe("an onError target", () => {
  test.each([
    ["behind a final phase", [{ name: "end", final: true }]],
    ["behind a phase with a next", [{ name: "b", next: "a" }]],
    ["that is named as a next too", [{ name: "b", next: "fix" }]],
  ])("%s is fine", (_name, between) => {
    const data = { name: "w", phases: [{ name: "a", onError: "fix" }, ...between, { name: "fix" }] };
    expect(isRejection(parseDefinition(data))).toBe(false);
  });
});

test("the example of the interface is a definition", () => {
  const use = (name: string) => ({ use: `thumbnails.${name}` });
  const definition = parsed({
    rondo: 1,
    name: "thumbnails",
    input: { type: "object", required: ["bucket"] },
    phases: [
      {
        name: "resize",
        onError: "cleanup",
        handlers: {
          resize: {
            ...use("resize"),
            version: "~1.2",
            timeout: "30s",
            heartbeat: "30s",
            retry: { attempts: 5, crashes: 4, backoff: "exponential", min: "1s", max: "5m" },
            concurrency: 200,
            key: "/customer",
            concurrencyPerKey: 5,
            identity: "/key",
            rate: { limit: 100, per: "1s" },
            priority: 0,
            tolerate: "1%",
          },
        },
      },
      { name: "publish", handlers: { notify: { use: "notifier", tasks: [{ to: "ops" }], batch: 50 } } },
      { name: "cool-off", handlers: { "cool-off": { sleep: "10m" } } },
      { name: "approved", handlers: { approved: { waitFor: "approved", timeout: "2d" } } },
      {
        name: "embed",
        handlers: {
          embed: {
            command: { cmd_type: "EMBED_REPO", cmd_data: {}, cmd_metadata: {} },
            topic: "LEXI_CMD_EMBED",
          },
        },
      },
      {
        name: "map",
        handlers: { map: { script: [{ ...run("one"), timeout: "5s" }], state: {}, resume: true } },
      },
      {
        name: "invoices",
        handlers: {
          invoices: { workflow: "invoice", enumerate: { use: "list-invoices" }, concurrency: 20 },
        },
      },
      {
        name: "again",
        handlers: {},
        next: { ...use("again.next"), among: ["resize", "end"] },
        maxVisits: 50,
      },
      { name: "end", handlers: {}, final: true },
      { name: "cleanup", final: "failed", handlers: { cleanup: use("cleanup") } },
    ],
    returns: use("returns"),
  });
  expect(parsed(structuredClone(definition))).toEqual(definition);
  const plan = compilePlan(definition);
  expect(plan.phases.flatMap(({ handlers }) => handlers.map(({ name, mode }) => `${name}: ${mode}`))).toEqual(
    [
      "resize: use",
      "notify: use",
      "cool-off: sleep",
      "approved: waitFor",
      "embed: command",
      "map: script",
      "invoices: workflow",
      "cleanup: use",
      "returns: use",
    ],
  );
  const wanted = plan.byName.get("resize")?.handlers[0]?.wanted;
  expect(wanted).toEqual({
    use: "thumbnails.resize",
    range: "~1.2",
    enumerates: false,
    key: "thumbnails.resize ~1.2",
  });
});

test("options of children that an earlier version took do not keep what is stored from being read", () => {
  const data = one({ handlers: { h: { workflow: "child", priority: 3 } } });
  expect(isRejection(parseDefinition(data))).toBe(true);
  expect(parseStored(data)).toMatchObject({ phases: [{ handlers: { h: { priority: 3 } } }] });
});

test("where children are enumerated by code, a worker does that, with its priority and its heartbeat", () => {
  const listed = {
    workflow: "child",
    enumerate: { use: "list" },
    priority: 3,
    heartbeat: "5s",
    timeout: "1h",
  };
  expect(isRejection(parseDefinition(one({ handlers: { h: listed } })))).toBe(false);
});

test("the signal of a trigger is one that the workflow waits for, if it lists its signals", () => {
  const on = (signal: string) => [{ event: "e", singleton: "signal", signal }];
  const data = { ...one({ handlers: { h: { use: "h" } } }), signals: ["item"] };
  expect(parseDefinition({ ...data, on: on("item") })).toMatchObject({ signals: ["item"] });
  expect(parseDefinition({ ...data, on: on("itme") })).toMatchObject({
    code: "invalid_definition",
    path: "on[0].signal",
  });
});
