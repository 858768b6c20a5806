import { expect, test } from "vitest";
import type { ExecutionWrite, Head } from "../store.ts";
import type { Value } from "./link.ts";
import { PostgresSearchIndex } from "./search-index.ts";

const HASH = "01234567".padEnd(64, "0");

function write(id: string, more: Partial<Head> = {}): ExecutionWrite {
  const head = { id, hash: HASH, tags: {}, error: null, ...more } as Head;
  return { execution: id, create: more.error === undefined, head } as ExecutionWrite;
}

/** An index over a database that only keeps the written statements, each as its name and values. */
function makeIndex(numbers: Readonly<Record<string, number>>) {
  const written: (readonly [name: string, ...values: Value[]])[] = [];
  let fails = 0;
  const links = {
    run: async ({ name }: { name: string }, values: readonly Value[]) => {
      if (!name.startsWith("search-add")) return [];
      if (fails-- > 0) throw new Error("away");
      written.push([name, ...values.slice(1).map((value) => String(value).replaceAll("\x1f", " "))]);
      return [];
    },
  };
  const reader = { headsOf: async () => [] };
  const index = new PostgresSearchIndex({
    links: links as never,
    reader: reader as never,
    generation: "g",
    now: async () => 0,
    numberOf: (id) => numbers[id],
  });
  const commit = (...writes: ExecutionWrite[]) => index.committed({ writes } as never);
  return { index, written, commit, fail: (times: number) => (fails = times) };
}

test("own executions are indexed by their numbers, and by their ids if a number is not known", async () => {
  const { index, written, commit } = makeIndex({ a: 7, c: 9 });
  commit(write("a"), write("b"), write("c", { tags: { team: "ops" } }));
  await index.indexSome();
  expect(written).toEqual([
    ["search-add", "#01234567", "{7}"],
    ["search-add", "#01234567 @team =ops", "{9,9,9}"],
    ["search-add-ids", "#01234567", "b"],
  ]);
});

test("terms that could not be written are written later, with those that came meanwhile", async () => {
  const { index, written, commit, fail } = makeIndex({ a: 7 });
  commit(write("a"));
  fail(1);
  await expect(index.indexSome()).rejects.toThrow("away");
  commit(write("a", { error: "broken" }));
  await index.indexSome();
  expect(written).toEqual([
    ["search-add", "#01234567", "{7}"],
    ["search-add", "broken", "{7}"],
  ]);
});

test("an execution that is deleted before it is indexed is not indexed", async () => {
  const { index, written, commit } = makeIndex({ a: 7, b: 8 });
  commit(write("a"), write("b"));
  await (await index.removing(["a"]))();
  await index.indexSome();
  expect(written).toEqual([["search-add", "#01234567", "{8}"]]);
});

test("an execution with several terms that is deleted while a write of them fails is not indexed later", async () => {
  const { index, written, commit, fail } = makeIndex({ a: 7 });
  commit(write("a", { tags: { team: "ops" } }));
  fail(1);
  const indexing = index.indexSome();
  const removing = index.removing(["a"]);
  await expect(indexing).rejects.toThrow("away");
  await (await removing)();
  await index.indexSome();
  expect(written).toEqual([]);
});

test("an execution that is deleted while two calls write, of which one fails, is not indexed later", async () => {
  const { index, written, commit, fail } = makeIndex({ a: 7, b: 8 });
  commit(write("a"), write("b", { hash: "76543210".padEnd(64, "0") }));
  fail(1);
  const [first, second] = [index.indexSome(), index.indexSome()];
  const removing = index.removing(["a"]);
  await expect(first).rejects.toThrow("away");
  await second;
  await (await removing)();
  await index.indexSome();
  expect(written).toEqual([["search-add", "#76543210", "{8}"]]);
});

test("many executions with one term are indexed in parts, until none is left", async () => {
  const ids = Array.from({ length: 2_500 }, (_, i) => `e${i}`);
  const { index, written, commit } = makeIndex(Object.fromEntries(ids.map((id, i) => [id, i + 1])));
  commit(...ids.map((id) => write(id)));
  await (await index.removing(["e1", "e2400"]))();
  const more: boolean[] = [];
  for (let i = 0; i < 3; i++) more.push(await index.indexSome());
  expect(more).toEqual([true, true, false]);
  const numbers = written.flatMap(([, , list]) => String(list).slice(1, -1).split(",").map(Number));
  expect(numbers).toEqual(ids.map((_, i) => i + 1).filter((number) => number !== 2 && number !== 2_401));
});
