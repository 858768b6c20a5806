/** Maps addresses to pages. The code of a page is loaded when the page is first visited. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { openSession, type Problem, session } from "./api/client.ts";
import { askEarly } from "./api/early.ts";
import { asProblem } from "./api/use-live.ts";
import { decoded } from "./core/address.ts";
import { useCell } from "./core/cell.ts";
import { type Place, readPlace, usePlace } from "./core/router.ts";
import { pause } from "./core/visible.ts";
import { firstAddresses } from "./pages/execution/addresses.ts";
import { Frame } from "./shell/frame.tsx";
import { SignIn } from "./shell/sign-in.tsx";
import { Empty, Loading, Trouble } from "./ui/state.tsx";

/** A page component; `id` is the part of the address after the page's name. */
export type PageType = ComponentType<{ readonly id: string }>;

type Load = () => Promise<PageType>;

/** Pages by the first segment of the address; "name/" if another segment follows. */
const PAGES: Readonly<Record<string, Load>> = {
  "": async () => (await import("./pages/overview/overview.tsx")).Overview,
  executions: async () => (await import("./pages/executions/executions.tsx")).Executions,
  "executions/": async () => (await import("./pages/execution/execution.tsx")).Execution,
  workers: async () => (await import("./pages/workers/workers.tsx")).Workers,
  ring: async () => (await import("./pages/ring/ring.tsx")).Ring,
  queues: async () => (await import("./pages/queues/queues.tsx")).Queues,
  schedules: async () => (await import("./pages/schedules/schedules.tsx")).Schedules,
  "dead-letters": async () => (await import("./pages/dead-letters/dead-letters.tsx")).DeadLetters,
  definitions: async () => (await import("./pages/definitions/definitions.tsx")).Definitions,
  "definitions/": async () => (await import("./pages/definitions/definition.tsx")).Definition,
  alerts: async () => (await import("./pages/alerts/alerts.tsx")).AlertsPage,
  demo: async () => (await import("./pages/demo/demo.tsx")).Demo,
  settings: async () => (await import("./pages/settings/settings.tsx")).Settings,
};

/** The root component of the dashboard. */
export function App() {
  const who = useCell(session);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    const open = async (): Promise<void> => {
      while (!abort.signal.aborted && session.value === "unknown")
        try {
          await openSession();
        } catch (thrown) {
          setProblem(asProblem(thrown));
          await pause(2_000, abort.signal);
        }
    };
    void open();
    return () => abort.abort();
  }, []);
  if (who === "nobody") return <SignIn />;
  if (who === "unknown")
    return <main class="page alone">{problem === null ? <Loading /> : <Trouble problem={problem} />}</main>;
  return (
    <Frame who={who}>
      <Routed />
    </Frame>
  );
}

/** Starts the requests of the addressed page while the node identifies the user. */
export function startPage(): void {
  if (location.hash !== "") return;
  const place = readPlace();
  const { load, id } = pageOf(place);
  // If the page's code cannot be loaded, the component shows the error.
  load?.().catch(() => {});
  if (load === PAGES["executions/"]) askEarly(["/v1/session", ...firstAddresses(id, place)]);
  else askEarly(["/v1/session"]);
}

function pageOf({ path }: Place): { readonly load: Load | null; readonly id: string } {
  const [, name = "", rest = ""] = /^\/([^/]*)(?:\/(.*))?$/.exec(path) ?? [];
  const id = decoded(rest);
  if (id === null) return { load: null, id: "" };
  return { load: PAGES[id === "" ? name : `${name}/`] ?? null, id };
}

function Routed() {
  const place = usePlace();
  const { path } = place;
  const { load, id } = pageOf(place);
  const [loaded, setLoaded] = useState<{ load: Load; page: PageType } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    setProblem(null);
    load?.().then(
      (page) => setLoaded({ load, page }),
      (thrown: unknown) => setProblem(asProblem(thrown)),
    );
  }, [load]);
  if (load === null)
    return (
      <Empty title="This page does not exist.">
        <a href="/">Go to the overview</a>
      </Empty>
    );
  if (problem !== null) return <Trouble problem={problem} onRetry={() => location.reload()} />;
  if (loaded === null || loaded.load !== load) return <Loading />;
  const Page = loaded.page;
  return <Page key={path} id={id} />;
}
