import { expect, it } from "vitest";
import { versionOf } from "./event.ts";

it("a kind is of the first version that knows it, so that older ones leave rows alone that hold it", () => {
  const versions = (kinds: readonly string[]) => kinds.map(versionOf);
  expect(versions(["created", "tasks.settled", "finished"])).toEqual([1, 1, 1]);
  expect(versions(["tasks.waiting", "task.step", "child.finished"])).toEqual([2, 2, 2]);
  expect(versions(["command.receipted", "postop.done", "postop.failed", "postop.retried"])).toEqual([
    3, 3, 3, 3,
  ]);
  expect(versions(["task.waiting", "task.step.retrying", "task.step.failed"])).toEqual([6, 6, 6]);
});
