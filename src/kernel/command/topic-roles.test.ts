// Topics in one definition: a name is for commands or for receipts.
import { expect, test } from "vitest";
import { isRejection } from "../../std/rejection.ts";
import { parseDefinition, parseStored } from "../definition/parse-definition.ts";
import { commandHashes } from "./command-plan.ts";

const step = (name: string, topic: string, more: object = {}) => ({
  name,
  handlers: { [name]: { command: { cmd_type: "T" }, topic, ...more } },
});
const flow = (...phases: object[]) => ({ rondo: 1, name: "flow", phases });

test("a command cannot go to where receipts of another command come back, in whatever order", () => {
  const crossed = [
    flow(step("one", "EMB"), step("two", "EMB_RECEIPT")),
    flow(step("one", "EMB_RECEIPT"), step("two", "EMB")),
    flow(step("one", "A_CMD_X"), step("two", "A_RECEIPT_X")),
    flow(step("one", "A"), step("two", "B", { receiptTopic: "A" })),
  ];
  for (const definition of crossed) {
    expect(parseDefinition(definition)).toMatchObject({ code: "invalid_definition" });
    // One that an earlier version has stored is read as it is; its commands are judged when they are sent.
    expect(isRejection(parseStored(definition))).toBe(false);
  }
  expect(isRejection(parseDefinition(flow(step("one", "EMB"), step("two", "EMB"))))).toBe(false);
});

test("names of Rondo's own queues are refused in definitions, and read where they are stored", () => {
  for (const definition of [
    flow(step("one", "rondo.dead")),
    flow(step("one", "A", { receiptTopic: "rondo.workflow.handler.x.enumerate" })),
  ]) {
    expect(parseDefinition(definition)).toMatchObject({
      message: expect.stringContaining("cannot be a topic"),
    });
    expect(isRejection(parseStored(definition))).toBe(false);
  }
});

test("cmd_data that is null has a hash of its own; only what is absent counts as {}", () => {
  const hash = (cmd_data?: null | object) =>
    commandHashes([{ cmd_type: "T", ...(cmd_data === undefined ? {} : { cmd_data: cmd_data as never }) }])
      .hashes;
  expect(hash()).toEqual(hash({}));
  expect(hash(null)).not.toEqual(hash());
});
