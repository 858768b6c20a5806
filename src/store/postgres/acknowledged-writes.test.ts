import type pg from "pg";
import { expect, test } from "vitest";
import { type Acknowledged, AcknowledgedWrites, describeLoss } from "./acknowledged-writes.ts";

const commits = (...partitions: number[]): Acknowledged => ({ kind: "commits", commits: 1, partitions });

const LOSSES: [what: string, lost: readonly Acknowledged[], message: string | null][] = [
  ["nothing", [], null],
  ["the last renewal", [{ kind: "renewal" }], null],
  ["several renewals", [{ kind: "renewal" }, { kind: "renewal" }], "0 commits, 2 renewals"],
  ["one commit", [commits(3)], "1 commit (1 of partition 3)"],
  [
    "commits of several partitions, most first",
    [commits(1), commits(2, 7), commits(7)],
    "3 commits (2 of partition 7, 1 of partition 1, 1 of partition 2)",
  ],
  [
    "all kinds",
    [commits(1), { kind: "take", partitions: [4, 5] }, { kind: "message" }, { kind: "document" }],
    "1 commit (1 of partition 1), the ownership of 2 partitions, 1 message, 1 document",
  ],
];

test.each(LOSSES)("a database that lacks %s", (_what, lost, message) => {
  expect(describeLoss(lost, true)).toBe(message);
});

test("the partitions with the fewest lost commits are summed up", () => {
  const lost = Array.from({ length: 25 }, (_, i) => commits(i));
  expect(describeLoss(lost, true)).toMatch(/^25 commits \(1 of partition 0, .*, 5 of 5 other partitions\)$/);
});

test("commits that were forgotten make the number a lower bound", () => {
  expect(describeLoss([commits(1)], false)).toBe("at least 1 commit (1 of partition 1)");
});

/** A connection to a database with these greatest numbers, by link. */
function databaseWith(stored: Readonly<Record<number, number>>): pg.Client {
  const rows = Object.entries(stored).map(([link, n]) => ({ link: Number(link), n: String(n) }));
  return { query: async () => ({ rows }) } as unknown as pg.Client;
}

test("writes count as lost by the greatest number of their own connection", async () => {
  const writes = new AcknowledgedWrites({ now: () => 0 });
  const [first, second] = [writes.newWriter(), writes.newWriter()];
  for (let n = 1; n <= 3; n++) first.note(first.next("SELECT 1", 0).n, commits(n));
  second.note(second.next("SELECT 1", 0).n, { kind: "document" });
  expect(await writes.findLost(databaseWith({ 0: 3, 1: 1 }))).toBeNull();
  // A write whose answer was lost is in the database: it is not a lost write.
  expect(await writes.findLost(databaseWith({ 0: 4, 1: 1 }))).toBeNull();
  expect(await writes.findLost(databaseWith({ 0: 1, 1: 1 }))).toBe(
    "2 commits (1 of partition 2, 1 of partition 3)",
  );
  expect(await writes.findLost(databaseWith({ 0: 3 }))).toBe("0 commits, 1 document");
});

test("a write that was not acknowledged, or refused, is not missed", async () => {
  const writes = new AcknowledgedWrites({ now: () => 0 });
  const writer = writes.newWriter();
  writer.note(writer.next("SELECT 1", 0).n, commits(1));
  writer.note(writer.next("SELECT 1", 0).n, null);
  writer.next("SELECT 1", 0);
  expect(await writes.findLost(databaseWith({ 0: 1 }))).toBeNull();
});

test("of very many writes the oldest are dropped, and then a loss of more than are left is at least so large", async () => {
  const writes = new AcknowledgedWrites({ now: () => 0 });
  const writer = writes.newWriter();
  for (let n = 1; n <= 60_000; n++) writer.note(writer.next("SELECT 1", 0).n, commits(n % 2));
  expect(await writes.findLost(databaseWith({ 0: 59_990 }))).toBe(
    "10 commits (5 of partition 0, 5 of partition 1)",
  );
  expect(await writes.findLost(databaseWith({ 0: 59_999 }))).toBe("1 commit (1 of partition 0)");
  expect(await writes.findLost(databaseWith({ 0: 2 }))).toMatch(/^at least [34]\d{4} commits \(/);
  expect(await writes.findLost(databaseWith({ 0: 60_000 }))).toBeNull();
});

test("a node that was cut off for half a day forgets: its marks may have been deleted", async () => {
  let now = 0;
  const writes = new AcknowledgedWrites({ now: () => now });
  const writer = writes.newWriter();
  writer.note(writer.next("SELECT 1", 0).n, commits(1));
  now = 43_200_001;
  expect(await writes.findLost(databaseWith({}))).toBeNull();
});

test("a statement gets its mark in its own transaction; each 256th one deletes the older marks", () => {
  const writer = new AcknowledgedWrites({ now: () => 0 }).newWriter();
  const insert = "INSERT INTO acknowledged (node, link, n) VALUES ($3, $4, $5)";
  expect(writer.next("SELECT f($1, $2)", 2).text).toBe(`WITH mark AS (${insert}) SELECT f($1, $2)`);
  expect(writer.next("\n  WITH a AS (SELECT $1) SELECT $2", 2).text).toBe(
    `WITH mark AS (${insert}), a AS (SELECT $1) SELECT $2`,
  );
  const texts = Array.from({ length: 254 }, () => writer.next("SELECT 1", 2).text);
  expect(texts.map((text) => text.includes("DELETE FROM acknowledged")).indexOf(true)).toBe(253);
});
