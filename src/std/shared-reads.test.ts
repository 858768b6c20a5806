// Which read a caller gets, by when it asked.
import { expect, test } from "vitest";
import { SharedReads } from "./shared-reads.ts";

function setUp() {
  const begun: { readonly name: string; readonly end: (value: string | Error) => void }[] = [];
  const reads = new SharedReads(
    (name) =>
      new Promise<string>((resolve, fail) => {
        begun.push({ name, end: (value) => (typeof value === "string" ? resolve(value) : fail(value)) });
      }),
  );
  return { reads, begun };
}

test("those who ask while a read is under way share the next one, which begins after it", async () => {
  const { reads, begun } = setUp();
  const first = reads.read("a");
  const others = [reads.read("a"), reads.read("a")];
  expect(begun.length).toBe(1);
  begun[0]?.end("old");
  expect(await first).toBe("old");
  const late = reads.read("a");
  expect(begun.length).toBe(2);
  begun[1]?.end("new");
  expect(await Promise.all(others)).toEqual(["new", "new"]);
  expect(begun.length).toBe(3);
  begun[2]?.end("newest");
  expect(await late).toBe("newest");
});

test("a read that is alone begins at once, and names have reads of their own", async () => {
  const { reads, begun } = setUp();
  const all = [reads.read("a"), reads.read("b")];
  expect(begun.map(({ name }) => name)).toEqual(["a", "b"]);
  for (const { end } of begun) end("x");
  await Promise.all(all);
  const again = reads.read("a");
  expect(begun.length).toBe(3);
  begun[2]?.end("y");
  expect(await again).toBe("y");
});

test("a read that fails fails for its callers only", async () => {
  const { reads, begun } = setUp();
  const first = reads.read("a");
  const second = reads.read("a");
  begun[0]?.end(new Error("the store is away"));
  await expect(first).rejects.toThrow("the store is away");
  begun[1]?.end("there");
  expect(await second).toBe("there");
});
