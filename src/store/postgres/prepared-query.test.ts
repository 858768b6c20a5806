import type pg from "pg";
import { expect, test } from "vitest";
import { type Answer, type Columns, encodeRequest, PreparedQuery, parserOf } from "./prepared-query.ts";

const INT8 = 20;
const TEXT = 25;

/** A connection that keeps what is sent. */
class Sent {
  readonly parsedStatements: Record<string, string> = {};
  readonly parsed: string[] = [];
  readonly written: Buffer[] = [];
  readonly stream = {
    write: (bytes: Buffer) => this.written.push(bytes) > 0,
    cork: () => {},
    uncork: () => {},
  };
  parse({ text }: { text: string }): void {
    this.parsed.push(text);
  }
}

const KNOWN: Columns = { types: "20,25", parsers: [parserOf(INT8), parserOf(TEXT)] };
const FIELDS = { fields: [{ dataTypeID: INT8 }, { dataTypeID: TEXT }] };

/** A query that was sent over a connection that has prepared its statement. */
function asked(columns: Columns | null, { isPrepared = true, hasFirst = false } = {}) {
  const sent = new Sent();
  if (isPrepared) sent.parsedStatements["s"] = "SELECT";
  const first = hasFirst ? { name: "f", values: [2] } : undefined;
  const query = new PreparedQuery({ name: "s", text: "SELECT", values: [1, null], columns, first });
  const ends: (Error | Answer | null)[] = [];
  query.callback = (error, answer) => ends.push(error ?? answer);
  query.submit(sent as unknown as pg.Connection);
  return { query, sent, ends };
}

test("a request has the values as texts, and asks for the columns only if `describes` is set", () => {
  const request = encodeRequest([{ name: "name", values: ["é", 12, true, null] }], false).toString("latin1");
  expect(request).toBe(
    "B\0\0\0(\0name\0\0\0\0\x04\0\0\0\x02\xc3\xa9\0\0\0\x0212\0\0\0\x04true\xff\xff\xff\xff\0\0" +
      "E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04",
  );
  expect(encodeRequest([{ name: "name", values: ["é", 12, true, null] }], true).toString("latin1")).toBe(
    request.replace("E\0\0\0\x09", "D\0\0\0\x06P\0E\0\0\0\x09"),
  );
});

test("long values of any characters are sent whole", () => {
  for (const text of ["€".repeat(100), "€".repeat(101), "\u{1f600}".repeat(5_000), "x".repeat(300_000)]) {
    const request = encodeRequest([{ name: "s", values: [text, "end"] }], false);
    expect(request.indexOf(Buffer.from(text))).toBeGreaterThan(0);
    expect(request.subarray(-15 - 2 - 3, -15 - 2).toString()).toBe("end");
  }
});

test("two calls are one request with all values before the first execution; the columns of the second are described", () => {
  const [first, second] = [
    { name: "a", values: [1] },
    { name: "b", values: ["x"] },
  ] as const;
  expect(encodeRequest([first, second], true).toString("latin1")).toBe(
    "B\0\0\0\x13" +
      "0\0a\0\0\0\0\x01\0\0\0\x011\0\0" +
      "B\0\0\0\x12\0b\0\0\0\0\x01\0\0\0\x01x\0\0" +
      "D\0\0\0\x06P\0" +
      "E\0\0\0\x0a" +
      "0\0\0\0\0\0" +
      "E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04",
  );
});

test("a statement is prepared once, and then describes its columns", () => {
  const { query, sent, ends } = asked(KNOWN, { isPrepared: false });
  expect(sent.parsed).toEqual(["SELECT"]);
  query.handleRowDescription(FIELDS);
  query.handleDataRow({ fields: ["5", "a"] });
  query.handleCommandComplete({ text: "SELECT 1" });
  query.handleReadyForQuery();
  expect(ends).toMatchObject([{ rows: [[5, "a"]], described: { types: "20,25" } }]);
  expect(asked(KNOWN).sent.parsed).toEqual([]);
});

test("known columns are not described again", () => {
  const { query, ends } = asked(KNOWN);
  query.handleDataRow({ fields: ["5", null] });
  query.handleDataRow({ fields: ["6", "b"] });
  query.handleCommandComplete({ text: "SELECT 2" });
  query.handleReadyForQuery();
  expect(ends).toEqual([
    {
      rows: [
        [5, null],
        [6, "b"],
      ],
      described: null,
    },
  ]);
});

test("a statement without columns returns no rows, whatever it counts", () => {
  const { query, ends } = asked(null);
  query.handleCommandComplete({ text: "INSERT 0 7" });
  query.handleReadyForQuery();
  expect(ends).toMatchObject([{ rows: [], described: { types: "" } }]);
});

test("an error of the server ends the query", () => {
  const { query, ends } = asked(KNOWN);
  const error = new Error("of the server");
  query.handleError(error);
  expect(ends).toEqual([error]);
});

