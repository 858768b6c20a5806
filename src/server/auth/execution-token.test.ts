import { describe, expect, test } from "vitest";
import { successorId } from "../../kernel/definition/successor-id.ts";
import { type ExecutionGrant, isFor, readExecutionToken, writeExecutionToken } from "./execution-token.ts";
import { sign } from "./secrets.ts";

const KEY = "k".repeat(64);
const grant: ExecutionGrant = {
  execution: "order/7 (Müller)",
  project: "books",
  scopes: ["read", "signal"],
  expiresAt: 2_000,
  by: "01jc",
};

describe("a token for one execution", () => {
  test("gives back the rights that it was made with, until it expires", () => {
    const text = writeExecutionToken(KEY, grant);
    expect(text).toMatch(/^[\x21-\x7e]+$/);
    expect(readExecutionToken(KEY, text, 1_999)).toEqual(grant);
    expect(readExecutionToken(KEY, text, 2_000)).toBe(null);
    const unbound = { ...grant, by: null };
    expect(readExecutionToken(KEY, writeExecutionToken(KEY, unbound), 0)).toEqual(unbound);
  });

  test("fits into a bearer header with the longest id", () => {
    const longest = { ...grant, execution: "ü".repeat(100), project: "p".repeat(40), by: "b".repeat(40) };
    const scopes = ["read", "history", "signal", "update", "cancel"] as const;
    expect(writeExecutionToken(KEY, { ...longest, scopes, expiresAt: 9e12 }).length).toBeLessThanOrEqual(500);
  });

  test("is void with another key, a changed part, or a signature for another use", () => {
    const text = writeExecutionToken(KEY, grant);
    const [, content = ""] = text.split(".");
    const more = Buffer.from(content, "base64url").toString().replace("read", "cancel");
    const changed = Buffer.from(more).toString("base64url");
    const signature = text.slice(text.lastIndexOf(".") + 1);
    for (const forged of [
      writeExecutionToken("x".repeat(64), grant),
      `rondo_x.${changed}.${signature}`,
      `rondo_x.${content}.${sign(KEY, "session", content)}`,
      `rondo_x.${content}.`,
      `rondo_x.${content}`,
      "rondo_x..",
      "rondo_x.",
    ])
      expect(readExecutionToken(KEY, forged, 0), forged).toBe(null);
  });

  test("is for its execution and for those that continue it", () => {
    for (const execution of ["order-7", "o".repeat(199)]) {
      for (const n of [1, 2, 3, 10, 1_000_000])
        expect(isFor({ execution }, successorId(execution, n))).toBe(true);
      // The first one has this name beside its own.
      expect(isFor({ execution }, `${execution}~1`)).toBe(true);
      const others = [
        `${execution.slice(0, 5)}8`,
        `${execution}~02`,
        `${execution}~1794700800000`,
        `${execution}~0123456789abcdef01234567`,
        `${execution}~012345678901234567890123`,
        `${execution}~2~2`,
        `x${execution}~2`,
        "~2",
      ];
      for (const other of others) expect(isFor({ execution }, other), other).toBe(false);
    }
    expect(isFor({ execution: "a~2" }, "a~2")).toBe(true);
    for (const other of ["a", "a~3", "a~2~2"]) expect(isFor({ execution: "a~2" }, other)).toBe(false);
  });
});
