/** What `rondo doctor` says of state stores: whether each that is not Rondo's own answers. Nothing is written. */
import type { Config } from "../../config/settings.ts";
import { RondoError, unwrap } from "../../std/rejection.ts";

/** What is said of one store. */
export interface StateFinding {
  readonly what: string;
  readonly verdict: "ok" | "wrong";
  readonly says: string;
}

const LOOK_MS = 5_000;

/** A finding for each store that is configured elsewhere. */
export async function lookAtState({ stateStores }: Config): Promise<StateFinding[]> {
  if (Object.keys(stateStores).length === 0) return [];
  const [{ parseStateStores }, { openStateStore }] = await Promise.all([
    import("../../commands/state/state-settings.ts"),
    import("../../commands/state/state-stores.ts"),
  ]);
  const findings: StateFinding[] = [];
  for (const [name, settings] of Object.entries(unwrap(parseStateStores(stateStores)))) {
    if (settings.kind === "embedded") continue;
    const store = await openStateStore(name, settings, () => {});
    try {
      await store.get({ store: name, key: "rondo doctor", partition: null }, { timeoutMs: LOOK_MS });
      findings.push({ what: "state", verdict: "ok", says: `${name} (${settings.kind}) answers` });
    } catch (thrown) {
      if (!(thrown instanceof Error)) throw thrown;
      const hint =
        thrown instanceof RondoError || thrown.message === "" ? "" : ` at ${placeOf(settings.url)}`;
      const says = `${name} (${settings.kind}) does not answer${hint}: ${thrown.message || thrown.name}`;
      findings.push({ what: "state", verdict: "wrong", says });
    } finally {
      await store.close();
    }
  }
  return findings;
}

/** Without the password. */
function placeOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : "its address";
}
