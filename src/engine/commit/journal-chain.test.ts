import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { extendChain } from "./journal-chain.ts";

test.each([10, 5_000, 100_000])(
  "the chain covers all rows of a write, also rows of %i characters",
  (chars) => {
    const rows = ["\u00e9".repeat(chars), "y".repeat(chars)].map((body, i) => ({
      seq: i + 1,
      count: 1,
      at: 0,
      body,
    }));
    const text = `before${rows.map(({ seq, body }) => `\n${seq} ${body}`).join("")}`;
    const expected = createHash("sha256").update(text).digest("hex").slice(0, 32);
    expect(extendChain("before", rows)).toBe(expected);
    expect(extendChain("before", [])).toBe("before");
  },
);
