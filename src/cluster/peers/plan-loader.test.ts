import { expect, test } from "vitest";
import { contentHash } from "../../std/canonical-json.ts";
import type { Json } from "../../std/json.ts";
import { PlanLoader } from "./plan-loader.ts";

/** A store with this definition, its hash, and how often it was read. */
function bookOver(definition: object | null) {
  const reads: unknown[] = [];
  const hash = contentHash(definition as Json);
  const getDefinition = (by: unknown) => {
    reads.push(by);
    const body = JSON.stringify(definition);
    return Promise.resolve(definition === null ? null : { name: "w", hash, body });
  };
  return { loader: new PlanLoader({ getDefinition }), hash, reads };
}
const child = (options: object) => ({
  rondo: 1,
  name: "w",
  phases: [{ name: "a", handlers: { a: { workflow: "child", ...options } } }],
});

test("a definition that an earlier version accepted is read, though it would be refused today", async () => {
  const { loader, hash } = bookOver(child({ priority: 3 }));
  expect((await loader.plan(hash))?.definition.name).toBe("w");
});

test("what is read is kept by its hash", async () => {
  const { loader, hash, reads } = bookOver(child({}));
  expect(await loader.plan(hash)).not.toBeNull();
  await loader.plan(hash);
  expect(reads).toEqual([{ hash }]);
});

test("what is not there, or cannot be read, is no plan", async () => {
  expect(await bookOver(null).loader.plan("h")).toBeNull();
  const newer = bookOver({ rondo: 3, name: "w", phases: [] });
  expect(await newer.loader.plan(newer.hash)).toBeNull();
});

test("a definition that does not have its hash is damaged, and no plan", async () => {
  const { loader } = bookOver(child({}));
  expect(await loader.plan("another")).toBeNull();
});
