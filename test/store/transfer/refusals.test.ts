// What is not whole, not ours, or has no room is refused, and leaves nothing behind.
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openRondo, workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { storeOf } from "../../../src/compose/compose.ts";
import { exportFrom, importInto } from "../../../src/compose/compose-transfer.ts";
import type { Line } from "../../../src/transfer/line.ts";
import { seal } from "../../../src/transfer/sealed-text.ts";
import { exportToFile } from "../../fixtures/store/export-to-file.ts";
import { contentOf } from "../../fixtures/store/store-content.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

const nap = workflow({ name: "nap" }).sleep("rest", "1h");

/** A folder with a small store in `a` and its export in `out`. */
async function exported(): Promise<string> {
  const folder = temporaryDirectory();
  const rondo = await openRondo({ store: `file:${folder}/a` });
  rondo.serve(nap);
  await rondo.start(nap, null, { id: "one" });
  await rondo.start(nap, null, { id: "two" });
  await rondo.close();
  await exportToFile({ store: `file:${folder}/a` }, join(folder, "out"));
  return folder;
}

/** The sealed bytes of lines. */
async function sealed(lines: readonly object[]): Promise<Buffer> {
  async function* each(): AsyncGenerator<Line> {
    for (const line of lines) yield line as Line;
  }
  const chunks: Buffer[] = [];
  for await (const chunk of seal(each())) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe("an import of", () => {
  test("a file that was cut off anywhere makes nothing", async () => {
    const folder = await exported();
    const whole = readFileSync(join(folder, "out"));
    const target = join(folder, "b");
    const file = join(folder, "cut");
    // Without its last newline it is whole; every other cut is told.
    for (let length = 0; length < whole.length - 1; length += 1 + Math.floor(length / 13)) {
      writeFileSync(file, whole.subarray(0, length));
      await expect(importInto({ store: `file:${target}`, file })).rejects.toThrow(
        /is not complete|is not an export/,
      );
      expect(existsSync(target)).toBe(false);
    }
    const lines = whole.toString("utf8").split("\n");
    for (let left = 1; left < lines.length - 1; left++) {
      writeFileSync(file, lines.filter((_, i) => i !== left).join("\n"));
      await expect(importInto({ store: `file:${target}`, file })).rejects.toThrow(/is not complete/);
      expect(existsSync(target)).toBe(false);
    }
  });

  test("a file in which something has changed, or that something was added to, makes nothing", async () => {
    const folder = await exported();
    const file = join(folder, "out");
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace('"id":"two"', '"id":"too"'));
    await expect(importInto({ store: `file:${folder}/b`, file })).rejects.toThrow(/content has changed/);
    writeFileSync(file, text);
    appendFileSync(file, "{}\n");
    await expect(importInto({ store: `file:${folder}/b`, file })).rejects.toThrow(/cut off/);
    expect(existsSync(`${folder}/b`)).toBe(false);
  });

  test("another format says which Rondo reads it", async () => {
    const folder = temporaryDirectory();
    const file = join(folder, "out");
    writeFileSync(file, await sealed([{ kind: "header", format: 2, rondo: "9.9.9", at: 1, remote: false }]));
    await expect(importInto({ store: `file:${folder}/b`, file })).rejects.toThrow(/format 2.*9\.9\.9/);
    writeFileSync(file, "SQLite format 3\n\n\n");
    await expect(importInto({ store: `file:${folder}/b`, file })).rejects.toThrow(/is not an export/);
  });

  const header = { kind: "header", format: 1, rondo: "0", at: 1, remote: false };
  const head = {
    id: "x",
    workflow: "w",
    hash: "h",
    project: "default",
    status: "running",
    phase: null,
    want: "work",
    priority: 0,
    createdAt: 1,
    finishedAt: null,
    tags: {},
    error: null,
  };
  const execution = { kind: "execution", head, opened: {} };
  const page = (seq: number) => ({ kind: "journal", entries: [{ seq, count: 1, at: 1, body: "{}" }] });
  const wrong: [why: string, lines: readonly object[], message: RegExp][] = [
    ["an unknown kind", [{ kind: "more" }], /line 2 is not a line of an export/],
    ["a missing field", [{ kind: "document", of: "token", id: "1" }], /line 2.*body/],
    ["a journal of nobody", [page(1)], /line 2.*before the line of its execution/],
    ["a gap in a journal", [execution, page(1), page(3)], /line 4.*gap before event 3/],
    ["an execution without a journal", [execution, execution], /before its journal/],
    ["one execution twice", [execution, page(1), execution, page(1)], /x is in this export twice/],
    [
      "a timer of nobody",
      [execution, page(1), { kind: "timers", rows: [{ execution: "y", timer: "t", due: 1 }] }],
      /no execution y/,
    ],
  ];
  test.each(wrong)("%s, sealed as if it were right, makes nothing", async (_why, lines, message) => {
    const folder = temporaryDirectory();
    const file = join(folder, "out");
    writeFileSync(file, await sealed([header, ...lines]));
    await expect(importInto({ store: `file:${folder}/b`, file })).rejects.toThrow(message);
    expect(existsSync(`${folder}/b`)).toBe(false);
  });
});

