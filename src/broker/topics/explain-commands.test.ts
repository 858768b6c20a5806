import { describe, expect, test } from "vitest";
import type { Inspection } from "../../engine/io.ts";
import type { QueueCounts } from "../../net/amqp/connection.ts";
import { type ExplainParts, explainCommands } from "./explain-commands.ts";

const QUEUED = { visit: 1, round: 1, task: 0, attempt: 1 };

/** The explanation of a command at the topic T, for these counts and parts. */
async function explain(
  parts: Partial<ExplainParts> & { readonly counts?: QueueCounts | null | Error },
  command: object = { queued: QUEUED },
) {
  const { counts } = parts;
  const count = async () => {
    if (counts instanceof Error) throw counts;
    return counts ?? null;
  };
  const { why, commands } = await explainCommands(
    {
      session: counts === undefined ? null : ({ counts: count } as never),
      isConfirmed: () => true,
      faultOf: () => null,
      lastConsumers: () => undefined,
      ...parts,
    },
    {
      why: "It waits.",
      commands: [{ topic: "T", procStatus: "RUNNING", ...command }],
    } as unknown as Inspection,
  );
  return { why, status: commands?.[0]?.procStatus };
}

describe("a command at a broker is RUNNING only when somebody may have it", () => {
  test("nobody consumes the topic and it waits there: PENDING, and the topic is named", async () => {
    expect(await explain({ counts: { ready: 2, consumers: 0 } })).toEqual({
      status: "PENDING",
      why: "It waits. No worker consumes the topic T at the broker; 2 messages wait there.",
    });
  });

  test("somebody consumes the topic: RUNNING", async () => {
    expect(await explain({ counts: { ready: 2, consumers: 1 } })).toEqual({
      status: "RUNNING",
      why: "It waits.",
    });
  });

  test("it is in no queue and nobody consumes: somebody may have got it", async () => {
    expect(await explain({ counts: { ready: 0, consumers: 0 } })).toEqual({
      status: "RUNNING",
      why: "It waits. No worker consumes the topic T at the broker; 0 messages wait there.",
    });
  });

  test("the broker has not confirmed it: PENDING, with what keeps it", async () => {
    const isConfirmed = () => false;
    expect(await explain({ isConfirmed, counts: { ready: 0, consumers: 1 } })).toEqual({
      status: "PENDING",
      why: "It waits. The topic T does not have the command yet.",
    });
    const { why } = await explain({ isConfirmed, faultOf: () => "403 ACCESS_REFUSED" });
    expect(why).toContain("does not have the command yet: 403 ACCESS_REFUSED");
  });

  test("without a connection: whoever consumed the topic before may have it", async () => {
    expect((await explain({ lastConsumers: () => 1 })).status).toBe("RUNNING");
    expect((await explain({ lastConsumers: () => undefined })).status).toBe("RUNNING");
    expect((await explain({ lastConsumers: () => 0 })).status).toBe("PENDING");
  });

  test("its queue is gone, or cannot be read: the sentence says so", async () => {
    expect((await explain({ counts: null })).why).toContain("is gone");
    expect((await explain({ counts: new Error("405") })).why).toContain("cannot be read");
  });

  test("a command that a worker holds elsewhere is not asked about", async () => {
    expect(await explain({ counts: { ready: 2, consumers: 0 } }, {})).toEqual({
      status: "RUNNING",
      why: "It waits.",
    });
  });
});
