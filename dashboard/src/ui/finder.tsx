/** Makes a long list usable: a field that filters it, and only its first entries until the user asks for all. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { count } from "../core/format.ts";
import { choose, usePlace } from "../core/router.ts";
import { Button } from "./button.tsx";

/** Lists with at most this many entries have no field. */
const FEW = 8;
const FIRST = 24;

export interface Found<T> {
  readonly shown: readonly T[];
  /** The field, for the head of the page; null for a short list. */
  readonly field: ComponentChildren;
  /** What stands below the list: how many are left out, or that nothing matches. */
  readonly foot: ComponentChildren;
}

/**
 * The entries whose text contains what the address looks for. `label` names them in the plural. `isPart`: there are more entries
 * than `all`, among which the server looks.
 */
export function useFinder<T>(
  label: string,
  all: readonly T[],
  textOf: (one: T) => string,
  isPart = false,
): Found<T> {
  const text = usePlace().query.get("q") ?? "";
  const [isAll, setIsAll] = useState(false);
  const words = text.toLowerCase().split(/\s+/);
  const found = text === "" ? all : all.filter((one) => hasWords(textOf(one).toLowerCase(), words));
  const shown = isAll ? found : found.slice(0, FIRST);
  return {
    shown,
    field:
      all.length <= FEW && text === "" ? null : (
        <input
          class="input finder"
          type="search"
          aria-label={`Find ${label}`}
          placeholder={isPart ? `Find ${label}` : `Find among ${count(all.length)} ${label}`}
          value={text}
          onInput={(event) => choose({ q: event.currentTarget.value })}
        />
      ),
    foot:
      found.length === 0 && (all.length > 0 || text !== "") ? (
        <p class="finder-foot muted">
          No {label} match. <Button onClick={() => choose({ q: null })}>Show all</Button>
        </p>
      ) : shown.length < found.length ? (
        <p class="finder-foot muted">
          {count(shown.length)} of {isPart && text === "" ? "more than " : ""}
          {count(found.length)} {label}.{" "}
          <Button onClick={() => setIsAll(true)}>Show all {count(found.length)}</Button>
        </p>
      ) : null,
  };
}

function hasWords(text: string, words: readonly string[]): boolean {
  return words.every((word) => text.includes(word));
}
