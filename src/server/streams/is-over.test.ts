import { expect, test } from "vitest";
import { reject } from "../../std/rejection.ts";
import { isOver } from "./is-over.ts";

const engine = (found: unknown) => ({ inspect: async () => found as never });

test("an execution is over when it has ended or is gone; if nobody can say so, that is not the end", async () => {
  expect(await isOver(engine({ view: { finishedAt: 1 } }), "e")).toBe(true);
  expect(await isOver(engine({ view: { finishedAt: null } }), "e")).toBe(false);
  expect(await isOver(engine(reject("not_found", "gone")), "e")).toBe(true);
  const nobody = reject("not_ready", "nobody has it just now");
  await expect(isOver(engine(nobody), "e")).rejects.toMatchObject({ code: "not_ready" });
});
