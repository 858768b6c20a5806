import { expect, test } from "vitest";
import { StoreFault } from "../store.ts";
import { connectFault, DatabaseUnusable, faultOf, garbled, isGarbled, UnreadableValue } from "./faults.ts";

/** An error as the driver gives it. */
const ofServer = (code: string, severity = "ERROR") =>
  Object.assign(new Error("the server's words"), { code, severity });
const ofSystem = (code: string) => Object.assign(new Error(`connect ${code}`), { code, syscall: "connect" });

const WRITING = { sent: true, writes: true };

const ERRORS: [what: string, error: Error, retryable: boolean, nothingWritten: boolean, words: string][] = [
  ["a full disk", ofServer("53100"), true, true, "disk is full"],
  ["too many connections", ofServer("53300", "FATAL"), true, true, "no free connections"],
  ["a standby", ofServer("25006"), true, true, "standby"],
  ["a timeout", ofServer("57014"), true, true, "too long"],
  ["a deadlock", ofServer("40P01"), true, true, "busy"],
  ["a lock that is not had", ofServer("55P03"), true, true, "busy"],
  ["an error of the server's disk", ofServer("58030"), true, true, "see its log"],
  ["a wrong password", ofServer("28P01", "FATAL"), false, true, "check the URL"],
  ["no such database", ofServer("3D000", "FATAL"), false, true, "create it"],
  ["a missing right", ofServer("42501"), false, true, "grant"],
  ["a schema that may not be used", ofServer("3F000"), false, true, "may not access it"],
  ["a schema that was dropped", ofServer("42883"), false, true, "dropped"],
  ["a shutdown", ofServer("57P01", "FATAL"), true, false, "not known"],
  ["a crash of another backend", ofServer("57P02", "FATAL"), true, false, "not known"],
  ["a panic", ofServer("XX000", "PANIC"), true, false, "not known"],
  ["a cut connection", new Error("Connection terminated unexpectedly"), true, false, "not known"],
  ["a refused connection", ofSystem("ECONNREFUSED"), true, false, "cannot be reached"],
  ["a reset connection", ofSystem("ECONNRESET"), true, false, "cannot be reached"],
];

test.each(ERRORS)("%s, while a write is under way", (...[, error, retryable, nothingWritten, words]) => {
  const fault = faultOf(error, WRITING);
  expect(fault).toBeInstanceOf(StoreFault);
  expect(fault).toMatchObject({ retryable, nothingWritten, cause: error });
  expect(String(fault)).toContain(words);
});

test.each([
  ["that only reads", { sent: true, writes: false }],
  ["that was not sent", { sent: false, writes: true }],
])("a connection lost under a statement %s leaves nothing unknown", (_which, attempted) => {
  const fault = faultOf(new Error("Connection terminated unexpectedly"), attempted);
  expect(fault).toMatchObject({ retryable: true, nothingWritten: true });
});

test("several addresses that all refuse are told by the first", () => {
  const error = Object.assign(new AggregateError([new Error("one"), new Error("two")], ""), {
    code: "ECONNREFUSED",
  });
  expect(String(faultOf(error, WRITING))).toContain("one");
});

test.each([
  [
    "a password that is missing",
    new Error("SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string"),
  ],
  ["a port that is none", Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL" })],
  ["TLS that is not offered", new Error("The server does not support SSL connections")],
  [
    "a certificate that is not trusted",
    Object.assign(new Error("self-signed certificate"), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" }),
  ],
])("%s is told with what to check, not taken for a bug", (_what, error) => {
  const fault = connectFault(error);
  expect(fault).toMatchObject({ retryable: false, nothingWritten: true, cause: error });
  expect(fault.message).toContain(error.message);
  expect(fault.message).toContain("check the URL");
});

test("a server that cannot be reached is so when connecting, too", () => {
  expect(connectFault(ofSystem("ECONNREFUSED"))).toMatchObject({ retryable: true, nothingWritten: true });
});

test("another generation is a restored database, which no retry will help", () => {
  const fault = faultOf(ofServer("RO001"), WRITING);
  expect(fault).toBeInstanceOf(DatabaseUnusable);
  expect(fault).toMatchObject({ reason: "restored", retryable: false, nothingWritten: true });
});

test.each([
  ["a violated constraint", ofServer("23505")],
  ["wrong SQL", ofServer("42703")],
  ["an error of our own", new TypeError("x is not a function")],
])("%s is no fault of the world", (_what, error) => {
  expect(faultOf(error, WRITING)).toBe(error);
});

test.each([
  ["a corrupted page or large value", ofServer("XX001")],
  ["a corrupted index", ofServer("XX002")],
  ["bytes that are not in the encoding", ofServer("22021")],
  [
    "a value with a wrong length",
    Object.assign(ofServer("XX000"), { message: "invalid memory alloc request size 18446744073709551613" }),
  ],
])("%s is a value that cannot be read, and no reason to give the connection up", (_what, error) => {
  for (const attempted of [WRITING, { sent: true, writes: false }]) {
    const fault = faultOf(error, attempted);
    expect(fault).toBeInstanceOf(UnreadableValue);
    expect(fault).toMatchObject({ retryable: true, nothingWritten: true });
    expect((fault as UnreadableValue).why).toContain(error.message);
  }
  expect(isGarbled(error)).toBe(false);
});

test("faults that pass are not taken for values that cannot be read", () => {
  const others = ["XX000", "58030", "53100", "53200", "40001", "40P01", "55P03", "57014", "57P01", "08006"];
  for (const code of others) {
    const fault = faultOf(ofServer(code), WRITING);
    expect(fault).toBeInstanceOf(StoreFault);
    expect(fault).not.toBeInstanceOf(UnreadableValue);
  }
});

test("an error that nobody knows is of a garbled connection, which is given up", () => {
  for (const error of [ofServer("42601"), ofServer("26000"), new RangeError("out of range")]) {
    expect(isGarbled(error)).toBe(true);
    const fault = garbled(error, WRITING);
    expect(fault.retryable).toBe(true);
    expect(fault.nothingWritten).toBe("severity" in error);
  }
  for (const error of [
    ofServer("53100"),
    ofServer("57P01", "FATAL"),
    ofSystem("ECONNRESET"),
    new StoreFault("x", { retryable: true, nothingWritten: true }),
  ])
    expect(isGarbled(error)).toBe(false);
});
