import { moment, relative } from "../core/format.ts";
import { useNow } from "../core/now.ts";

/** A moment as one reads it ("3 m ago"); exactly on demand. */
export function Ago({ at }: { readonly at: number }) {
  const now = useNow();
  return (
    <time dateTime={new Date(at).toISOString()} title={moment(at, { withMs: true })} class="nowrap">
      {relative(at, now)}
    </time>
  );
}
