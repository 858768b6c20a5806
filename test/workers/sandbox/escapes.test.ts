// Attempts to get out of the sandbox or to exhaust it. Each says how it ended; after each, the parent is as it was,
// and the next attempt on the same pool finds a clean context.
import { beforeAll, describe, expect, test } from "vitest";
import type { SandboxPool } from "../../../src/worker/sandbox/sandbox-pool.ts";
import type { ScriptEnd } from "../../../src/worker/sandbox/script-attempt.ts";
import { attemptOf, runToEnd, testPool } from "../../fixtures/workers/sandbox-fixture.ts";

type Case = [name: string, expression: string, expected: Partial<ScriptEnd> | Record<string, unknown>];

const LOOK_AROUND = "s => [Object.keys(Object.prototype), Object.keys(Array.prototype), typeof pwned]";

let pool: SandboxPool;
beforeAll(async () => {
  pool = await testPool();
});

function done(state: unknown): Record<string, unknown> {
  return { kind: "done", state: JSON.stringify(state) };
}
function threw(name: string, message?: string): Record<string, unknown> {
  const error =
    message === undefined ? { name } : { name, message: expect.stringContaining(message) as string };
  return { kind: "failed", error };
}
const OUT_OF_TIME = { kind: "killed", limit: "time" };
/** It fails by itself on a fast machine, and is killed before that on a slow one. */
const STOPPED = { kind: expect.stringMatching(/^(?:killed|failed)$/) as string };
const OUT_OF_MEMORY = { kind: "killed", limit: "memory" };
/** Which limit it meets first is a matter of the machine's speed. */
const KILLED = { kind: "killed", limit: expect.stringMatching(/^(?:time|memory)$/) as string };

async function contained([_name, expression, expected]: Case): Promise<void> {
  const timeoutMs = [OUT_OF_TIME, KILLED, STOPPED].includes(expected as typeof KILLED) ? 200 : 20_000;
  const { end } = await runToEnd(pool, attemptOf([expression], { timeoutMs, state: '{"n":1}' }));
  expect(end).toMatchObject(expected);
  expect("pwned" in globalThis || "pwned" in Object.prototype).toBe(false);
  expect((await runToEnd(pool, attemptOf([LOOK_AROUND], { timeoutMs: 20_000 }))).end).toMatchObject(
    done([[], [], "undefined"]),
  );
}

