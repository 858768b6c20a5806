/**
 * What the port promises, as one suite that every adapter passes. An adapter brings `makePlace`: a place where data
 * stays, which makes one store after the other over the same data.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { Bug } from "../../../src/std/assert.ts";
import { fenceOf, StoreFault } from "../../../src/store/store.ts";
import { Lives, type MakePlace } from "../../fixtures/store/store-lives-fixture.ts";
import { describeCommits } from "./conformance-commits.ts";
import { describeJournals } from "./conformance-journals.ts";
import { describePurge } from "./conformance-purge.ts";
import { describeRecords } from "./conformance-records.ts";
import { describeRepairs } from "./conformance-repairs.ts";
import { describeScans } from "./conformance-scans.ts";
import { describeSearch } from "./conformance-search.ts";

export function describeStore(name: string, makePlace: MakePlace): void {
  describe(`${name}:`, () => {
    let lives: Lives;
    beforeEach(async () => {
      lives = await Lives.begin(makePlace);
    });
    describeOpening(() => lives);
    describeCommits(() => lives);
    describeJournals(() => lives);
    describeScans(() => lives);
    describeRepairs(() => lives);
    describeSearch(() => lives);
    describeRecords(() => lives);
    describePurge(() => lives);
    describeDocuments(() => lives);
    describeManyDocuments(() => lives);
    describeDefinitions(() => lives);
    describeDefinitionReads(() => lives);
    describeClosing(() => lives);
  });
}

function describeOpening(get: () => Lives): void {
  test("a new store is in epoch 1 and nothing is unclean", () => {
    const { info } = get();
    expect(info).toMatchObject({ owned: [{ partition: 0, epoch: 1, uncleanEpoch: 0 }], partitions: 1 });
    expect(info.key.length).toBeGreaterThanOrEqual(64);
    expect(info.generation).not.toBe("");
  });

  test("each open is a new epoch of the same store", async () => {
    const lives = get();
    const first = lives.info;
    await lives.restart();
    expect(lives.info).toMatchObject({ ...first, owned: [{ partition: 0, epoch: 2, uncleanEpoch: 0 }] });
  });

  test("the epoch of a crash is unclean, and stays the newest unclean one after clean ends", async () => {
    const lives = get();
    await lives.restart({ clean: true });
    expect(lives.info.owned).toMatchObject([{ epoch: 2, uncleanEpoch: 0 }]);
    await lives.restart({ clean: false });
    expect(lives.info.owned).toMatchObject([{ epoch: 3, uncleanEpoch: 2 }]);
    await lives.restart({ clean: true });
    expect(lives.info.owned).toMatchObject([{ epoch: 4, uncleanEpoch: 2 }]);
    await lives.restart({ clean: false });
    expect(lives.info.owned).toMatchObject([{ epoch: 5, uncleanEpoch: 4 }]);
  });
}

function describeDocuments(get: () => Lives): void {
  const ids = (documents: readonly { id: string }[]) => documents.map(({ id }) => id);

  test("a document is put, read, replaced and deleted, each kind for itself", async () => {
    const lives = get();
    await lives.store.putDocument("schedule", "a", "one");
    await lives.store.putDocument("schedule", "b", "two \0 \u{1F600}");
    await lives.store.putDocument("token", "a", "");
    await lives.store.putDocument("schedule", "a", "three");
    await lives.store.putDocument("schedule", "never", null);
    await lives.restart({ clean: false });
    const { store } = lives;
    expect(await store.getDocument("schedule", "a")).toBe("three");
    expect(await store.getDocument("schedule", "b")).toBe("two \0 \u{1F600}");
    expect(await store.getDocument("token", "a")).toBe("");
    expect(await store.getDocument("token", "b")).toBeNull();
    await store.putDocument("schedule", "a", null);
    expect(await store.getDocument("schedule", "a")).toBeNull();
    expect(await store.listDocuments("schedule", { max: 9 })).toEqual([
      { id: "b", body: "two \0 \u{1F600}" },
    ]);
    expect(await store.listDocuments("nothing", { max: 9 })).toEqual([]);
  });

  test("a document is swapped only if it is what it was thought to be", async () => {
    const lives = get();
    const swap = (was: string | null, body: string) => lives.store.swapDocument("state", "a", { was, body });
    expect(await swap("x", "one")).toBe(false);
    expect(await lives.store.getDocument("state", "a")).toBeNull();
    expect(await swap(null, "one \0 \u{1F600}")).toBe(true);
    expect(await swap(null, "two")).toBe(false);
    expect(await swap("one", "two")).toBe(false);
    expect(await swap("one \0 \u{1F600}", "")).toBe(true);
    expect(await swap(null, "two")).toBe(false);
    await lives.restart({ clean: false });
    expect(await swap("", "three")).toBe(true);
    expect(await lives.store.getDocument("state", "a")).toBe("three");
    await expect(lives.store.swapDocument("state", "", { was: null, body: "x" })).rejects.toThrow(Bug);
  });

  test("of many that swap a document at the same time, one does", async () => {
    const { store } = get();
    const all = Array.from({ length: 8 }, (_, i) =>
      store.swapDocument("state", "a", { was: null, body: String(i) }),
    );
    expect((await Promise.all(all)).filter(Boolean)).toHaveLength(1);
  });

  test("documents are listed in the bytewise order of their ids, up and down, page by page", async () => {
    const { store } = get();
    const sorted = ["B", "a", "a ", "aa", "b", "\uFFFD", "\u{1F600}"];
    for (const id of sorted.toReversed()) await store.putDocument("audit", id, id);
    await store.putDocument("audio", "x", "x");
    await store.putDocument("audit2", "x", "x");
    const list = async (options: Partial<Parameters<typeof store.listDocuments>[1]>) =>
      ids(await store.listDocuments("audit", { max: 99, ...options }));
    expect(await list({})).toEqual(sorted);
    expect(await list({ after: "a" })).toEqual(sorted.slice(2));
    expect(await list({ after: "a", max: 2 })).toEqual(["a ", "aa"]);
    expect(await list({ after: "a", before: "b" })).toEqual(["a ", "aa"]);
    expect(await list({ descending: true })).toEqual(sorted.toReversed());
    expect(await list({ descending: true, before: "b", max: 2 })).toEqual(["aa", "a "]);
    expect(await list({ descending: true, before: "b", after: "a" })).toEqual(["aa", "a "]);
    expect(await list({ max: 0 })).toEqual([]);
  });

  test("a document without a name that can be kept is a bug", async () => {
    const { store } = get();
    await expect(store.putDocument("token", "", "x")).rejects.toThrow(Bug);
    await expect(store.putDocument("token", "a\0b", "x")).rejects.toThrow(Bug);
  });
}

function describeManyDocuments(get: () => Lives): void {
  test("documents of a kind are put and deleted together", async () => {
    const lives = get();
    const odd = "two \0 \x1f \x02 \u{1F600}";
    await lives.store.putDocument("audit", "a", "old");
    await lives.store.putDocuments("audit", [
      { id: "b", body: odd },
      { id: "a", body: "" },
      { id: "\u{1F600}", body: "three" },
    ]);
    await lives.store.putDocuments("audit", []);
    await lives.store.putDocuments("token", [{ id: "b", body: "other" }]);
    await lives.restart({ clean: false });
    const { store } = lives;
    expect(await store.listDocuments("audit", { max: 9 })).toEqual([
      { id: "a", body: "" },
      { id: "b", body: odd },
      { id: "\u{1F600}", body: "three" },
    ]);
    await store.deleteDocuments("audit", []);
    await store.deleteDocuments("audit", ["\u{1F600}", "never", "b"]);
    expect(await store.listDocuments("audit", { max: 9 })).toEqual([{ id: "a", body: "" }]);
    expect(await store.getDocument("token", "b")).toBe("other");
    await expect(store.putDocuments("audit", [{ id: "", body: "x" }])).rejects.toThrow(Bug);
    await expect(store.deleteDocuments("audit", ["a\0b"])).rejects.toThrow(Bug);
  });

  test("documents that many put and delete at the same time do not wait for each other in a circle", async () => {
    const { store } = get();
    const ids = Array.from({ length: 50 }, (_, i) => `d${i}`);
    const some = (turn: number) => (turn % 2 === 0 ? ids : ids.toReversed());
    await Promise.all(
      Array.from({ length: 12 }, (_, turn) =>
        turn % 3 === 2
          ? store.deleteDocuments("audit", some(turn))
          : store.putDocuments(
              "audit",
              some(turn).map((id) => ({ id, body: String(turn) })),
            ),
      ),
    );
    await store.putDocuments(
      "audit",
      ids.map((id) => ({ id, body: "last" })),
    );
    const found = await store.listDocuments("audit", { max: 99 });
    expect(found.map(({ body }) => body)).toEqual(ids.map(() => "last"));
  });
}

function describeDefinitionReads(get: () => Lives): void {
  test("a read that is under way while a definition is put does not hide it from later reads", async () => {
    const { store } = get();
    await store.putDefinition("orders", "h1", "one");
    const reads = [store.getDefinition({ newestOf: "orders" }), store.getDefinition({ newestOf: "orders" })];
    const put = store.putDefinition("orders", "h2", "two");
    for (const read of reads) expect(["h1", "h2"]).toContain((await read)?.hash);
    await put;
    expect(await store.getDefinition({ newestOf: "orders" })).toEqual({ hash: "h2", body: "two" });
    expect(await store.getDefinition({ newestOf: "orders" })).toEqual({ hash: "h2", body: "two" });
    const read = store.getDefinition({ newestOf: "orders" });
    await store.dropDefinition("orders", "h2");
    await read;
    expect(await store.getDefinition({ newestOf: "orders" })).toBe(null);
    // A name without a definition is not remembered.
    expect(await store.addDefinitions([{ name: "orders", hash: "h3", body: "three" }])).toEqual(["none"]);
    expect(await store.getDefinition({ newestOf: "orders" })).toEqual({ hash: "h3", body: "three" });
  });
}

function describeDefinitions(get: () => Lives): void {
  test("a definition is found by hash and by name; the newest of a name is the last one put", async () => {
    const lives = get();
    const { store } = lives;
    await store.putDefinition("orders", "h1", "one");
    await store.putDefinition("orders", "h2", "two \0 \u{1F600}");
    await store.putDefinition("other", "h3", "three");
    expect(await store.getDefinition({ hash: "h1" })).toEqual({ hash: "h1", body: "one" });
    expect(await store.getDefinition({ newestOf: "orders" })).toEqual({
      hash: "h2",
      body: "two \0 \u{1F600}",
    });
    await store.putDefinition("orders", "h1", "one");
    await lives.restart({ clean: false });
    expect(await lives.store.getDefinition({ newestOf: "orders" })).toEqual({ hash: "h1", body: "one" });
    expect(await lives.store.getDefinition({ hash: "h3" })).toEqual({ hash: "h3", body: "three" });
  });

  test("a definition that is dropped is gone by hash and by name; one that is not the newest leaves the name", async () => {
    const lives = get();
    for (const [name, hash] of [
      ["a", "h1"],
      ["a", "h2"],
      ["b", "h3"],
    ] as const)
      await lives.store.putDefinition(name, hash, "body");
    await lives.store.dropDefinition("a", "h1");
    expect(await lives.store.getDefinition({ hash: "h1" })).toBe(null);
    expect(await lives.store.getDefinition({ newestOf: "a" })).toMatchObject({ hash: "h2" });
    await lives.store.dropDefinition("a", "h2");
    await lives.store.dropDefinition("nobody", "h9");
    await lives.restart({ clean: false });
    expect(await lives.store.getDefinition({ newestOf: "a" })).toBe(null);
    expect(await lives.store.listDefinitions({ after: "", max: 9 })).toEqual([{ name: "b", hash: "h3" }]);
    await lives.store.putDefinition("a", "h1", "again");
    expect(await lives.store.getDefinition({ newestOf: "a" })).toEqual({ hash: "h1", body: "again" });
  });

  test("definitions are listed by name with their newest hash, page by page", async () => {
    const { store } = get();
    expect(await store.listDefinitions({ after: "", max: 9 })).toEqual([]);
    for (const [name, hash] of [
      ["b", "h1"],
      ["a", "h2"],
      ["B", "h3"],
      ["b", "h4"],
    ] as const)
      await store.putDefinition(name, hash, "body");
    const all = [
      { name: "B", hash: "h3" },
      { name: "a", hash: "h2" },
      { name: "b", hash: "h4" },
    ];
    expect(await store.listDefinitions({ after: "", max: 9 })).toEqual(all);
    expect(await store.listDefinitions({ after: "B", max: 1 })).toEqual([all[1]]);
    expect(await store.listDefinitions({ after: "b", max: 9 })).toEqual([]);
  });

  test("definitions are added together, each if its name is new; others stay as they are", async () => {
    const lives = get();
    const { store } = lives;
    await store.putDefinition("a", "h1", "one");
    await store.putDefinition("b", "h2", "two");
    expect(await store.addDefinitions([])).toEqual([]);
    const given = [
      { name: "c", hash: "h3", body: "three \0 \u{1F600}" },
      { name: "b", hash: "h2", body: "two" },
      { name: "a", hash: "h4", body: "four" },
      { name: "d", hash: "h5", body: "" },
    ];
    expect(await store.addDefinitions(given)).toEqual(["none", "same", "other", "none"]);
    expect(await store.addDefinitions(given)).toEqual(["same", "same", "other", "same"]);
    // A body that is not the stored one may be damaged.
    expect(await store.addDefinitions([{ name: "b", hash: "h2", body: "else" }])).toEqual(["other"]);
    await lives.restart({ clean: false });
    expect(await lives.store.getDefinition({ newestOf: "a" })).toEqual({ hash: "h1", body: "one" });
    expect(await lives.store.getDefinition({ newestOf: "c" })).toEqual({ hash: "h3", body: given[0]?.body });
    expect(await lives.store.getDefinition({ hash: "h4" })).toBeNull();
    expect(await lives.store.getDefinition({ hash: "h5" })).toEqual({ hash: "h5", body: "" });
  });

  test("a definition is null for what was never put", async () => {
    const { store } = get();
    expect(await store.getDefinition({ hash: "h" })).toBeNull();
    expect(await store.getDefinition({ newestOf: "orders" })).toBeNull();
  });
}

function describeClosing(get: () => Lives): void {
  test("a closed store refuses every call, and closing twice is fine", async () => {
    const { store, info } = get();
    await store.close({ clean: true });
    await store.close({ clean: true });
    await expect(store.commit({ fence: fenceOf(info), writes: [] })).rejects.toThrow(StoreFault);
    await expect(store.load(["a"])).rejects.toThrow("not open");
    await expect(store.scanMail({ after: 0, max: 1, partitions: null })).rejects.toThrow("not open");
    await expect(store.purge(["a"])).rejects.toThrow("not open");
  });
}
