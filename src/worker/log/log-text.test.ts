// Logged values as lines of text.
import { describe, expect, test } from "vitest";
import { LOG_LINE_BYTES, linesOf, showParts } from "./log-text.ts";
import { Secrets } from "./secrets.ts";

const none = new Secrets();
const lines = (...parts: unknown[]) => linesOf(showParts(parts), none);
const bytes = (text: string) => Buffer.byteLength(text);

describe("values", () => {
  test.each<[string, unknown[], string[]]>([
    ["a text is itself", ["hello"], ["hello"]],
    ["an empty text is an empty line", [""], [""]],
    ["nothing at all is an empty line", [], [""]],
    ["several are joined by spaces", ["a", 1, true, null, undefined], ["a 1 true null undefined"]],
    ["objects are shown", [{ a: [1, { b: "c" }] }], ["{ a: [ 1, { b: 'c' } ] }"]],
    ["format directives mean nothing", ["%s", 1], ["%s 1"]],
  ])("%s", (_what, parts, expected) => {
    expect(lines(...parts)).toEqual(expected);
  });

  test("an error is shown with its stack, and its cause's", () => {
    const shown = lines(new Error("outer", { cause: new Error("inner") }));
    expect(shown[0]).toBe("Error: outer");
    expect(shown[1]).toMatch(/^ +at /);
    expect(shown.join("\n")).toContain("Error: inner");
  });

  test("a value that throws when it is looked at is no reason to fail", () => {
    const hostile = new Proxy(
      {},
      {
        getPrototypeOf() {
          throw new Error("no");
        },
      },
    );
    expect(lines("see", hostile)).toEqual(["see [a value that cannot be shown]"]);
  });

  test("an object of very many members shows some, and how many there are more", () => {
    const wide = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`k${i}`, i]));
    const shown = lines(wide).join("\n");
    expect(shown).toContain("k499: 499");
    expect(shown).not.toContain("k500:");
    expect(shown).toContain("99500 more");
  });
});

describe("lines", () => {
  test.each<[string, string, string[]]>([
    ["several in one text", "a\nb\r\nc", ["a", "b", "c"]],
    ["a line feed at the end begins none", "a\n", ["a"]],
    ["empty ones in between stay", "a\n\nb", ["a", "", "b"]],
    ["progress that overwrites itself is its last word", "10%\r50%\r100%", ["100%"]],
    ["also where a carriage return ends it", "10%\r50%\r", ["50%"]],
    ["in each line for itself", "1\r2\n3\r4\n", ["2", "4"]],
    ["colours are taken out", "\u001b[31mred\u001b[0m \u001b[1;4mbold\u001b[m", ["red bold"]],
    ["links and titles too", "\u001b]8;;http://x\u0007text\u001b]8;;\u0007", ["text"]],
    ["escapes of eight bits, bells and NUL too", "a\u009b31mb c\u0007\u0000d\u007fe", ["ab cde"]],
    ["an escape that is none loses its teeth", "a\u001b", ["a"]],
    ["a tab stays", "a\tb", ["a\tb"]],
    ["a lone surrogate is replaced", "a\ud800b", ["a\ufffdb"]],
  ])("%s", (_what, text, expected) => {
    expect(lines(text)).toEqual(expected);
  });

  test("C12 a line over the limit is cut with a notice, the following ones are intact", () => {
    const [cut, next] = lines(`${"x".repeat(9_000)}\nnext`);
    expect(cut).toMatch(/^x{8000,}… \[cut: \d+ bytes more\]$/);
    expect(bytes(cut ?? "")).toBeLessThanOrEqual(LOG_LINE_BYTES);
    const kept = (cut ?? "").indexOf("…");
    expect(cut).toContain(`[cut: ${9_000 - kept} bytes more]`);
    expect(next).toBe("next");
  });

  test("exactly at the limit nothing is cut", () => {
    expect(lines("x".repeat(LOG_LINE_BYTES))).toEqual(["x".repeat(LOG_LINE_BYTES)]);
    expect(lines("é".repeat(LOG_LINE_BYTES / 2))[0]).not.toContain("cut");
    expect(lines(`${"é".repeat(LOG_LINE_BYTES / 2)}x`)[0]).toContain("cut");
  });

  test.each(["é", "€", "😀"])("%s is never cut in the middle", (character) => {
    for (const shift of ["", "x", "xx", "xxx"]) {
      const [cut = ""] = lines(shift + character.repeat(5_000));
      expect(cut.isWellFormed()).toBe(true);
      expect(cut).not.toContain("\ufffd");
      expect(bytes(cut)).toBeLessThanOrEqual(LOG_LINE_BYTES);
      const kept = cut.slice(0, cut.indexOf("…"));
      expect(cut).toContain(`[cut: ${bytes(shift + character.repeat(5_000)) - bytes(kept)} bytes more]`);
    }
  });

  test("a text of many megabytes is looked at only so far, and its notice counts it all", () => {
    const [cut = "", ...others] = lines("x".repeat(20_000_000));
    expect(others).toEqual([]);
    const kept = cut.indexOf("…");
    expect(cut).toContain(`[cut: ${20_000_000 - kept} bytes more]`);
  });
});
