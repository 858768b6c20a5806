// The lines themselves, over stores in memory: order, what is left to the next owner, what is told of workers elsewhere.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readLeases } from "../../../src/engine/leases/lease-handover.ts";
import { systemClock } from "../../../src/std/clock.ts";
import { DOCUMENT_KINDS, OWNER_KINDS } from "../../../src/store/document-kinds.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../../src/store/memory/memory-tables.ts";
import { type ExecutionWrite, fenceOf } from "../../../src/store/store.ts";
import { exportLines } from "../../../src/transfer/export-lines.ts";
import { type Line, parseLine } from "../../../src/transfer/line.ts";
import { importStore } from "../../../src/transfer/move-store.ts";
import { openOwned } from "../../../src/transfer/owned-store.ts";
import { contentOf } from "../../fixtures/store/store-content.ts";

const clock = systemClock();

/** The first write of an execution, of so many events. */
function create(id: string, more: Partial<ExecutionWrite> = {}): ExecutionWrite {
  const head = {
    id,
    partition: 0,
    workflow: "w",
    hash: "h",
    project: "default",
    status: "running",
    phase: "p",
    want: "work" as const,
    priority: 0,
    createdAt: 1,
    finishedAt: null,
    tags: {},
    error: null,
  };
  return {
    execution: id,
    create: true,
    after: 0,
    entries: [{ seq: 1, count: 2, at: 1, body: `{"of":"${id}"}` }],
    chain: "c",
    head,
    timersSet: [],
    timersCleared: [],
    opened: null,
    snapshot: null,
    ...more,
  };
}

async function fill(
  tables: MemoryTables,
  writes: readonly ExecutionWrite[],
  options: { documents?: Readonly<Record<string, string>>; clean?: boolean } = {},
): Promise<void> {
  const store = new MemoryStore(tables);
  const info = await store.open();
  for (let from = 0; from < writes.length; from += 500)
    await store.commit({ fence: fenceOf(info), writes: writes.slice(from, from + 500) });
  for (const [key, body] of Object.entries(options.documents ?? {}))
    await store.putDocument(...(key.split("/") as [string, string]), body);
  await store.close({ clean: options.clean ?? true });
}

/** The lines, as they are read back. */
async function linesOf(tables: MemoryTables): Promise<Line[]> {
  const owned = await openOwned(new MemoryStore(tables), clock);
  const lines: Line[] = [];
  for await (const line of exportLines(owned, { at: 1, rondo: "0" }))
    lines.push(parseLine(JSON.stringify(line), lines.length + 1));
  await owned.close({ clean: true });
  return lines;
}

async function moved(lines: readonly Line[]): Promise<MemoryTables> {
  const tables = new MemoryTables();
  async function* each(): AsyncGenerator<Line> {
    yield* lines;
  }
  await importStore({ owned: await openOwned(new MemoryStore(tables), clock), lines: each() });
  return tables;
}

