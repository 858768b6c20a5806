// The first page, and those that explain, followed word by word.
import { test } from "vitest";
import { followPage } from "../fixtures/docs/follow-page-fixture.ts";

const PAGES = ["start", "explanation/one-execution", "explanation/ring"];

test.each(PAGES)("docs/%s.md", (name) => followPage(`docs/${name}.md`), 120_000);
