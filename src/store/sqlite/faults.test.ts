import { expect, test } from "vitest";
import { Bug } from "../../std/assert.ts";
import { StoreFault } from "../store.ts";
import { SqliteError } from "./driver.ts";
import { DirectoryOwned, DiskFailed, faultOf, fromReport, StoreUnreadable, toReport } from "./faults.ts";

const classify = (code: number, writing: boolean) =>
  faultOf(new SqliteError("said SQLite", code), { file: "x.db", writing });

test.each([
  ["SQLITE_FULL", 13, true, { name: "StoreFault", retryable: true, nothingWritten: true }],
  ["SQLITE_IOERR_FSYNC", 1_034, true, { name: "DiskFailed", retryable: false, nothingWritten: false }],
  ["SQLITE_IOERR_DIR_FSYNC", 1_290, true, { name: "DiskFailed", retryable: false, nothingWritten: false }],
  ["SQLITE_IOERR_WRITE", 778, true, { name: "DiskFailed", retryable: false, nothingWritten: false }],
  ["SQLITE_IOERR_READ", 266, false, { name: "StoreFault", retryable: true, nothingWritten: true }],
  ["SQLITE_CORRUPT_INDEX", 779, false, { name: "StoreUnreadable", reason: "damaged" }],
  ["SQLITE_NOTADB", 26, true, { name: "StoreUnreadable", reason: "damaged" }],
  ["SQLITE_BUSY", 5, true, { name: "StoreFault", retryable: true, nothingWritten: true }],
  ["SQLITE_READONLY_DIRECTORY", 1_544, true, { name: "StoreFault", retryable: false, nothingWritten: true }],
])("%s is told apart", (_name, code, writing, expected) => {
  expect(classify(code, writing)).toMatchObject(expected);
});

test("an error that is not the world's stays what it is", () => {
  const error = new Error("mine");
  expect(faultOf(error, { file: "x.db", writing: true })).toBe(error);
  expect(classify(19, true)).toBeInstanceOf(SqliteError);
});

test.each([
  new DirectoryOwned("/d", { pid: 1, startedAt: 2, listening: "http://localhost:1" }),
  new StoreUnreadable("x.db", { reason: "newer", what: "was written by a newer Rondo" }),
  new DiskFailed("the disk failed"),
  new StoreFault("full", { retryable: true, nothingWritten: true }),
])("$name is the same on the other side of the thread", (error) => {
  const there = fromReport(structuredClone(toReport(error)));
  expect(there).toEqual(error);
  expect(there.constructor).toBe(error.constructor);
});

test("an unexpected error crosses as a bug, with its trace", () => {
  const error = fromReport(toReport(new TypeError("x is not a function")));
  expect(error).toBeInstanceOf(Bug);
  expect(error.message).toContain("faults.test.ts");
});
