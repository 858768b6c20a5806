/** Each planted bug fits the compiled code. It reads dist/: build first. */
import { fileURLToPath } from "node:url";
import { parse } from "acorn";
import { beforeAll, describe, expect, test } from "vitest";
import { PLANTED_BUGS } from "./bugs.ts";
import { findPlaces, type Places, placesOf, plant } from "./plant.ts";

/** Words of templates that name nothing of the code: of the language, and members that a bug adds or cannot do without. */
const WORDS = new Set(
  "if else for of const return throw new true false null undefined this arguments Math Number Object".split(
    " ",
  ),
);
const MEMBERS = new Set(
  "clear filter floor has length map max pop slice sort values POSITIVE_INFINITY stale highest kind id".split(
    " ",
  ),
);

describe("planted bugs", () => {
  let places: Places;

  beforeAll(async () => {
    const compiled = fileURLToPath(new URL("../../dist", import.meta.url));
    places = new Map([...(await findPlaces(`${compiled}/src`)), ...(await findPlaces(`${compiled}/tools`))]);
  });

  test("each marker belongs to a bug", () => {
    const known = PLANTED_BUGS.flatMap(placesOf);
    expect(new Set(known).size).toBe(known.length);
    expect([...places.keys()].toSorted()).toEqual(known.toSorted());
  });

  test.each(PLANTED_BUGS)("$name", (bug) => {
    const changed = plant(bug, places);
    expect(changed.size).toBeGreaterThan(0);
    for (const code of changed.values()) parse(code, { ecmaVersion: "latest", sourceType: "module" });
  });
});

test.each(PLANTED_BUGS)("the change of $name names nothing of the code", ({ change }) => {
  const own = [change]
    .flat()
    .join("\n")
    .replaceAll(/"[^"]*"|\$\w*(?:@\d+)?|\b\w+:|\.{3}/g, " ");
  const declared = Array.from(own.matchAll(/(?:const |\()(\w+)(?= of|\) =>)/g), (match) => match[1]);
  const names = Array.from(own.matchAll(/(\.?)\b([A-Za-z]\w*)/g)).filter(([, dot, name = ""]) =>
    dot === "" ? !WORDS.has(name) && !declared.includes(name) : !MEMBERS.has(name),
  );
  expect(names.map(([name]) => name)).toEqual([]);
});
