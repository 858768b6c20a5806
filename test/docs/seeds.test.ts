// docs/seeds.md has every statement of the five source documents, with a verdict, and evidence that is there: a test by its
// file and a part of its title, or a page with its heading.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = new URL("../..", import.meta.url).pathname;
const PAGE = readFileSync(join(ROOT, "docs/seeds.md"), "utf8");
const STATEMENTS = [57, 30, 46, 54, 40];
const VERDICTS = ["as written", "differs", "partly", "missing"];

interface Row {
  readonly id: string;
  readonly verdict: string;
  readonly how: string;
  readonly evidence: string;
}

function rowsOf(page: string): Row[] {
  return [...page.matchAll(/^\| (\d\.\d\d) \| (.+) \|$/gm)].map(([, id = "", rest = ""]) => {
    const [, verdict = "", how = "", evidence = ""] = rest.split(" | ").map((cell) => cell.trim());
    return { id, verdict, how, evidence };
  });
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(file: string): string[] {
  return [...readFileSync(file, "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** What is wrong with the evidence of a row; empty if nothing is. */
function complaints(evidence: string): string[] {
  const tests = [...evidence.matchAll(/`((?:src|test)\/[^:`]+\.test\.ts): ((?:[^`]|`[^`,]+`)+?)`(?=, |$)/g)];
  const links = [...evidence.matchAll(/\[[^\]]+\]\(([^)#]+)(?:#([^)]+))?\)/g)];
  if (tests.length + links.length === 0) return ["it names neither a test nor a page"];
  const rest = [...tests, ...links].reduce((text, [match]) => text.replace(match, ""), evidence);
  const wrong: string[] = /[^, ]/.test(rest) ? [`it has something that is no evidence: ${rest}`] : [];
  for (const [, file = "", title = ""] of tests) {
    const path = join(ROOT, file);
    if (!existsSync(path)) wrong.push(`${file} does not exist`);
    else if (!readFileSync(path, "utf8").includes(title)) wrong.push(`${file} has no "${title}"`);
  }
  for (const [, page = "", anchor] of links) {
    const path = join(ROOT, "docs", page);
    if (!existsSync(path)) wrong.push(`${page} does not exist`);
    else if (anchor !== undefined && !anchorsOf(path).includes(anchor))
      wrong.push(`${page} has no #${anchor}`);
  }
  return wrong;
}

test("every statement is there once, in order", () => {
  const wanted = STATEMENTS.flatMap((count, document) =>
    Array.from({ length: count }, (_, i) => `${document}.${String(i + 1).padStart(2, "0")}`),
  );
  expect(rowsOf(PAGE).map(({ id }) => id)).toEqual(wanted);
});

test("every row has a verdict, and a reason unless it is as written", () => {
  for (const { id, verdict, how } of rowsOf(PAGE)) {
    expect(VERDICTS, id).toContain(verdict);
    if (verdict !== "as written") expect(how, id).not.toBe("");
  }
});

test("the evidence of every row exists", () => {
  const wrong = rowsOf(PAGE).flatMap(({ id, evidence }) =>
    complaints(evidence).map((why) => `${id}: ${why}`),
  );
  expect(wrong).toEqual([]);
});

test("evidence that is not there is noticed", () => {
  expect(complaints("`test/docs/seeds.test.ts: every statement is there once`")).toEqual([]);
  expect(complaints("`test/docs/nowhere.test.ts: x`")).toEqual(["test/docs/nowhere.test.ts does not exist"]);
  expect(complaints(`\`test/docs/seeds.test.ts: ${["no", "title"].join(" such ")}\``)).toHaveLength(1);
  expect(complaints("[requests](protocol.md#nowhere)")).toEqual(["protocol.md has no #nowhere"]);
  expect(complaints("[requests](protocol.md#requests), somewhere")).toHaveLength(1);
  expect(complaints("somewhere")).toEqual(["it names neither a test nor a page"]);
});

test("the counts are those of the rows", () => {
  const rows = rowsOf(PAGE);
  const countsOf = (of: readonly Row[]) => [
    ...VERDICTS.map((verdict) => of.filter((row) => row.verdict === verdict).length),
    of.length,
  ];
  for (const document of [0, 1, 2, 3, 4]) {
    const counts = countsOf(rows.filter(({ id }) => id.startsWith(`${document}.`)));
    expect(PAGE).toContain(`| 00${document} | ${counts.join(" | ")} |`);
  }
  expect(PAGE).toContain(`| all | ${countsOf(rows).join(" | ")} |`);
});
