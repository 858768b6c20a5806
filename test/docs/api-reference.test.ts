// docs/api.md has every route of the OpenAPI document. After a change: UPDATE_REFERENCE=1 npx vitest run test/docs/api-reference.test.ts
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../fixtures/docs/page-fixture.ts";
import { type OpenApi, operationsOf } from "../fixtures/server/api-document.ts";
import { serve } from "../fixtures/server/api-fixture.ts";

const FILE = join(ROOT, "docs/api.md");

test("every route is there, with who may ask and what it does", async () => {
  const wanted = describe(await (await serve()).document());
  const pattern = /<!-- routes -->[\s\S]*<!-- \/routes -->/;
  if (process.env["UPDATE_REFERENCE"] === "1")
    writeFileSync(
      FILE,
      readFileSync(FILE, "utf8").replace(pattern, () => wanted),
    );
  expect(pattern.exec(readFileSync(FILE, "utf8"))?.[0]).toBe(wanted);
  expect(wanted.split("\n").length).toBeGreaterThan(60);
});

function describe(document: OpenApi): string {
  const operations = operationsOf(document);
  const tags = [...new Set(operations.flatMap(({ operation }) => operation.tags))].toSorted();
  const parts = tags.map((tag) => {
    const rows = operations
      .filter(({ operation }) => operation.tags[0] === tag)
      .map(({ method, path, operation }) => {
        const asks = (operation.parameters ?? [])
          .filter((one) => one.in === "query")
          .map(({ name }) => `\`${name}\``);
        const about = `${operation.summary}${asks.length === 0 ? "" : `; by ${asks.join(", ")}`}`;
        return `| \`${method.toUpperCase()} ${path}\` | ${roleOf(operation.description)} | ${about} |`;
      });
    return [`## ${tag}`, "", "| route | who | what |", "|---|---|---|", ...rows, ""].join("\n");
  });
  return `<!-- routes -->\n${parts.join("\n")}<!-- /routes -->`;
}

function roleOf(description = ""): string {
  const needs = /Needs (?:the role )?(.+)\.$/.exec(description)?.[1] ?? "";
  return needs
    .replace("no token", "everybody")
    .replace("a token of any role", "any role")
    .replace(", as a bearer", "");
}