const MISFITS: [what: string, send: (query: PreparedQuery) => void, words: string][] = [
  ["a row too few", (query) => query.handleCommandComplete({ text: "SELECT 1" }), "0 rows were returned"],
  [
    "a value too many",
    (query) => {
      query.handleDataRow({ fields: ["1", "a", "b"] });
      query.handleCommandComplete({ text: "SELECT 1" });
    },
    "a row of 3 values",
  ],
  ["no end", () => {}, "ended a statement with null"],
  ["a garbled end", (query) => query.handleCommandComplete({ text: "SELE\x01T 0" }), "ended a statement"],
  [
    "two ends",
    (query) => {
      query.handleCommandComplete({ text: "SELECT 0" });
      query.handleCommandComplete({ text: "SELECT 0" });
    },
    "a second end",
  ],
  ["columns again", (query) => query.handleRowDescription(FIELDS), "a description of columns"],
  ["a suspended result", (query) => query.handlePortalSuspended(), "a suspended result"],
  ["an empty query", (query) => query.handleEmptyQuery(), "an empty query"],
  ["a copy in", (query) => query.handleCopyInResponse(), "a request for data"],
  ["a copy out", (query) => query.handleCopyData(), "copied data"],
];

test.each(MISFITS)("an answer with %s is refused", (_, send, words) => {
  const { query, ends } = asked(KNOWN);
  send(query);
  query.handleReadyForQuery();
  expect(ends).toHaveLength(1);
  expect((ends[0] as Error).message).toContain(words);
});

test("a row before its columns is refused", () => {
  const { query, ends } = asked(null);
  query.handleDataRow({ fields: ["1"] });
  query.handleCommandComplete({ text: "SELECT 1" });
  query.handleReadyForQuery();
  expect((ends[0] as Error).message).toContain("a row of 1 values");
});

test("the rows of a first statement are dropped", () => {
  const { query, sent, ends } = asked(KNOWN, { hasFirst: true });
  expect(sent.written).toHaveLength(1);
  query.handleDataRow({ fields: [""] });
  query.handleCommandComplete({ text: "SELECT 1" });
  query.handleDataRow({ fields: ["5", "a"] });
  query.handleCommandComplete({ text: "INSERT 0 1" });
  query.handleReadyForQuery();
  expect(ends).toEqual([{ rows: [[5, "a"]], described: null }]);
});

test.each([
  ["has lost a row", ["SELECT 1", "INSERT 0 0"], 'the end "SELECT 1"'],
  ["has lost an end", ["SELECT 0"], "ended a statement with null"],
  ["has a garbled end", ["SELECT\x01 0", "INSERT 0 0"], "the end"],
])("an answer with a first statement that %s is refused", (_, tags, words) => {
  const { query, ends } = asked(KNOWN, { hasFirst: true });
  for (const text of tags) query.handleCommandComplete({ text });
  query.handleReadyForQuery();
  expect((ends[0] as Error).message).toContain(words);
});

/** A client of the library with a connection: it submits a query if none is under way, otherwise after the answer to that one. */
class Client {
  readonly connection = new Sent();
  readonly #queries: PreparedQuery[] = [];

  query(query: PreparedQuery): void {
    if (this.#queries.push(query) === 1) query.submit(this.connection as unknown as pg.Connection);
  }

  /** Answers the query that is under way, with one row. */
  answer(text: string): void {
    const query = this.#queries.shift() as PreparedQuery;
    query.handleDataRow({ fields: ["1", text] });
    query.handleCommandComplete({ text: "SELECT 1" });
    query.handleReadyForQuery();
    this.#queries[0]?.submit(this.connection as unknown as pg.Connection);
  }
}

test("a prepared statement is sent behind the one that is under way, and only once", async () => {
  const client = new Client();
  client.connection.parsedStatements["s"] = "SELECT";
  const ended: string[] = [];
  const run = (value: string) =>
    PreparedQuery.run(
      client as unknown as pg.Client,
      { name: "s", text: "SELECT", values: [value], columns: KNOWN },
      () => ended.push(value),
    );
  const answers = [run("a"), run("b")];
  expect(client.connection.written).toHaveLength(2);
  client.answer("first");
  expect(ended).toEqual(["a"]);
  client.answer("second");
  expect((await Promise.all(answers)).map(({ rows }) => rows)).toEqual([[[1, "first"]], [[1, "second"]]]);
  expect(client.connection.written).toHaveLength(2);
  expect(ended).toEqual(["a", "b"]);
});

test("a statement that is not prepared waits for the one that is under way", () => {
  const client = new Client();
  client.connection.parsedStatements["s"] = "SELECT";
  for (const name of ["s", "new"])
    void PreparedQuery.run(client as unknown as pg.Client, {
      name,
      text: "SELECT",
      values: [],
      columns: KNOWN,
    });
  expect(client.connection.written).toHaveLength(1);
  client.answer("first");
  expect(client.connection.written).toHaveLength(2);
  expect(client.connection.parsed).toEqual(["SELECT"]);
});
