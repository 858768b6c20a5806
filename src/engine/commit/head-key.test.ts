// Which changes of a head are written to the store.
import { expect, test } from "vitest";
import { headOf } from "../../../test/fixtures/store/example-writes.ts";
import { headKeyOf } from "./execution-write.ts";

test("the head of the first execution of an id is written when a later one ends, though its status stays", () => {
  // Two notices of the next execution, its begin and its end, may be taken in one step.
  const before = headOf("e", { status: "done", want: "nothing", finishedAt: 1_000 });
  expect(headKeyOf({ ...before, finishedAt: 2_000 })).not.toBe(headKeyOf(before));
  expect(headKeyOf({ ...before })).toBe(headKeyOf(before));
});
