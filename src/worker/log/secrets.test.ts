// Values that must not be seen.
import { describe, expect, test } from "vitest";
import { linesOf, showParts } from "./log-text.ts";
import { Secrets } from "./secrets.ts";

describe("secrets", () => {
  test("are redacted wherever they stand, as often as they stand there", () => {
    const secrets = new Secrets(["hunter2", "s3cr3t"]);
    expect(secrets.redact("hunter2 and xhunter2y and s3cr3t")).toBe(
      "[redacted] and x[redacted]y and [redacted]",
    );
  });

  test("that are a part of another do not leave the rest of it", () => {
    expect(new Secrets(["token", "token-long"]).redact("token-long token")).toBe("[redacted] [redacted]");
  });

  test.each(["a.*b+c", "(x|y)[z]", "\\d{4}$^", "a/b-c", "$&$1"])("may look like a pattern: %s", (value) => {
    const secrets = new Secrets([value]);
    expect(secrets.redact(`<${value}>`)).toBe("<[redacted]>");
    expect(secrets.redact("a..b+c")).toBe("a..b+c");
  });

  test("are found as they stand in JSON and in objects that are shown", () => {
    const secrets = new Secrets(['pa"ss\nword', "-----BEGIN KEY-----\nMIIabcdefgh\nend"]);
    const log = (...parts: unknown[]) => linesOf(showParts(parts), secrets).join("\n");
    expect(log(JSON.stringify({ p: 'pa"ss\nword' }))).toBe('{"p":"[redacted]"}');
    expect(log({ key: "-----BEGIN KEY-----\nMIIabcdefgh\nend" })).not.toContain("MII");
    expect(log("it is -----BEGIN KEY-----\nMIIabcdefgh\nend!")).toBe("it is [redacted]!");
  });

  test("are redacted before a line is cut, so no half of one is left", () => {
    const secrets = new Secrets(["hunter2hunter2"]);
    const [line = ""] = linesOf(`${"x".repeat(8_140)}hunter2hunter2${"y".repeat(100)}`, secrets);
    expect(line).not.toContain("hunt");
  });

  test.each<unknown>(["abc", "", 1234, null, undefined, {}])("%j is none", (value) => {
    expect(() => new Secrets([value as string])).toThrow(/at least 4 characters/);
    expect(() => new Secrets().add(value as string)).toThrow(/at least 4 characters/);
  });

  test("what is thrown about one does not hold it", () => {
    expect(() => new Secrets(["abc"])).toThrow(expect.not.objectContaining({ message: /abc/ }) as Error);
  });

  test("that tasks bring are bounded: the oldest is forgotten, given ones never", () => {
    const secrets = new Secrets(["given-one"]);
    for (let i = 0; i < 1_001; i++) secrets.add(`brought-${i}.`);
    expect(secrets.redact("given-one")).toBe("[redacted]");
    expect(secrets.redact("brought-0.")).toBe("brought-0.");
    expect(secrets.redact("brought-1.")).toBe("[redacted]");
    secrets.add("brought-1.");
    secrets.add("brought-new");
    expect(secrets.redact("brought-1. brought-2.")).toBe("[redacted] brought-2.");
  });

  test("in a JSON text go from texts and keys, and it stays JSON", () => {
    const secrets = new Secrets(['qu"ote', "hunter2"]);
    const json = JSON.stringify({ message: 'bad qu"ote', list: ["hunter2", 1, null], hunter2: true });
    expect(JSON.parse(secrets.redactJson(json))).toEqual({
      message: "bad [redacted]",
      list: ["[redacted]", 1, null],
      "[redacted]": true,
    });
  });

  test("without any, texts are left alone", () => {
    const secrets = new Secrets();
    expect(secrets.isEmpty).toBe(true);
    expect(secrets.redact("x")).toBe("x");
    expect(secrets.redactJson("{ }")).toBe("{ }");
  });
});
