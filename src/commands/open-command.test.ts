// A receipt without a mark while very many documents of one shape are open.
import { expect, test } from "vitest";
import { hashedCommands } from "../kernel/command/own-command.ts";
import { compilePlan } from "../kernel/definition/plan.ts";
import { encodeAttempt } from "../protocol/attempt-id.ts";
import { unwrap } from "../std/rejection.ts";
import { fits, type SearchWord } from "../store/search-terms.ts";
import type { StoredHead } from "../store/store.ts";
import { findOpenCommand, type OpenCommandParts } from "./open-command.ts";
import { COMMANDS_TAG, shapeDefinition, submissionDefinition } from "./submission-definition.ts";

const OPEN = 120_000;
const steps = [{ command: { cmd_type: "ADD" }, topic: "ADD_CMD", options: {} }];
const { definition } = unwrap(submissionDefinition({ id: null, path: "", steps }));
const plan = compilePlan(shapeDefinition(definition, [[]]));
const commandOf = (n: number) => hashedCommands([{ cmd_type: "ADD", cmd_data: { n } }])[0];

/** Open executions with the orders 1 to OPEN, each with its own data. Those up to `indexed` are in the index. */
function setUp(indexed: number) {
  let heads = 0;
  const hashOf = (order: number) =>
    order > indexed - 10 ? (commandOf(order)?.workflowHash ?? "") : `${order}`;
  const headOf = (order: number) =>
    ({
      ...{
        id: `e${order}`,
        order,
        workflow: plan.definition.name,
        hash: plan.hash,
        status: "running",
        error: null,
      },
      tags: { [COMMANDS_TAG]: hashOf(order) },
    }) as unknown as StoredHead;
  const store = {
    listDocuments: async () => [],
    listDefinitions: async () => [{ name: plan.definition.name, hash: plan.hash }],
    listHeads: async (
      { workflow, status }: { workflow: string; status: string },
      { before, max }: { before: number | null; max: number },
    ) => {
      const top = Math.min((before ?? OPEN + 1) - 1, OPEN);
      const isThere = workflow === plan.definition.name && status === "running";
      const count = isThere ? Math.min(max, top) : 0;
      heads += count;
      return Array.from({ length: count }, (_, i) => headOf(top - i));
    },
    indexSome: async () => false,
    indexedTo: async () => indexed,
    findOrders: async (word: SearchWord, { before }: { before: number }) => {
      const found = [indexed, indexed - 1].filter((n) => n < before && fits(headOf(n), word));
      return { orders: found, floor: 0 };
    },
    headsOf: async (orders: readonly number[]) => orders.map(headOf),
  };
  const at = {
    phase: "step-0",
    visit: 1,
    handler: "step-0",
    round: 0,
    epoch: 1,
    task: 0,
    attempt: 1,
    claim: 0,
  };
  const parts = {
    store,
    planOf: async () => plan,
    inspect: async (execution: string) => ({
      commands: [{ phase: "step-0", handler: "step-0", startedAt: 1, receiptedAt: null }],
      attempts: [
        { phase: "step-0", handler: "step-0", task: 0, attempt: encodeAttempt({ ...at, execution }) },
      ],
      input: { steps: [{ cmd_data: { n: Number(execution.slice(1)) } }] },
    }),
  } as unknown as OpenCommandParts;
  const find = (n: number) => {
    const { hash: cmdHash = "", workflowHash = "" } = commandOf(n) ?? {};
    return findOpenCommand(parts, { cmdHash, workflowHash, receiptTopic: "ADD_RECEIPT" });
  };
  return { find, heads: () => heads };
}

test("the command is found by the index, and among the executions that the index may not have", async () => {
  const { find, heads } = setUp(OPEN - 300);
  expect(await find(OPEN - 300)).toMatchObject({ kind: "one", execution: `e${OPEN - 300}` });
  expect(await find(OPEN - 299)).toMatchObject({ kind: "one", execution: `e${OPEN - 299}` });
  expect(await find(OPEN)).toMatchObject({ kind: "one", execution: `e${OPEN}` });
  // Few of the open executions are read for a receipt.
  expect(heads()).toBeLessThan(3 * 2_000);
});

test("the receipt is ambiguous if the index is far behind", async () => {
  expect(await setUp(OPEN - 60_000).find(OPEN)).toEqual({ kind: "several" });
});
