/** The part of the conformance suite about finding executions by words and tags. */
import { expect, test, vi } from "vitest";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import { listOrSearch, type Search } from "../../../src/store/search-heads.ts";
import type { Head } from "../../../src/store/store.ts";
import { commit, endedHead, headOf, start, step } from "../../fixtures/store/example-writes.ts";
import type { Lives } from "../../fixtures/store/store-lives-fixture.ts";

/** Brings the index up to date. */
async function indexed({ store }: Lives): Promise<void> {
  while (await store.indexSome());
}

async function find(lives: Lives, search: Partial<Search> | string, max = 9): Promise<string[]> {
  const parts = typeof search === "string" ? { q: search } : search;
  const found = await listOrSearch(lives.store, { filter: {}, before: null, max, ...parts });
  return found.heads.map(({ id }) => id);
}

const failed = (id: string, error: string, parts: Partial<Head> = {}) =>
  endedHead(id, 1_700_000_000_500, { status: "failed", error, ...parts });

const hash = `0123abcd${"e".repeat(56)}`;

async function begin(lives: Lives): Promise<void> {
  await commit(lives.store, lives.info, [
    start("orders/1", { head: headOf("orders/1", { tags: { team: "Ops", zone: "eu west" } }) }),
    start("orders/2", { head: headOf("orders/2", { hash, project: "acme" }) }),
    start("日本語", { head: headOf("日本語", { tags: { team: "語 & <b>" }, workflow: "invoices" }) }),
    start("broken", { head: failed("broken", "task_failed: no such key 'a/b' in Zürich") }),
  ]);
  await indexed(lives);
}

export function describeSearch(get: () => Lives): void {
  describeFinding(get);
  describePhrases(get);
  describeIndexing(get);
}

function describePhrases(get: () => Lives): void {
  test("ids and tags with spaces are found by their beginning and their value, and words count one by one besides", async () => {
    const lives = get();
    const { store, info } = lives;
    const tags = { team: "b", zone: "a b" };
    await commit(store, info, [
      start("a b"),
      start("a c b", { head: headOf("a c b", { tags }) }),
      start("a"),
    ]);
    await indexed(lives);
    expect(await find(lives, "a b")).toEqual(["a c b", "a b"]);
    expect(await find(lives, " a c b ")).toEqual(["a c b"]);
    expect(await find(lives, "A B", 1)).toEqual(["a c b"]);
    expect(await find(lives, "zone=a b")).toEqual(["a c b"]);
    expect(await find(lives, "a  b")).toEqual(["a c b"]);
    expect(await find(lives, "b c")).toEqual([]);
    expect(await find(lives, { q: "a b", tags: { team: null } })).toEqual(["a c b"]);
  });
}

