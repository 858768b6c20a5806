// Guides that need nothing but Rondo, followed word by word.
import { test } from "vitest";
import { followPage } from "../fixtures/docs/follow-page-fixture.ts";

const PAGES = ["fan-out", "retries", "endings", "timers-and-signals", "talk", "events", "steps", "flows"];

test.each(PAGES)("docs/guides/%s.md", (name) => followPage(`docs/guides/${name}.md`), 120_000);
