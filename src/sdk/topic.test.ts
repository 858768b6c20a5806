import { expect, test } from "vitest";
import { topic } from "./topic.ts";

test.each(["rondo.dead", "rondo.workflow.handler.x.enumerate", "amq.direct"])(
  "code cannot serve %s, which is no topic",
  (name) => {
    expect(() => topic(name, () => 1)).toThrow(/topic/);
  },
);
