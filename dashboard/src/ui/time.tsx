import { moment, relative } from "../core/format.ts";
import { useNow } from "../core/now.ts";

/** Shows a time relative to now ("3 m ago"), with the exact time as a tooltip. */
export function Ago({ at }: { readonly at: number }) {
  const now = useNow();
  return (
    <time dateTime={new Date(at).toISOString()} title={moment(at, { withMs: true })} class="nowrap">
      {relative(at, now)}
    </time>
  );
}
