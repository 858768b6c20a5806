// What docs/post-operations.md shows is taken as it stands.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { WebhookSecrets } from "../../../src/commands/post-ops/webhook-secrets.ts";
import { parseStateStores } from "../../../src/commands/state/state-settings.ts";
import { parseCommand } from "../../../src/kernel/command/parse-command.ts";
import { AllowList, USUAL_PORTS } from "../../../src/net/guard/allow-list.ts";
import { unwrap } from "../../../src/std/rejection.ts";

const page = readFileSync("docs/post-operations.md", "utf8");
const blocks = Array.from(
  page.matchAll(/```json\n([\s\S]*?)```/g),
  ([, text]) => JSON.parse(text ?? "") as Record<string, never>,
);

test("its command and its settings are fine", () => {
  const [command, stores, secrets] = blocks;
  expect(blocks).toHaveLength(3);
  expect(parseCommand(command).cmd_type).toBe("EMBED_REPO");
  expect(Object.keys(unwrap(parseStateStores(stores?.["stateStores"] ?? {})))).toHaveLength(4);
  expect(() => unwrap(WebhookSecrets.parse(secrets?.["webhookSecrets"]))).not.toThrow();
});

test("its targets can be listed, and its ports are those that are open", () => {
  const rows = page.slice(page.indexOf("| entry | allows |")).split("\n").slice(2);
  const entries = rows
    .filter((row) => row.startsWith("|"))
    .flatMap((row) =>
      Array.from((row.split("|")[1] ?? "").matchAll(/`([^`]+)`/g), ([, entry]) => entry ?? ""),
    );
  expect(entries.length).toBeGreaterThanOrEqual(7);
  expect(() => unwrap(AllowList.parse(entries))).not.toThrow();
  expect(page).toContain(`Only ports ${USUAL_PORTS.slice(0, 3).join(", ")} and ${USUAL_PORTS[3]}`);
});