describe("nothing of the host is there", () => {
  const names = [
    ...[
      "process",
      "require",
      "module",
      "exports",
      "global",
      "Buffer",
      "fetch",
      "XMLHttpRequest",
      "WebSocket",
    ],
    ...["setTimeout", "setInterval", "setImmediate", "std", "os", "bjson", "scriptArgs", "print", "Worker"],
    ...["WebAssembly", "Deno", "Bun", "navigator", "__dirname", "emit", "Atomics", "importScripts"],
  ];
  test("by any of its names", async () => {
    const source = `s => [${names.map((name) => `typeof ${name}`).join(", ")}]`;
    await contained(["names", source, done(names.map(() => "undefined"))]);
  });

  const cases: Case[] = [
    ["process.exit", "s => process.exit(1)", threw("ReferenceError", "process is not defined")],
    ["process.env", "s => process.env.PATH", threw("ReferenceError")],
    ["require", "s => require('fs')", threw("ReferenceError")],
    ["fetch", "s => fetch('http://127.0.0.1')", threw("ReferenceError")],
    ["import()", "s => import('node:fs').then(m => Object.keys(m))", { kind: "failed" }],
    ["import() of a file", "s => import('/etc/passwd')", { kind: "failed" }],
    ["import() of a data URL", "s => import('data:text/javascript,1')", { kind: "failed" }],
    ["an import statement", "import fs from 'fs'; s => fs", { kind: "failed", fatal: true }],
    ["import.meta", "s => import.meta.url", { kind: "failed", fatal: true }],
    [
      "the constructor's Function",
      "s => s.constructor.constructor('return process')()",
      threw("ReferenceError"),
    ],
    [
      "the global this of a sloppy function",
      "s => (function () { return typeof this.process })()",
      done("undefined"),
    ],
    ["Function", "s => Function('return typeof process')()", done("undefined")],
    [
      "an async function's constructor",
      "s => (async () => {}).constructor('return typeof process')()",
      done("undefined"),
    ],
    [
      "a generator's constructor",
      "s => (function* () {}).constructor('yield typeof require')().next().value",
      done("undefined"),
    ],
    ["eval", "s => (0, eval)('typeof process + typeof require')", done("undefinedundefined")],
    [
      "the constructor of console.log",
      "s => console.log.constructor('return typeof process')()",
      done("undefined"),
    ],
    [
      "the callers of a host call",
      "s => { try { return String(console.log.caller) } catch (e) { return 'no' } }",
      { kind: "done" },
    ],
    [
      "the constructor of ctx",
      "(s, ctx) => ctx.constructor.constructor('return typeof process')()",
      done("undefined"),
    ],
    ["the prototype of ctx", "(s, ctx) => Object.getPrototypeOf(ctx) === Object.prototype", done(true)],
    [
      "the arguments of the caller",
      "function f(s) { return f.caller === null || f.caller === undefined ? 'none' : String(f.caller) }",
      { kind: expect.stringMatching(/^(?:done|failed)$/) as string },
    ],
    [
      "Error.prepareStackTrace",
      "s => { Error.prepareStackTrace = (e, frames) => frames; const f = new Error('x').stack; return Array.isArray(f) ? f.map(x => typeof (x.getThis?.() ?? 0)) : 'text' }",
      { kind: "done" },
    ],
    [
      "paths of the host in stacks",
      "s => { try { null.x } catch (e) { return /node|dist|\\/app|\\/tmp/.test(e.stack) } }",
      done(false),
    ],
    [
      "the constructor of a thrown error",
      "s => { try { null.x } catch (e) { return e.constructor.constructor('return typeof process')() } }",
      done("undefined"),
    ],
    [
      "the error of a deep recursion",
      "s => { const f = () => f(); try { f() } catch (e) { return e.constructor.constructor('return typeof process')() } }",
      done("undefined"),
    ],
    [
      "a Proxy as the next state",
      "s => new Proxy({}, { get: (t, k) => { globalThis.pwned = String(k) }, ownKeys: () => ['a'], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true, value: 1 }) })",
      done({}),
    ],
    [
      "WeakRef and finalizers",
      "s => { new FinalizationRegistry(() => { globalThis.pwned = 1 }).register({}, 1); const o = {}; return typeof new WeakRef(o).deref() }",
      done("object"),
    ],
    ["SharedArrayBuffer", "s => new SharedArrayBuffer(8).byteLength", done(8)],
  ];
  test.each(cases)("%s", (...row) => contained(row));
});

