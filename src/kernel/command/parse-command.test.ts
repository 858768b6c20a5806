// Commands in definitions: kept as they are written, their post-operations checked strictly.
import { describe, expect, test } from "vitest";
import { isRejection, unwrap } from "../../std/rejection.ts";
import { parseDefinition } from "../definition/parse-definition.ts";
import { compilePlan } from "../definition/plan.ts";
import { receiptTopicOf, topicOf, topicUse } from "./topic-rules.ts";

const AT = 'phase "a" handler "a"';
const KEPT = { target_statestore_name: "s", target_statestore_key: "k" };

function one(command: unknown, handler: object = { topic: "T" }): object {
  return { name: "w", phases: [{ name: "a", handlers: { a: { command, ...handler } } }] };
}
const withPostOps = (ops: unknown) => one({ cmd_type: "X", cmd_metadata: { cmd_post_op: ops } });
const planOf = (data: unknown) => compilePlan(unwrap(parseDefinition(data)));

describe("a command is refused", () => {
  const bcast = (one_: unknown) => withPostOps({ cmd_result_broadcasts: [one_] });
  const ops = `${AT}.command.cmd_metadata.cmd_post_op`;
  test.each<[string, unknown, string]>([
    ["without a topic", one({ cmd_type: "X" }, {}), `${AT}.topic: a command needs a topic`],
    [
      "with a topic of strange letters",
      one({ cmd_type: "X" }, { topic: "a b" }),
      `${AT}.topic: "a b" is not`,
    ],
    [
      "with a topic of the broker's",
      one({ cmd_type: "X" }, { topic: "amq.x" }),
      `${AT}.topic: "amq.x" is not`,
    ],
    [
      "whose receipts come on its topic",
      one({ cmd_type: "X" }, { topic: "T", receiptTopic: "T" }),
      `${AT}.receiptTopic: must differ from the topic`,
    ],
    ["that is no object", one([]), `${AT}.command: [] is not an object`],
    [
      "with a field that is not known",
      one({ cmd_type: "X", data: 1 }),
      `${AT}.command: has the unknown field "data"`,
    ],
    [
      "whose metadata are a list",
      one({ cmd_type: "X", cmd_metadata: [] }),
      `${AT}.command.cmd_metadata: [] is not an object`,
    ],
    ["that is too large", one({ cmd_type: "X", cmd_data: "x".repeat(70_000) }), `${AT}.command: cmd is 7`],
    [
      "with something that cannot be stored",
      one({ cmd_type: "X", cmd_data: Number.NaN }),
      `${AT}.command: cmd.cmd_data is NaN`,
    ],
    [
      "with a batch",
      one({ cmd_type: "X" }, { topic: "T", batch: 2 }),
      `${AT}.batch: cannot be used with a command`,
    ],
    [
      "with a version",
      one({ cmd_type: "X" }, { topic: "T", version: "1" }),
      `${AT}.version: cannot be used with a command`,
    ],
    [
      "with a post-op that is not known",
      withPostOps({ result: {} }),
      `${ops}: has the unknown field "result"`,
    ],
    [
      "with an enrichment without a map",
      withPostOps({ cmd_result_enrichment: {} }),
      `${ops}.cmd_result_enrichment.prop_map: nothing is not a list`,
    ],
    [
      "with an enrichment without a value",
      withPostOps({ cmd_result_enrichment: { prop_map: [{ key: "k" }] } }),
      `${ops}.cmd_result_enrichment.prop_map[0].val: nothing is not a value`,
    ],
    [
      "with a persistence without a key",
      withPostOps({ cmd_result_persistence: { target_statestore_name: "s" } }),
      `${ops}.cmd_result_persistence.target_statestore_key: nothing is not a text`,
    ],
    [
      "with a persistence of an empty partition",
      withPostOps({ cmd_result_persistence: { ...KEPT, target_statestore_partition_key: "" } }),
      `${ops}.cmd_result_persistence.target_statestore_partition_key: "" is not a text`,
    ],
    [
      "with a persistence with a crash budget",
      withPostOps({ cmd_result_persistence: { ...KEPT, retry: { crashes: 1 } } }),
      `${ops}.cmd_result_persistence.retry: has the unknown field "crashes"`,
    ],
    [
      "with a persistence of no attempts",
      withPostOps({ cmd_result_persistence: { ...KEPT, retry: { attempts: 0 } } }),
      `${ops}.cmd_result_persistence.retry.attempts: 0 is not`,
    ],
    [
      "with a persistence of no time",
      withPostOps({ cmd_result_persistence: { ...KEPT, timeout: 0 } }),
      `${ops}.cmd_result_persistence.timeout: 0 is not a duration of at least`,
    ],
    [
      "with broadcasts that are no list",
      withPostOps({ cmd_result_broadcasts: {} }),
      `${ops}.cmd_result_broadcasts: {} is not a list`,
    ],
    ["with a broadcast to nowhere", bcast({}), `${ops}.cmd_result_broadcasts[0].url: nothing is not`],
    [
      "with a broadcast to a file",
      bcast({ url: "file:///etc/passwd" }),
      `${ops}.cmd_result_broadcasts[0].url: "file:`,
    ],
    [
      "with a broadcast with a password",
      bcast({ url: "http://a:b@x/" }),
      `${ops}.cmd_result_broadcasts[0].url: contains a user name`,
    ],
    [
      "with a broadcast that is awaited a little",
      bcast({ url: "http://x", await: 1 }),
      `${ops}.cmd_result_broadcasts[0].await: 1 is not true or false`,
    ],
    [
      "with a broadcast of a field that is not known",
      bcast({ url: "http://x", method: "PUT" }),
      `${ops}.cmd_result_broadcasts[0]: has the unknown`,
    ],
    [
      "with a reference to itself",
      one({ cmd_type: "X", cmd_data: "${steps[0].cmd_result}" }),
      `${AT}.command.cmd_data: "\${steps[0].cmd_result}" refers to a result that is not there: that command is not in an earlier phase`,
    ],
    [
      "with a reference to no command",
      one({ cmd_type: "X", cmd_data: "${steps[3].cmd_result}" }),
      `${AT}.command.cmd_data: "\${steps[3].cmd_result}" refers to a result that is not there: there are 1`,
    ],
  ])("%s", (_, data, message) => {
    const refused = parseDefinition(data);
    expect(isRejection(refused)).toBe(true);
    if (isRejection(refused)) expect(refused.message.slice(0, message.length)).toBe(message);
  });
});

