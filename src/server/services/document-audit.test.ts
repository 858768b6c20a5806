// Damaged documents: each concerns itself, nothing falls open, and the audit says what to do.
import { expect, test } from "vitest";
import { boundProjects } from "../../commands/bound-projects.ts";
import { TopicRegistry, usesOf } from "../../commands/topic-registry.ts";
import { TopicRules } from "../../kernel/command/topic-rules.ts";
import { systemRandom } from "../../std/random.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { EndedSessions } from "../auth/ended-sessions.ts";
import { hashSecret } from "../auth/secrets.ts";
import { Tokens } from "../auth/tokens.ts";
import { auditDocuments } from "./document-audit.ts";

const FOREIGN = { topic: "VIC_CMD", receiptTopic: "VIC_RECEIPT" };
const BODIES = ["{", "null", "5", "[]", '{"role":7}'];

async function openStore(): Promise<MemoryStore> {
  const store = new MemoryStore();
  await store.open();
  return store;
}

async function openTokens(store: MemoryStore) {
  const faults: string[] = [];
  const bound: ReadonlySet<string>[] = [];
  const clock = new VirtualClock();
  const onFault = (fault: Error): unknown => faults.push(fault.message);
  const tokens = await Tokens.open({ store, clock, random: systemRandom, adminToken: null, onFault });
  tokens.onBound = (projects) => bound.push(projects);
  return { tokens, faults, isGuarded: (project: string) => guards(bound.at(-1) ?? new Set(), project) };
}

function guards(bound: ReadonlySet<string>, project: string): boolean {
  return new TopicRules({ prefix: "rondo", projects: {}, bound }).refusal(project, FOREIGN) !== null;
}

const wanted = { name: "o", role: "operator", project: "att", createdBy: "me", expiresAt: null } as const;

test("a damaged token opens nothing, and the project that can be read in it stays guarded", async () => {
  const store = await openStore();
  const { token, text } = await (await openTokens(store)).tokens.create(wanted);
  const body = (await store.getDocument("token", token.id)) ?? "";
  await store.putDocument("token", token.id, body.replace('"createdAt":', '"createdAt":x'));
  const { tokens, faults, isGuarded } = await openTokens(store);
  expect(tokens.find(text)).toBeNull();
  expect([isGuarded("att"), isGuarded("other")]).toEqual([true, false]);
  expect(guards(await boundProjects(store), "att")).toBe(true);
  expect(faults).toEqual([expect.stringContaining(`rondo token revoke ${token.id}`)]);
  expect(await auditDocuments(store, { repair: true })).toEqual([
    { table: "documents", message: expect.stringContaining(`token/${token.id}`), isRepaired: false },
  ]);
});

test.each(BODIES)(
  "a token of which nothing can be read guards every project until it is revoked (%s)",
  async (body) => {
    const store = await openStore();
    await store.putDocument("token", "t1", body);
    const { tokens, isGuarded } = await openTokens(store);
    expect(tokens.any).toBe(true);
    expect(tokens.damaged).toMatchObject([{ id: "t1", guards: "*" }]);
    expect([isGuarded("att"), guards(await boundProjects(store), "att")]).toEqual([true, true]);
    expect(await tokens.remove("t1")).toBe(true);
    expect([tokens.any, isGuarded("att"), guards(await boundProjects(store), "att")]).toEqual([
      false,
      false,
      false,
    ]);
  },
);

test.each(BODIES)(
  "a damaged topic is refused with the remedy, and its role is decided again (%s)",
  async (body) => {
    const store = await openStore();
    const definition = {
      rondo: 1,
      name: "w",
      phases: [{ name: "p", handlers: { h: { command: { cmd_type: "A" }, topic: "X_CMD" } } }],
    };
    await store.putDefinition("w", "hash", JSON.stringify(definition));
    for (const name of ["X_CMD", "UNUSED"]) await store.putDocument("topic", name, body);
    const uses = usesOf({ topic: "X_CMD", receiptTopic: "X_RECEIPT" });
    const registry = new TopicRegistry(store);
    expect(await registry.claim(uses, "one")).toMatchObject({
      code: "wrong_status",
      hint: expect.stringContaining("rondo audit --repair"),
    });
    expect((await auditDocuments(store, { repair: false })).map(({ isRepaired }) => isRepaired)).toEqual([
      false,
      false,
    ]);
    expect((await auditDocuments(store, { repair: true })).map(({ isRepaired }) => isRepaired)).toEqual([
      true,
      true,
    ]);
    expect(await auditDocuments(store, { repair: false })).toEqual([]);
    expect(await registry.check([{ name: "X_CMD", role: "receipt" }])).toMatchObject({
      code: "invalid_input",
    });
    expect(await registry.claim(uses, "one")).toBeNull();
    expect(await registry.claim([{ name: "UNUSED", role: "receipt" }], "one")).toBeNull();
  },
);

test("damaged schedules and keys are found, and a session that ended stays ended", async () => {
  const store = await openStore();
  for (const [kind, id] of [
    ["schedule", "s"],
    ["schedule", "t state"],
    ["idempotency-key", "k"],
    ["ended-session", hashSecret("signed")],
    ["workflow-version", "w 1"],
    ["audit", "1"],
  ] as const)
    await store.putDocument(kind, id, "{}");
  const found = await auditDocuments(store, { repair: true });
  expect(found.map(({ message, isRepaired }) => [message.split(" ")[2], isRepaired])).toEqual([
    ["audit/1", false],
    [`ended-session/${hashSecret("signed")}`, false],
    ["idempotency-key/k", true],
    ["schedule/s", false],
    ["schedule/t", false],
    ["workflow-version/w", false],
  ]);
  expect(await store.getDocument("idempotency-key", "k")).toBeNull();
  const sessions = await EndedSessions.open({ store, clock: new VirtualClock() });
  await sessions.end({ token: "t", until: Number.MAX_SAFE_INTEGER, signature: "another" });
  expect(sessions.has({ token: "t", until: 1, signature: "signed" })).toBe(true);
});
