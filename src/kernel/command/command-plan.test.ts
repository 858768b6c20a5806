import { expect, it } from "vitest";
import type { CommandDefinition } from "../definition/definition.ts";
import { commandHashes } from "./command-plan.ts";

const commandHash = (command: CommandDefinition) => commandHashes([command]).hashes[0];
const commandsHash = (commands: readonly CommandDefinition[]) => commandHashes(commands).workflowHash;

/** The example of the document that commands come from. */
const embed: CommandDefinition = {
  cmd_type: "EMBED_REPO",
  cmd_data: {},
  cmd_metadata: {
    repo_name: "Lxi",
    user_id: "usr@lxi.com",
    workflow_hash: "3f2912a8b44767729b997a753ec6632b37949443befc03c53c622d8c6e9b030f",
    cmd_hash: "791f5a868b2942f61968452b1f5535908c698ba5641ccc2004fae73622c3a884",
    cmd_post_op: {
      cmd_result_broadcasts: [
        {
          url: "http://lxi-ui-api:6001/broadcast",
          static_payload: { message: "Repo has been embedded.", user_id: "usr@lxi.com" },
        },
      ],
    },
  },
};

it("the example's hashes are these, for ever", () => {
  expect(commandHash(embed)).toBe("d071af74bb548a7eeda9a40aa64ca3456e5b199a4c6094f8f59b929f1c7dab49");
  expect(commandsHash([embed])).toBe("e34997b0a1744a8f7429e7e25bcda24a914807659545ef336875de880246ce1b");
});

it("what is filled in later is left out, and what is absent counts as empty", () => {
  const { workflow_hash: _, cmd_hash: __, ...metadata } = embed.cmd_metadata ?? {};
  const bare = { cmd_type: "EMBED_REPO", cmd_metadata: metadata };
  const marked = { ...bare, cmd_metadata: { ...metadata, rondo: { workflow_id: "x", step: 1 } } };
  expect(commandHash(bare)).toBe(commandHash(embed));
  expect(commandHash(marked)).toBe(commandHash(embed));
  expect(commandHash({ cmd_type: "A" })).toBe(commandHash({ cmd_type: "A", cmd_data: {}, cmd_metadata: {} }));
});

it("the order of keys does not matter, the order of commands does", () => {
  const a: CommandDefinition = { cmd_type: "A", cmd_data: { x: 1, y: { p: 1, q: 2 } } };
  const same: CommandDefinition = { cmd_data: { y: { q: 2, p: 1 }, x: 1 }, cmd_type: "A" };
  const b: CommandDefinition = { cmd_type: "B" };
  expect(commandHash(a)).toBe(commandHash(same));
  expect(commandsHash([a, b])).toBe(commandsHash([same, b]));
  expect(commandsHash([a, b])).not.toBe(commandsHash([b, a]));
  expect(commandsHash([a])).not.toBe(commandHash(a));
});
