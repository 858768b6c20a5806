/** Compares the payload of a signal with the values that a wait requires. */

/**
 * Whether the payload has all values of `match`: values must be equal, and objects must have at least the members in `match`. Both
 * are JSON texts.
 */
export function matchesPayload(payload: string, match: string): boolean {
  return contains(JSON.parse(payload), JSON.parse(match));
}

function contains(value: unknown, wanted: unknown): boolean {
  if (typeof wanted !== "object" || wanted === null) return value === wanted;
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(wanted))
    return (
      Array.isArray(value) &&
      value.length === wanted.length &&
      wanted.every((item, i) => contains(value[i], item))
    );
  if (Array.isArray(value)) return false;
  return Object.entries(wanted).every(
    ([key, item]) => Object.hasOwn(value, key) && contains((value as Record<string, unknown>)[key], item),
  );
}