test("a topic without a command is refused, a result of several tasks cannot be referred to", () => {
  const topic = { name: "w", phases: [{ name: "a", handlers: { a: { use: "x", topic: "T" } } }] };
  expect(parseDefinition(topic)).toMatchObject({ message: `${AT}.topic: can only be used with a command` });
  const many = {
    name: "w",
    phases: [
      { name: "a", handlers: { a: { command: { cmd_type: "X" }, topic: "T", tasks: [1, 2] } } },
      {
        name: "b",
        handlers: { b: { command: { cmd_type: "Y", cmd_data: "${steps[0].cmd_result}" }, topic: "T" } },
      },
    ],
  };
  expect(parseDefinition(many)).toMatchObject({
    message: expect.stringContaining("that command has several tasks"),
  });
});

test("what others fill in is left out, so that a document that was read back is the same definition", () => {
  const bare = unwrap(parseDefinition(one({ cmd_type: "X", cmd_metadata: { repo: "r" } })));
  const filled = {
    cmd_type: "X",
    cmd_data: {},
    cmd_metadata: { repo: "r", cmd_hash: "1", workflow_hash: "2", rondo: { step: 1 } },
    cmd_result: { big: true },
  };
  expect(parseDefinition(one(filled))).toEqual(bare);
  expect(compilePlan(unwrap(parseDefinition(one(filled)))).hash).toBe(compilePlan(bare).hash);
});

test("durations in post-operations stay as they are written, and count as what they mean", () => {
  const data = withPostOps({
    cmd_result_persistence: { ...KEPT, timeout: "5s", retry: { min: "2s", max: "1m", attempts: 4 } },
  });
  const plan = planOf(data);
  expect(JSON.stringify(plan.definition)).toContain('"timeout":"5s"');
  const [planned] = plan.commands;
  expect(planned?.command.persistence).toEqual({
    store: "s",
    key: "k",
    partition: null,
    attempts: 4,
    backoff: "exponential",
    retryMinMs: 2_000,
    retryMaxMs: 60_000,
    timeoutMs: 5_000,
  });
});

test("a plan numbers its commands, fills in both hashes, and serves them under their topics", () => {
  const command = (cmd_type: string, topic: string) => ({ command: { cmd_type }, topic });
  const plan = planOf({
    name: "w",
    phases: [
      { name: "a", handlers: { a: command("A", "CMD_A"), b: command("B", "B") } },
      { name: "s", handlers: { s: { sleep: 1 } } },
      { name: "c", handlers: { c: { ...command("C", "X_CMD"), receiptTopic: "OTHER" } } },
    ],
  });
  expect(
    plan.commands.map(({ phase, handler, command: { step, topic, receiptTopic } }) => [
      phase.name,
      handler.use,
      step,
      topic,
      receiptTopic,
    ]),
  ).toEqual([
    ["a", "topic:CMD_A", 0, "CMD_A", "RECEIPT_A"],
    ["a", "topic:B", 1, "B", "B_RECEIPT"],
    ["c", "topic:X_CMD", 2, "X_CMD", "OTHER"],
  ]);
  const metadata = plan.commands.map(({ command: { cmd } }) => cmd.cmd_metadata);
  expect(new Set(metadata.map(({ workflow_hash }) => workflow_hash)).size).toBe(1);
  expect(new Set(metadata.map(({ cmd_hash }) => cmd_hash)).size).toBe(3);
});

test.each([
  ["LEXI_CMD_EMBED", "LEXI_RECEIPT_EMBED"],
  ["EMBED_CMD", "EMBED_RECEIPT"],
  ["CMD", "RECEIPT"],
  ["CMD_X_CMD", "RECEIPT_X_CMD"],
  ["COMMANDS", "COMMANDS_RECEIPT"],
  ["lexi_cmd", "lexi_cmd_RECEIPT"],
])("receipts of %s come on %s", (topic, receipts) => {
  expect(receiptTopicOf(topic)).toBe(receipts);
});

test("a topic's wire name cannot be a handler's", () => {
  expect(topicOf(topicUse("T"))).toBe("T");
  expect(topicOf("w.a")).toBeNull();
});
