import { expect, test } from "vitest";
import { PlanBook } from "./plan-book.ts";

/** A store with this definition under every hash, and how often it was read. */
function bookOver(definition: object | null) {
  const reads: unknown[] = [];
  const getDefinition = (by: unknown) => {
    reads.push(by);
    const body = JSON.stringify(definition);
    return Promise.resolve(definition === null ? null : { name: "w", hash: "h", body });
  };
  return { book: new PlanBook({ getDefinition }), reads };
}
const child = (options: object) => ({
  rondo: 1,
  name: "w",
  phases: [{ name: "a", handlers: { a: { workflow: "child", ...options } } }],
});

test("a definition that an earlier version accepted is read, though it would be refused today", async () => {
  const { book } = bookOver(child({ priority: 3 }));
  expect((await book.plan("h"))?.definition.name).toBe("w");
});

test("what is read is kept by its hash", async () => {
  const { book, reads } = bookOver(child({}));
  const { hash } = (await book.plan("h")) ?? { hash: "" };
  await book.plan(hash);
  expect(reads).toEqual([{ hash: "h" }]);
});

test("what is not there, or cannot be read, is no plan", async () => {
  expect(await bookOver(null).book.plan("h")).toBeNull();
  expect(await bookOver({ rondo: 2, name: "w", phases: [] }).book.plan("h")).toBeNull();
});
