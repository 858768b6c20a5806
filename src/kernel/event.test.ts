import { expect, it } from "vitest";
import { RESERVED_KINDS } from "./event.ts";
import { publicEvent } from "./public-event.ts";

it("reserved kinds are shown like any other, so that journals of later versions can be read as far as they are known", () => {
  for (const kind of RESERVED_KINDS) {
    const recorded = { seq: 1, at: 2, event: { kind, step: 0 } as never };
    expect(publicEvent("x", recorded, "summary")).toEqual({
      seq: 1,
      at: 2,
      kind: `workflow.${kind}`,
      v: 1,
      execution: "x",
      step: 0,
    });
  }
});
