// The other guides, followed word by word.
import { test } from "vitest";
import { followPage } from "../fixtures/docs/follow-page-fixture.ts";
import { needCommand } from "../fixtures/need-command.ts";

const PAGES = [
  "guides/dynamic-tasks",
  "guides/scripts",
  "guides/children",
  "guides/limits-and-fairness",
  "guides/agents",
  "guides/browsers",
  "guides/coming-from",
  "guides/middleware",
  "guides/programs",
  "guides/deploys",
  "guides/testing",
  "post-operations",
  "protocol",
];

test.each(PAGES)("docs/%s.md", (name) => followPage(`docs/${name}.md`), 120_000);

const hasPython = needCommand("python3", "python3");

test.skipIf(!hasPython)(
  "docs/guides/python-workers.md",
  () => followPage("docs/guides/python-workers.md"),
  120_000,
);
