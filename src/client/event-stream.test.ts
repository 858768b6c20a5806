import fc from "fast-check";
import { expect, test } from "vitest";
import { eventParser, type ServerEvent } from "./event-stream.ts";

const STREAM = [
  ": a comment keeps the line open\n",
  "\n",
  'id: 1\nevent: workflow.created\ndata: {"seq":1}\n\n',
  "id: 2\r\ndata: one\r\ndata:two\r\n\r\n",
  "event: nothing-to-say\n\n",
  "data: ends without an id of its own\nretry: 5\nunknown\n\n",
  "data: never ended",
].join("");

const EVENTS: ServerEvent[] = [
  { id: "1", kind: "workflow.created", data: '{"seq":1}' },
  { id: "2", kind: "message", data: "one\ntwo" },
  { id: "2", kind: "message", data: "ends without an id of its own" },
];

test("events are the same however the text is cut into pieces", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: STREAM.length }), { maxLength: 20 }), (cuts) => {
      const parse = eventParser();
      const found: ServerEvent[] = [];
      let from = 0;
      for (const cut of [...cuts, STREAM.length].sort((a, b) => a - b)) {
        found.push(...parse(STREAM.slice(from, cut)));
        from = cut;
      }
      expect(found).toEqual(EVENTS);
    }),
  );
});

test("a line without an end is an error", () => {
  const parse = eventParser();
  const piece = "x".repeat(16 * 1_048_576);
  for (let i = 0; i < 4; i++) expect(parse(piece)).toEqual([]);
  expect(() => parse(piece)).toThrow("max buffer size");
});