describe("an export", () => {
  test("has executions oldest first, over many pages, and the import gives them the same order", async () => {
    const tables = new MemoryTables();
    const ids = Array.from({ length: 2_345 }, (_, i) => `x${(i * 7_919) % 2_345}`);
    await fill(
      tables,
      ids.map((id) => create(id)),
    );
    const lines = await linesOf(tables);
    expect(lines.flatMap((line) => (line.kind === "execution" ? [line.head.id] : []))).toEqual(ids);
    const copy = await moved(lines);
    expect(await contentOf(new MemoryStore(copy))).toEqual(await contentOf(new MemoryStore(tables)));
  });

  test("keeps letters, dead letters, timers, marks and snapshots as they were", async () => {
    const tables = new MemoryTables();
    const letters = Array.from({ length: 1_200 }, (_, i) => ({ id: `l${i}`, to: "nobody", body: `${i}` }));
    const logs = [
      {
        attempt: "a.1",
        phase: "p",
        visit: 1,
        handler: "h",
        task: -1,
        number: 1,
        worker: "w",
        mayRepeat: false,
        lines: [
          { n: 1, at: 5, level: "info", text: "one\u2028two" },
          { n: 2, at: 6, level: "run", text: "three", run: "r" },
          { n: 3, at: 7, level: "stream", text: '["a"]', fields: '{"stream":"s","index":0}' },
        ],
      },
    ];
    const later = (execution: string, after: number): ExecutionWrite => ({
      ...create(execution),
      create: false,
      head: null,
      after,
      entries: [{ seq: after + 1, count: 1, at: 2, body: "{}" }],
      chain: "d",
    });
    await fill(tables, [
      create("a", { mail: letters, logs, opened: { "p.1.h": 7 }, timersSet: [{ timer: "~retry", due: 9 }] }),
      create("b", { deadLetters: [{ seq: 1, tasks: [3, 1] }] }),
      { ...later("a", 2), snapshot: { seq: 2, foldVersion: 1, chain: "c", body: "S" } },
      { ...later("b", 2), deadLetters: [{ seq: 3, tasks: [2] }], timersSet: [{ timer: "t", due: 8 }] },
      { ...later("a", 3), deadLetters: [{ seq: 4, tasks: [5] }] },
    ]);
    const before = await contentOf(new MemoryStore(tables));
    expect(before).toMatchObject({ executions: [{ snapshot: [2, "S"] }, {}] });
    const copy = await moved(await linesOf(tables));
    expect(await contentOf(new MemoryStore(copy))).toEqual(before);
    expect(await linesOf(copy)).toEqual(await linesOf(tables));
  });

  test("leaves to the source's next owner what the last one left", async () => {
    const tables = new MemoryTables();
    const lease = { execution: "a", task: 0, attempt: 1, worker: "w", permits: [], isStarted: true };
    await fill(tables, [create("a")], {
      documents: { "leases/0": JSON.stringify({ epoch: 1, leases: [lease] }) },
    });
    const [header] = await linesOf(tables);
    expect(header).toMatchObject({ kind: "header", remote: true });
    const store = new MemoryStore(tables);
    const { owned } = await store.open();
    expect((await readLeases(store, owned)).leases).toEqual([lease]);
  });

  test("says whether workers elsewhere may go on, and the import tells its next owner", async () => {
    const documents = { "setting/remote": JSON.stringify({ epoch: 1 }) };
    for (const clean of [true, false]) {
      const tables = new MemoryTables();
      await fill(tables, [create("a")], { documents, clean });
      const lines = await linesOf(tables);
      expect(lines[0]).toMatchObject({ remote: !clean });
      const store = new MemoryStore(await moved(lines));
      const { owned } = await store.open();
      // As after an unclean stop: what was open is in doubt.
      expect(owned).toMatchObject([{ epoch: 2, uncleanEpoch: 1 }]);
      expect(await store.getDocument("setting", "remote")).toBe(clean ? null : '{"epoch":1}');
    }
  });

  test("takes along every kind of document that there is", () => {
    const sources = readdirSync("src", { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
      .map((path) => ({ path, text: readFileSync(join("src", path), "utf8") }));
    const found = new Set<string>();
    for (const { path, text } of sources) {
      if (/^(?:store|transfer)\b/.test(path)) continue;
      for (const [, kind] of text.matchAll(/(?:put|swap)Documents?\(\s*"([a-z-]+)"/g))
        found.add(kind as string);
      for (const [, name = ""] of text.matchAll(/(?:put|swap)Documents?\(\s*([A-Z][A-Z_]*)\b/g)) {
        const declared = [text, ...sources.map((source) => source.text)];
        const kind = declared.map((one) => kindNamed(name, one)).find((one) => one !== undefined);
        expect(kind, `${path}: the kind ${name} is a text that the source names`).toBeDefined();
        found.add(kind as string);
      }
    }
    expect([...found].sort()).toEqual([...DOCUMENT_KINDS, ...OWNER_KINDS].sort());
  });
});

/** The kind that a constant names in a source: a text, a mark (`{ of: ... }`) or a form. */
function kindNamed(name: string, text: string): string | undefined {
  const [, kind, form] =
    new RegExp(
      `const ${name}\\b[^=]*= (?:(?:\\{ of: )?"([a-z-]+)"|jsonForm<[^;]*?>\\(\\s*([A-Z_]+|"[a-z-]+"))`,
    ).exec(text) ?? [];
  if (form === undefined) return kind;
  return form.startsWith('"') ? form.slice(1, -1) : kindNamed(form, text);
}
