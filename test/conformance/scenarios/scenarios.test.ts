// Every transcript in this folder, replayed. UPDATE=1 writes what came instead; then review the diff.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { replayTranscript } from "../../fixtures/kernel/transcript-fixture.ts";

const folder = new URL("./", import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith(".txt"));

test.each(files)("%s", (name) => {
  const file = new URL(name, folder);
  const written = readFileSync(file, "utf8");
  const played = replayTranscript(written);
  const isUpdate = process.env["UPDATE"] === "1";
  if (isUpdate) writeFileSync(file, played);
  expect(isUpdate ? written : played).toBe(written);
});

test("there are transcripts, and each has something expected in every block", () => {
  expect(files.length).toBeGreaterThan(5);
  for (const name of files) {
    const blocks = readFileSync(new URL(name, folder), "utf8").trimEnd().split("\n\n");
    for (const block of blocks.filter((text) => !text.split("\n").every((line) => line.startsWith("#"))))
      expect(`${name}\n${block}`).toMatch(/\n----\n./);
  }
});