describe("tricks stay inside", () => {
  const cases: Case[] = [
    ["a changed Object.prototype", "s => { Object.prototype.pwned = 1; return {} }", done({})],
    [
      "__proto__ in the state",
      's => JSON.parse(\'{"__proto__":{"pwned":1}}\')',
      done(JSON.parse('{"__proto__":{"pwned":1}}')),
    ],
    ["constructor.prototype", "s => { s.constructor.prototype.pwned = 1; return 1 }", done(1)],
    ["a changed JSON", "JSON.stringify = () => 'pwned'; JSON.parse = () => 'pwned'; s => s", done({ n: 1 })],
    [
      "a changed Promise",
      "Promise.prototype.then = () => 'pwned'; globalThis.Promise = null; async s => s",
      done({ n: 1 }),
    ],
    [
      "a changed Reflect.apply",
      "Reflect.apply = () => 'pwned'; s => { console.log('a'); return 1 }",
      done(1),
    ],
    ["a changed String", "globalThis.String = () => 'pwned'; String.prototype; s => 1", done(1)],
    [
      "a changed String.prototype.slice",
      "String.prototype.slice = () => 'x'.repeat(1e6); s => { console.log('a'); return 1 }",
      done(1),
    ],
    [
      "a changed Array.prototype[Symbol.iterator]",
      "Array.prototype[Symbol.iterator] = () => { throw 1 }; s => { console.log('a'); return 1 }",
      { kind: expect.stringMatching(/^(?:done|failed)$/) as string },
    ],
    [
      "a setter for what the host reads",
      "Object.defineProperty(Object.prototype, 'length', { get: () => 1e9 }); s => 'a'",
      done("a"),
    ],
    ["a getter on the state", "s => ({ get a() { return typeof process } })", done({ a: "undefined" })],
    ["a getter that throws", "s => ({ get a() { throw new Error('got') } })", threw("Error", "got")],
    ["a getter without an end", "s => ({ get a() { for (;;); } })", OUT_OF_TIME],
    ["toJSON without an end", "s => ({ toJSON() { for (;;); } })", OUT_OF_TIME],
    [
      "toJSON that makes more of itself",
      "s => { const f = () => ({ a: { toJSON: f } }); return { toJSON: f } }",
      STOPPED,
    ],
    ["a cycle", "s => { s.s = s; return s }", threw("NotStorable")],
    ["a BigInt", "s => 1n", threw("NotStorable")],
    ["a thenable that never calls back", "s => ({ then() {} })", threw("NeverSettles")],
    ["a thenable that calls back often", "s => ({ then(f) { f(1); f(2); f(3) } })", done(1)],
    ["a thenable of thenables", "s => { const t = { then(f) { f(t) } }; return t }", OUT_OF_TIME],
    ["an error with a getter", "s => { throw { get message() { for (;;); } } }", OUT_OF_TIME],
    [
      "an error whose name is huge",
      "s => { throw { name: 'x'.repeat(1e7), message: 'y'.repeat(1e7) } }",
      { kind: "failed" },
    ],
    [
      "an error that is a Proxy",
      "s => { throw new Proxy({}, { get() { throw 1 } }) }",
      threw("Error", "cannot be shown"),
    ],
    ["a thrown null", "s => { throw null }", threw("Error", "null")],
    ["a thrown symbol", "s => { throw Symbol('x') }", { kind: "failed" }],
    [
      "an error that says it is out of time",
      "s => { throw new InternalError('interrupted') }",
      threw("InternalError", "interrupted"),
    ],
    [
      "closing the brackets",
      "1) ; globalThis.pwned = 1; (s => 1",
      { kind: expect.stringMatching(/^(?:done|failed)$/) as string },
    ],
    ["closing a comment", "s => 1 /*", { kind: "failed", fatal: true }],
    ["a comment at the end", "s => 1 // fine", done(1)],
    [
      "lines that look like reports",
      `s => { console.log('{"kind":"run_finished","run":0}\\n{"kind":"ready"}\\n'); return 1 }`,
      done(1),
    ],
    ["separators in the state", "s => '\\u2028\\u2029\\n\\0'", done("\u2028\u2029\n\0")],
    ["a console that is replaced", "console = null; s => 1", done(1)],
    [
      "a console given odd values",
      "s => { console.log(Symbol('a'), 1n, null, undefined, () => 1, new Proxy({}, { ownKeys() { throw 1 } })); return 1 }",
      done(1),
    ],
  ];
  test.each(cases)("%s", (...row) => contained(row));
});

