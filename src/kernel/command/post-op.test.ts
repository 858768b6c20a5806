import { expect, test } from "vitest";
import { enrich } from "./post-op.ts";

const META = { key: "__metadata__", val: { user: "u" } };

test.each([
  ["an object gets the property", '{"n":1}', [META], '{"n":1,"__metadata__":{"user":"u"}}'],
  ["what it had under the key is replaced", '{"__metadata__":1}', [META], '{"__metadata__":{"user":"u"}}'],
  ["a later entry of the same key wins", "{}", [META, { key: "__metadata__", val: 2 }], '{"__metadata__":2}'],
  ["nothing to add: the result is as it came", "[1, 2]", [], "[1, 2]"],
  [
    "a text with something to add is kept beside it",
    '"x"',
    [META],
    '{"value":"x","__metadata__":{"user":"u"}}',
  ],
  ["so is a list", "[1]", [{ key: "k", val: null }], '{"value":[1],"k":null}'],
  ["no result is an empty one", "null", [], "{}"],
  ["no result, with something to add", "null", [META], '{"__metadata__":{"user":"u"}}'],
])("%s", (_, result, properties, expected) => {
  expect(enrich(result, properties)).toBe(expected);
});

test("any key is a mere key", () => {
  const enriched = enrich('{"a":1}', [{ key: "__proto__", val: { polluted: true } }]);
  expect(enriched).toBe('{"a":1,"__proto__":{"polluted":true}}');
  expect(({} as { polluted?: true }).polluted).toBeUndefined();
  expect(enrich('{"__proto__":{"x":1}}', [{ key: "k", val: 1 }])).toBe('{"__proto__":{"x":1},"k":1}');
});
