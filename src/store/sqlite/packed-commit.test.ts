import { expect, test } from "vitest";
import { headOf, logRow, start, step } from "../../../test/fixtures/store/example-writes.ts";
import { unpackLog } from "../packed-log.ts";
import type { Head } from "../store.ts";
import { packWrites, unpackWrites } from "./packed-commit.ts";

test("what a write does not bring takes no room", () => {
  const plain = packWrites([start("a"), step("a", 1)]);
  const empty = { mail: [], logs: [], deadLetters: [], deadLettersCleared: 0 };
  expect(packWrites([start("a", empty), step("a", 1, empty)])).toEqual(plain);
  expect(unpackWrites(plain).map(({ records }) => records)).toEqual([null, null]);
});

test("writes with every part, and with none, come out as they went in", () => {
  const mail = [{ id: "l", to: "b", body: "{}" }];
  const row = logRow([1, 4], { mayRepeat: true });
  const snapshot = { seq: 1, foldVersion: 1, chain: "c", body: "state" };
  const full = {
    snapshot,
    mail,
    logs: [row],
    deadLetters: [{ seq: 3, tasks: [1, 2] }],
    deadLettersCleared: 2,
    opened: { "p.1.h": 2 },
    timersSet: [{ timer: "t", due: 9 }],
    timersCleared: ["u"],
  };
  const [first, second, third] = unpackWrites(
    packWrites([start("a", full), step("a", 1), step("a", 2, { deadLettersCleared: 2 })]),
  );
  expect(first).toMatchObject({
    execution: "a",
    snapshot,
    opened: [{ mark: "p.1.h", tasks: 2 }],
    timersSet: full.timersSet,
    timersCleared: full.timersCleared,
    records: {
      mail,
      logs: [{ attempt: "attempt-1", lastN: 4, mayRepeat: true }],
      deadLetters: [{ seq: 3, tasks: "[1,2]" }],
      deadLettersCleared: 2,
    },
  });
  const { mayRepeat: _, ...stored } = row;
  const body = first?.records?.logs[0]?.body ?? "";
  expect(unpackLog({ order: 7, attempt: row.attempt, body })).toEqual({ ...stored, order: 7 });
  expect(second).toMatchObject({ after: 1, records: null, snapshot: null });
  expect(third?.records).toEqual({ mail: [], logs: [], deadLetters: [], deadLettersCleared: 2 });
});

test("heads that are alike are sent once, and each comes out as it went in", () => {
  const changes: readonly Partial<Head>[] = [
    {},
    { createdAt: 8 },
    { createdAt: 9, tags: { k: "v" } },
    { tags: { k: "v" } },
    { status: "done", finishedAt: 4, phase: null, want: "nothing" },
    { error: "failed: it" },
  ];
  const heads = changes.map((change, i) => ({ ...headOf(`e${i}`), ...change }));
  const packed = packWrites(heads.map((head) => start(head.id, { head })));
  const found = unpackWrites(packed).map(({ head }) => head);
  expect(found).toEqual(heads.map(({ id: _, tags, ...head }) => ({ ...head, tags: JSON.stringify(tags) })));
  const alike = packWrites([start("a", { head: headOf("a") }), start("b", { head: headOf("b") })]);
  expect(alike.filter((value) => value === headOf("a").hash)).toHaveLength(1);
});