describe("a directory", () => {
  test("that has a store is not imported into, and keeps it", async () => {
    const folder = await exported();
    const before = await contentOf(storeOf(`file:${folder}/a`));
    await expect(importInto({ store: `file:${folder}/a`, file: join(folder, "out") })).rejects.toThrow(
      /has a store already/,
    );
    expect(await contentOf(storeOf(`file:${folder}/a`))).toEqual(before);
  });

  test("in which an import was killed is imported into as if it had not been", async () => {
    const folder = await exported();
    const half = join(folder, "b", "import.new");
    mkdirSync(half, { recursive: true });
    const rondo = await openRondo({ store: `file:${half}` });
    rondo.serve(nap);
    await rondo.start(nap, null, { id: "half" });
    await expect(importInto({ store: `file:${folder}/b`, file: join(folder, "out") })).rejects.toThrow(
      /is in use|works on|owned|already/,
    );
    await rondo.close();
    expect((await importInto({ store: `file:${folder}/b`, file: join(folder, "out") })).executions).toBe(2);
    expect(await contentOf(storeOf(`file:${folder}/b`))).toEqual(
      await contentOf(storeOf(`file:${folder}/a`)),
    );
    expect(readdirSync(join(folder, "b"))).not.toContain("import.new");
  });

  test("that a server works on is not exported, nor is one without a store", async () => {
    const folder = temporaryDirectory();
    const write = async (): Promise<void> => {};
    await expect(exportFrom({ store: `file:${folder}/a`, rondo: "0", write })).rejects.toThrow(/no store/);
    expect(existsSync(`${folder}/a`)).toBe(false);
    const rondo = await openRondo({ store: `file:${folder}/a` });
    await expect(exportFrom({ store: `file:${folder}/a`, rondo: "0", write })).rejects.toThrow(
      /another|own|use/,
    );
    await rondo.close();
    await exportFrom({ store: `file:${folder}/a`, rondo: "0", write });
  });

  test("is closed in good order when an export is stopped or cannot be written", async () => {
    const folder = await exported();
    const before = await contentOf(storeOf(`file:${folder}/a`));
    const signal = AbortSignal.abort();
    const store = `file:${folder}/a`;
    await expect(exportFrom({ store, rondo: "0", write: async () => {}, signal })).rejects.toThrow(/abort/);
    const write = () => Promise.reject(new Error("no room"));
    await expect(exportFrom({ store, rondo: "0", write })).rejects.toThrow("no room");
    await expect(importInto({ store: `file:${folder}/b`, file: `${folder}/out`, signal })).rejects.toThrow(
      /abort/,
    );
    expect(existsSync(`${folder}/b`)).toBe(false);
    const [own] = (await storeOf(store).open()).owned;
    expect(own?.uncleanEpoch).toBe(0);
    expect(before["executions"]).toHaveLength(2);
  });
});
