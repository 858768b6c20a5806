// Ids and tokens of attempts.
import { createHmac } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  attemptPrefix,
  checkToken,
  decodeAttempt,
  encodeAttempt,
  isSameToken,
  signAttempt,
} from "./attempt-id.ts";

const AT = {
  execution: "ex_1:a~b-c",
  phase: "resize",
  visit: 3,
  handler: "index",
  round: 2,
  task: 41,
  attempt: 1,
  claim: 7,
  epoch: 12,
};
const ID = "ex_1:a~b-c.resize.3.index.2.41.1.7.12";

describe("an attempt's id", () => {
  test("says everything that tells the attempt apart", () => {
    expect(encodeAttempt(AT)).toBe(ID);
    expect(decodeAttempt(ID)).toEqual(AT);
    expect(ID.startsWith(attemptPrefix(AT))).toBe(true);
  });

  test("of an enumeration has the task -1", () => {
    const at = { ...AT, task: -1 };
    expect(decodeAttempt(encodeAttempt(at))).toEqual(at);
  });

  test.each(["a/b", "a.b.1", "ä ö", "100%", "%2F", "日本語", "🚀", "..a", "x".repeat(200)])(
    "holds an execution's id whatever that is: %j",
    (execution) => {
      const at = { ...AT, execution };
      expect(encodeAttempt(at)).toMatch(/^[A-Za-z0-9_:~%-]+\.resize\.3\.index\.2\.41\.1\.7\.12$/);
      expect(decodeAttempt(encodeAttempt(at))).toEqual(at);
    },
  );

  test.each([
    "",
    "ex_1",
    `${ID}.1`,
    ID.slice(0, -2),
    ID.replace(".41.", ".041."),
    ID.replace(".41.", ".-2."),
    ID.replace(".41.", ".4e1."),
    ID.replace(".41.", ". 41."),
    ID.replace(".3.", ".-1."),
    ID.replace("resize", "re/size"),
    ID.replace("resize", "1st"),
    ID.replace("ex_1", "../x"),
    ID.replace(".12", ".9999999999999999"),
    `${"x".repeat(1_100)}${ID}`,
    ID.replace("ex_1", "a%2fb"),
    ID.replace("ex_1", "%41"),
    ID.replace("ex_1", "ä"),
    `${ID}\n`,
  ])("is read strictly: %j is none", (text) => {
    expect(decodeAttempt(text)).toBeNull();
  });
});

describe("an attempt's token", () => {
  test("is the HMAC-SHA256 of its id, base64url", () => {
    expect(signAttempt("k", ID)).toBe(createHmac("sha256", "k").update(ID).digest("base64url"));
  });

  test("fits this id and this key only", () => {
    const token = signAttempt("k", ID);
    expect(checkToken("k", ID, token)).toBe(true);
    expect(checkToken("k", ID.replace(".41.", ".42."), token)).toBe(false);
    expect(checkToken("other", ID, token)).toBe(false);
  });

  test("is compared whole", () => {
    const token = signAttempt("k", ID);
    for (const wrong of ["", token.slice(0, -1), `${token}A`, token.toLowerCase(), `\u0000${token.slice(1)}`])
      expect(isSameToken(token, wrong)).toBe(false);
    expect(isSameToken(token, `${token}`)).toBe(true);
  });
});
