import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { matchesTopic, receiptTopicOf, TopicRules } from "./topic-rules.ts";

const to = (topic: string, receiptTopic = receiptTopicOf(topic)) => ({ topic, receiptTopic });
const rules = (options: Partial<ConstructorParameters<typeof TopicRules>[0]> = {}) =>
  new TopicRules({ prefix: "rondo", projects: {}, ...options });

describe("which topics a project may use", () => {
  test("an open project may use any name that is not reserved", () => {
    expect(rules().refusal("project-x", to("LEXI_CMD_EMBED"))).toBeNull();
    expect(rules().refusal("project-x", to("EMB", "other-system.receipts"))).toBeNull();
    expect(rules({ projects: { "project-x": {} } }).refusal("project-x", to("EMB"))).toBeNull();
  });

  test("nobody may use names of RabbitMQ, of Rondo, or with the prefix of this deployment", () => {
    for (const name of ["amq.gen-1", "rondo.dead", "rondo.workflow.handler.x.enumerate", "distribot.dead"]) {
      const guard = rules({ prefix: "distribot", projects: { "project-x": { topics: ["*"] } } });
      for (const topics of [to(name), to("EMB", name)])
        expect(guard.refusal("project-x", topics)).toMatchObject({
          code: "invalid_input",
          message: expect.stringContaining(`"${name}" cannot be a topic`),
        });
    }
    expect(rules().refusal("project-x", to("distribot.dead"))).toBeNull();
    expect(rules().refusal("project-x", to("rondo_CMD"))).toBeNull();
  });

  test("a project with listed topics may use those, its own names, and the receipt topics that follow from them", () => {
    const guard = rules({ projects: { lexi: { topics: ["LEXI_CMD_*", "SHARED"] } } });
    for (const topics of [to("LEXI_CMD_EMBED"), to("SHARED"), to("lexi_CMD"), to("SHARED", "lexi_RECEIPT")])
      expect(guard.refusal("lexi", topics)).toBeNull();
    for (const topics of [to("PAYMENTS_CMD"), to("LEXI_EMBED"), to("SHARED2"), to("SHARED", "PAYMENTS_CMD")])
      expect(guard.refusal("lexi", topics)).toMatchObject({
        code: "forbidden",
        hint: expect.stringContaining("projects.lexi.topics"),
      });
    expect(guard.refusal("another", to("PAYMENTS_CMD"))).toBeNull();
  });

  test("an empty list leaves a project its own names only", () => {
    const guard = rules({ projects: { lexi: { topics: [] } } });
    expect(guard.refusal("lexi", to("lexi_CMD"))).toBeNull();
    expect(guard.refusal("lexi", to("LEXI_CMD"))).toMatchObject({ code: "forbidden" });
  });

  test("a project that a token is bound to is guarded from then on, until the token is revoked", () => {
    const guard = rules();
    guard.bind(new Set(["attacker"]));
    expect(guard.refusal("attacker", to("PAYMENTS_CMD"))).toMatchObject({
      message: 'the project "attacker" may not use the topic "PAYMENTS_CMD": a token is bound to the project',
    });
    expect(guard.refusal("attacker", to("attacker_CMD"))).toBeNull();
    expect(guard.refusal("victim", to("PAYMENTS_CMD"))).toBeNull();
    guard.bind(new Set());
    expect(guard.refusal("attacker", to("PAYMENTS_CMD"))).toBeNull();
  });

  test("names of a guarded project whose name is longer are not those of the shorter one", () => {
    const guard = rules({ bound: new Set(["a", "a_b"]) });
    expect(guard.refusal("a", to("a_b_CMD"))).toMatchObject({ code: "forbidden" });
    expect(guard.refusal("a_b", to("a_b_CMD"))).toBeNull();
    expect(guard.refusal("a", to("a_bc_CMD"))).toBeNull();
    expect(rules({ bound: new Set(["a"]) }).refusal("a", to("a_b_CMD"))).toBeNull();
  });

  test("a receipt topic that follows from a topic is refused if it is a name of another project", () => {
    const guard = rules({
      bound: new Set(["att", "att_vic", "CMD", "RECEIPT"]),
      projects: { open: {}, lexi: { topics: ["att_vic", "CMD_*"] } },
    });
    for (const [project, topic] of [
      ["att", "att_vic"],
      ["CMD", "CMD_x"],
      ["lexi", "att_vic"],
      ["lexi", "CMD_x"],
    ] as const)
      expect(guard.refusal(project, to(topic))).toMatchObject({
        code: "forbidden",
        message: expect.stringContaining(`"${receiptTopicOf(topic)}"`),
      });
    expect(guard.refusal("att", to("att_vic", "att_RECEIPT"))).toBeNull();
    expect(rules({ bound: new Set(["CMD"]) }).refusal("CMD", to("CMD_x"))).toMatchObject({
      code: "forbidden",
    });
    expect(rules({ bound: new Set(["att"]) }).refusal("att", to("att_vic"))).toBeNull();
  });

  test("a project is not guarded by a name that every object has", () => {
    expect(rules().refusal("constructor", to("EMB"))).toBeNull();
  });
});

test("a pattern matches as the regular expression does that has .* for each star", () => {
  const text = (unit: string) => fc.string({ unit: fc.constantFrom(...unit), maxLength: 8 });
  fc.assert(
    fc.property(text("ab_*"), text("ab_"), (pattern, name) => {
      const expected = new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(name);
      expect(matchesTopic(pattern, name)).toBe(expected);
    }),
    { numRuns: 3_000 },
  );
});
