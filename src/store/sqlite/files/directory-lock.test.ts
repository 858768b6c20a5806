import { expect, test } from "vitest";
import { DirectoryOwned } from "../faults.ts";
import { claimInProcess, releaseInProcess } from "./directory-lock.ts";

test("one process uses a directory once at a time, whatever SQLite's own lock says", () => {
  claimInProcess("/nowhere/a");
  claimInProcess("/nowhere/b");
  expect(() => claimInProcess("/nowhere/a")).toThrow(DirectoryOwned);
  releaseInProcess("/nowhere/a");
  claimInProcess("/nowhere/a");
  releaseInProcess("/nowhere/a");
  releaseInProcess("/nowhere/b");
});