function describeFinding(get: () => Lives): void {
  test("executions are found by the beginning of their id, hash, workflow, tags and words of their error", async () => {
    const lives = get();
    await begin(lives);
    expect(await find(lives, "orders/")).toEqual(["orders/2", "orders/1"]);
    expect(await find(lives, "ORDERS/2")).toEqual(["orders/2"]);
    expect(await find(lives, "rders")).toEqual([]);
    expect(await find(lives, "日本")).toEqual(["日本語"]);
    expect(await find(lives, "0123abcd")).toEqual(["orders/2"]);
    expect(await find(lives, "0123ABCDee")).toEqual(["orders/2"]);
    expect(await find(lives, "0123abc")).toEqual([]);
    expect(await find(lives, "invoices")).toEqual(["日本語"]);
    for (const tag of ["team=ops", "TEAM=Ops", "ops", "zone"])
      expect(await find(lives, tag)).toEqual(["orders/1"]);
    expect(await find(lives, "team")).toEqual(["日本語", "orders/1"]);
    for (const words of ["such key", "task_failed:", "zürich", "'a/b'", "key broken"])
      expect(await find(lives, words)).toEqual(["broken"]);
    expect(await find(lives, "such thing")).toEqual([]);
    expect(await find(lives, "orders team=ops")).toEqual(["orders/1"]);
  });

  test("a search is within a project, a workflow and a status, and tags are compared exactly", async () => {
    const lives = get();
    await begin(lives);
    expect(await find(lives, { q: "orders/", filter: { project: "acme" } })).toEqual(["orders/2"]);
    expect(await find(lives, { q: "orders/", filter: { project: "other" } })).toEqual([]);
    expect(await find(lives, { q: "team", filter: { workflow: "invoices" } })).toEqual(["日本語"]);
    expect(await find(lives, { q: "key", filter: { status: "running" } })).toEqual([]);
    expect(await find(lives, { tags: { team: "Ops" } })).toEqual(["orders/1"]);
    expect(await find(lives, { tags: { team: "ops" } })).toEqual([]);
    expect(await find(lives, { tags: { team: null } })).toEqual(["日本語", "orders/1"]);
    expect(await find(lives, { tags: { zone: "eu west", team: "Ops" } })).toEqual(["orders/1"]);
    expect(await find(lives, { tags: { team: "語 & <b>" }, q: "日" })).toEqual(["日本語"]);
  });

  test("what ends with an error later, goes on, and ends with another is found by what it says now", async () => {
    const lives = get();
    const { store, info } = lives;
    await begin(lives);
    await commit(store, info, [step("orders/1", 1, { head: failed("orders/1", "first: disk full") })]);
    await indexed(lives);
    expect(await find(lives, "disk")).toEqual(["orders/1"]);
    await commit(store, info, [step("orders/1", 2, { head: headOf("orders/1") })]);
    await indexed(lives);
    expect(await find(lives, "disk")).toEqual([]);
    await commit(store, info, [step("orders/1", 3, { head: failed("orders/1", "second: network") })]);
    await indexed(lives);
    expect(await find(lives, "network")).toEqual(["orders/1"]);
    expect(await find(lives, "disk")).toEqual([]);
  });

  test("one execution among many is found by its hash and by the name of its tag, also where others have its value", async () => {
    const lives = get();
    const ids = Array.from({ length: 100 }, (_, i) => `run-${i}`);
    const tagsOf = (i: number): Record<string, string> =>
      i === 40 ? { rare: "1", "a=b": "c=d" } : i === 41 ? { empty: "" } : { common: "1" };
    const writes = ids.map((id, i) =>
      start(id, { head: headOf(id, { tags: tagsOf(i), ...(i === 70 ? { hash } : {}) }) }),
    );
    await commit(lives.store, lives.info, writes);
    await indexed(lives);
    for (const q of ["rare", "rare=1", "a=b", "c=d", "a=b=c=d"])
      expect(await find(lives, q)).toEqual(["run-40"]);
    for (const q of ["empty", "empty="]) expect(await find(lives, q)).toEqual(["run-41"]);
    expect(await find(lives, "0123abcd")).toEqual(["run-70"]);
    expect(await find(lives, { tags: { rare: "1" } })).toEqual(["run-40"]);
    expect(await find(lives, { tags: { empty: "" } })).toEqual(["run-41"]);
    expect(await find(lives, { tags: { rare: "1", common: null } })).toEqual([]);
    expect(await find(lives, "common", 200)).toHaveLength(98);
    expect(await find(lives, "1", 200)).toHaveLength(99);
  });

  test("pages go on where the one before ended", async () => {
    const lives = get();
    const ids = Array.from({ length: 25 }, (_, i) => `run-${i}`);
    const writes = ids.map((id, i) => start(id, { head: headOf(id, { tags: { odd: String(i % 2) } }) }));
    await commit(lives.store, lives.info, writes);
    await indexed(lives);
    const wanted = ids.filter((_, i) => i % 2 === 1).reverse();
    const seen: string[] = [];
    let before: number | null = null;
    do {
      const page: Awaited<ReturnType<typeof listOrSearch>> = await listOrSearch(lives.store, {
        ...{ filter: {}, q: "run- odd=1", before, max: 5 },
      });
      seen.push(...page.heads.map(({ id }) => id));
      before = page.next;
    } while (before !== null);
    expect(seen).toEqual(wanted);
  });
}

function describeIndexing(get: () => Lives): void {
  test("what was not indexed when the process died is found after a restart, and what was purged is not", async () => {
    const lives = get();
    await begin(lives);
    await commit(lives.store, lives.info, [
      start("late", { head: headOf("late", { tags: { late: "yes" } }) }),
      step("orders/2", 1, {
        head: failed("orders/2", "crash: out of memory", {
          ...{ project: "acme", hash, finishedAt: 1_700_000_000_900 },
        }),
      }),
    ]);
    await lives.restart({ clean: false });
    await indexed(lives);
    expect(await find(lives, "late=yes")).toEqual(["late"]);
    expect(await find(lives, "memory")).toEqual(["orders/2"]);
    await lives.store.purge(["orders/2", "broken"]);
    await indexed(lives);
    expect(await find(lives, "memory")).toEqual([]);
    expect(await find(lives, "orders/")).toEqual(["orders/1"]);
  });

  test("an index that is made anew finds the same", async () => {
    const lives = get();
    await begin(lives);
    const last = (await lives.store.listHeads({}, { before: null, max: 1 }))[0]?.order ?? 0;
    await lives.store.clearIndex();
    // A memory store has no index: its searches find everything at once.
    expect((await lives.store.indexedTo()) >= last).toBe(lives.store instanceof MemoryStore);
    await indexed(lives);
    expect(await lives.store.indexedTo()).toBeGreaterThanOrEqual(last);
    expect(await find(lives, "team=ops")).toEqual(["orders/1"]);
    expect(await find(lives, "such key")).toEqual(["broken"]);
    expect(await find(lives, "0123abcd")).toEqual(["orders/2"]);
  });

  test("a repair of the tables makes the index anew, and an audit alone leaves it", async () => {
    const lives = get();
    await begin(lives);
    const cleared = vi.spyOn(lives.store, "clearIndex");
    await lives.store.auditTables({ repair: false });
    expect(await find(lives, "team=ops")).toEqual(["orders/1"]);
    expect(cleared).not.toHaveBeenCalled();
    await lives.store.auditTables({ repair: true });
    // A memory store has no index.
    expect(cleared).toHaveBeenCalledTimes(lives.store instanceof MemoryStore ? 0 : 1);
    await indexed(lives);
    expect(await find(lives, "team=ops")).toEqual(["orders/1"]);
    expect(await find(lives, "such key")).toEqual(["broken"]);
    // Twice is no different.
    await lives.store.auditTables({ repair: true });
    await lives.store.auditTables({ repair: true });
    await indexed(lives);
    expect(await find(lives, "0123abcd")).toEqual(["orders/2"]);
  });
}
