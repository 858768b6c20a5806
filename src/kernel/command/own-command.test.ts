import fc from "fast-check";
import { expect, test } from "vitest";
import type { Json } from "../../std/json.ts";
import { isRejection } from "../../std/rejection.ts";
import { parseDefinition } from "../definition/parse-definition.ts";
import { compilePlan } from "../definition/plan.ts";
import { ownCommands } from "./own-command.ts";

function shape() {
  const handlers = { a: { command: { cmd_type: "ADD" }, topic: "ADD_CMD" } };
  const parsed = parseDefinition({ name: "w", phases: [{ name: "a", handlers }] });
  if (isRejection(parsed)) throw new Error(parsed.message);
  return compilePlan({ ...parsed, commands: "input" });
}

test("commands in the input have the type of the definition, and their data and metadata", () => {
  const given = { cmd_type: "OTHER", cmd_data: { n: 1 }, cmd_metadata: { trace: "t" } };
  const [own] = ownCommands(shape(), { steps: [given] });
  expect(own?.cmd).toMatchObject({ cmd_type: "ADD", cmd_data: { n: 1 }, cmd_metadata: { trace: "t" } });
});

test("what is not a command in the input counts as absent", () => {
  const plan = shape();
  const [empty] = ownCommands(plan, {});
  for (const input of [null, 5, "a", [], { steps: null }, { steps: [null] }, { steps: { "0": {} } }])
    expect(ownCommands(plan, input as Json)).toEqual([empty]);
  const step = fc.record({ cmd_data: fc.jsonValue(), cmd_metadata: fc.jsonValue() });
  const input = fc.oneof(fc.jsonValue(), fc.record({ steps: fc.oneof(fc.jsonValue(), fc.array(step)) }));
  fc.assert(
    fc.property(input, (any) => {
      expect(ownCommands(plan, any as Json)).toHaveLength(1);
    }),
  );
});
