/** Arbitrary changes of a JSON value that is right: some of its parts are replaced, left out or doubled. */
import fc from "fast-check";

type Path = readonly (string | number)[];

/** The value with one to three changes, each at any place in it. */
export function mutated(value: unknown): fc.Arbitrary<unknown> {
  const paths = pathsOf(value);
  const odd = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom<unknown>(null, -1, 0, 0.5, 1e9, 2 ** 53, "", "__proto__", [], {}, true),
  );
  const change = fc.record({
    path: fc.constantFrom(...paths),
    how: fc.constantFrom("replace", "replace", "delete", "double"),
    odd,
  });
  return fc.array(change, { minLength: 1, maxLength: 3 }).map((changes) => {
    const copy = { root: JSON.parse(JSON.stringify(value)) as unknown };
    for (const { path, how, odd: replacement } of changes)
      apply(copy, ["root", ...path], how, structuredClone(replacement));
    return copy.root;
  });
}

function pathsOf(value: unknown): Path[] {
  if (typeof value !== "object" || value === null) return [[]];
  const inner = Object.entries(value).flatMap(([key, one]) =>
    pathsOf(one).map((path): Path => [Array.isArray(value) ? Number(key) : key, ...path]),
  );
  return [[], ...inner];
}

function apply(root: object, path: Path, how: string, odd: unknown): void {
  let at = root as Record<string | number, unknown>;
  for (const key of path.slice(0, -1)) {
    const next = at[key];
    // An earlier change has taken the place away.
    if (typeof next !== "object" || next === null) return;
    at = next as typeof at;
  }
  const last = path.at(-1) as string | number;
  if (how === "replace") at[last] = odd;
  else if (Array.isArray(at))
    at.splice(Number(last), how === "delete" ? 1 : 0, ...(how === "delete" ? [] : [at[last]]));
  else if (how === "delete") delete at[last];
}