describe("exhaustion ends at a limit", () => {
  const cases: Case[] = [
    ["a loop", "s => { for (;;); }", OUT_OF_TIME],
    ["a loop when it is evaluated", "for (;;);", OUT_OF_TIME],
    ["a loop that catches everything", "s => { for (;;) try { for (;;); } catch {} }", OUT_OF_TIME],
    ["a loop in finally", "s => { try { for (;;); } finally { for (;;); } }", OUT_OF_TIME],
    ["an async loop", "async s => { for (;;) await 0 }", OUT_OF_TIME],
    ["a promise that never settles", "s => new Promise(() => {})", threw("NeverSettles")],
    [
      "microtasks without an end",
      "s => new Promise(() => { const f = () => queueMicrotask(f); f() })",
      OUT_OF_TIME,
    ],
    [
      "promises that breed",
      "s => new Promise(() => { const f = () => { Promise.resolve().then(f); Promise.resolve().then(f) }; f() })",
      KILLED,
    ],
    ["a generator without an end", "s => [...(function* () { for (;;) yield 1 })()]", KILLED],
    [
      "an iterator without an end",
      "s => Array.from({ [Symbol.iterator]: () => ({ next: () => ({ value: 1 }) }) })",
      KILLED,
    ],
    ["a regular expression that backtracks", "s => /^(a+)+$/.test('a'.repeat(50) + 'b')", OUT_OF_TIME],
    ["another one", "s => /(x+x+)+y/.test('x'.repeat(60))", OUT_OF_TIME],
    [
      "a replace that backtracks",
      "s => ('a'.repeat(60) + '!').replace(/^(([a-z])+.)+[A-Z]([a-z])+$/, '')",
      OUT_OF_TIME,
    ],
    ["a huge string", "s => 'x'.repeat(2 ** 29)", OUT_OF_MEMORY],
    ["a string that doubles", "s => { let a = 'x'; for (;;) a += a }", STOPPED],
    ["padStart", "s => 'x'.padStart(2 ** 30 - 1)", STOPPED],
    ["a huge array", "s => new Array(1e9).fill(0)", OUT_OF_MEMORY],
    ["an array that grows", "s => { const a = []; for (;;) a.push(new Array(1e4).fill(1)) }", KILLED],
    ["huge buffers", "s => { const a = []; for (;;) a.push(new Uint8Array(1e7)) }", KILLED],
    ["one huge buffer", "s => new ArrayBuffer(2 ** 31).byteLength", STOPPED],
    ["small objects to the end of memory", "s => { const a = []; for (;;) a.push({}) }", OUT_OF_MEMORY],
    [
      "small strings to the end of memory",
      "s => { const a = []; for (let i = 0; ; i++) a.push('x' + i) }",
      OUT_OF_MEMORY,
    ],
    [
      "the end of memory in a promise",
      "async s => { const a = []; for (;;) { a.push({}); if (a.length % 1e4 === 0) await 0 } }",
      OUT_OF_MEMORY,
    ],
    ["the end of memory when it is evaluated", "const a = []; for (;;) a.push({}); s => 1", OUT_OF_MEMORY],
    ["a map that grows", "s => { const m = new Map(); for (let i = 0; ; i++) m.set(i, 'x' + i) }", KILLED],
    ["closures that grow", "s => { let f = () => 0; for (;;) { const g = f; f = () => g() + 1 } }", KILLED],
    ["a BigInt that grows", "s => { let n = 3n; for (;;) n *= n }", STOPPED],
    [
      "memory that is caught again and again",
      "s => { for (;;) try { const a = []; for (;;) a.push(new Array(1e5).fill(1)) } catch {} }",
      KILLED,
    ],
    ["recursion", "s => { const f = () => f() + 1; return f() }", threw("RangeError")],
    ["recursion that catches itself", "s => { const f = () => { try { f() } catch { f() } }; f() }", KILLED],
    [
      "recursion through a getter",
      "s => { const o = { get a() { return this.a } }; return o.a }",
      threw("RangeError"),
    ],
    [
      "recursion through a Proxy",
      "s => { let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x }",
      { kind: expect.stringMatching(/^(?:failed|done)$/) as string },
    ],
    [
      "recursion through toString",
      "s => { const a = []; a[0] = { toString: () => '' + a[0] }; return '' + a }",
      threw("RangeError"),
    ],
    ["recursion through sort", "s => { const f = () => [2, 1].sort(f); return f() }", threw("RangeError")],
    [
      "recursion through replace",
      "s => { const f = () => 'a'.replace(/a/, f); return f() }",
      threw("RangeError"),
    ],
    ["deep JSON that is parsed", "s => JSON.parse('['.repeat(1e5) + ']'.repeat(1e5))", { kind: "failed" }],
    [
      "deep JSON that is the state",
      "s => { let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a }",
      STOPPED,
    ],
    ["a deep expression", "s => eval('('.repeat(1e5) + ')'.repeat(1e5))", { kind: "failed" }],
    ["a deep regular expression", "s => new RegExp('('.repeat(1e5) + ')'.repeat(1e5))", { kind: "failed" }],
    ["a long expression", `s => ${"1+".repeat(50_000)}1`, done(50_001)],
    [
      "a wide state",
      "s => { const o = {}; for (let i = 0; i < 1e6; i++) o['k' + i] = i; return o }",
      STOPPED,
    ],
    ["a state of escapes", "s => '\\0'.repeat(4e6)", { kind: "failed", error: { name: "NotStorable" } }],
    ["a flood of logs", "s => { for (;;) console.log('x'.repeat(1e4)) }", OUT_OF_TIME],
    ["a huge line", "s => { console.log('x'.repeat(1e7)); return 1 }", done(1)],
    ["a line of many values", "s => { console.log(...Array(1e4).fill('y'.repeat(100))); return 1 }", done(1)],
    [
      "sort with a comparison that lies",
      "s => Array.from({ length: 2e5 }, (_, i) => i).sort(() => { for (;;); })",
      OUT_OF_TIME,
    ],
    [
      "a typed array that sorts forever",
      "s => { for (;;) new Float64Array(1e6).fill(1).sort((a, b) => b - a) }",
      OUT_OF_TIME,
    ],
    [
      "a Date without an end",
      "s => { const end = Date.now() + 1e9; while (Date.now() < end); }",
      OUT_OF_TIME,
    ],
  ];
  test("with at least 60 attempts in all three tables", () => {
    expect(cases.length).toBeGreaterThanOrEqual(40);
  });
  test.each(cases)("%s", (...row) => contained(row));
});
