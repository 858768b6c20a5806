/** The command palette: pages, the actions of keys, and executions by the beginning of their id. */
import { useEffect, useRef, useState } from "preact/hooks";
import { get, Problem } from "../api/client.ts";
import type { Page, Schedule, Summary, Worker, WorkflowName } from "../api/shapes.ts";
import { asProblem } from "../api/use-live.ts";
import { addressOf } from "../core/address.ts";
import { go } from "../core/router.ts";
import { pause } from "../core/visible.ts";
import { Badge } from "../ui/badge.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Trouble } from "../ui/state.tsx";
import { keyGroups } from "./keys.ts";

interface Choice {
  readonly id: string;
  readonly label: string;
  readonly note?: string | undefined;
  readonly state?: Summary["status"];
  readonly run: () => void;
}

const FOUND_MAX = 6;
/** Schedules are also found by their workflow and times; those that are found by their id are shown. */
const SCHEDULES_MAX = 100;
const TYPING_MS = 200;

export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const { found, problem } = useFound(text);
  const choices = [...commands(text), ...found, ...searchFor(text)];
  const chosen = Math.min(active, choices.length - 1);
  const list = useRef<HTMLUListElement>(null);
  const run = (choice: Choice | undefined): void => {
    if (choice === undefined) return;
    onClose();
    choice.run();
  };
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);
  return (
    <Dialog title="Commands" kind="palette" isBare onClose={onClose}>
      <input
        class="palette-input"
        type="text"
        role="combobox"
        aria-label="Command, page or execution"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={chosen < 0 ? undefined : `palette-${chosen}`}
        placeholder="Search pages, actions, workflows and executions"
        autoFocus
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setActive(0);
        }}
        onKeyDown={(event) => {
          const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (by !== undefined) {
            event.preventDefault();
            setActive((chosen + by + choices.length) % Math.max(1, choices.length));
          } else if (event.key === "Enter") {
            event.preventDefault();
            run(choices[chosen]);
          }
        }}
      />
      <ul id="palette-list" class="palette-list" role="listbox" aria-label="Commands" ref={list}>
        {choices.map((choice, i) => (
          <li
            key={choice.id}
            id={`palette-${i}`}
            role="option"
            aria-selected={i === chosen}
            onMouseMove={() => setActive(i)}
            onClick={() => run(choice)}
          >
            {choice.state === undefined ? null : <Badge state={choice.state} />}
            <span class="clip">{choice.label}</span>
            {choice.note === undefined ? null : <span class="palette-note">{choice.note}</span>}
          </li>
        ))}
      </ul>
      {problem === null ? null : <Trouble problem={problem} />}
    </Dialog>
  );
}

function commands(text: string): Choice[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return keyGroups().flatMap(({ title, actions }) =>
    actions
      .filter(
        ({ isHidden, label }) =>
          isHidden !== true && words.every((word) => label.toLowerCase().includes(word)),
      )
      .map(({ label, keys, run }) => ({ id: `${title} ${keys}`, label, note: keys, run })),
  );
}

function searchFor(text: string): Choice[] {
  if (text.trim() === "") return [];
  const q = text.trim();
  return [
    { id: "search", label: `Search executions for “${q}”`, run: () => go(addressOf("/executions", { q })) },
  ];
}

/** No workers for a user of one project, who may not list them. Any other error stays one. */
function noneIfForbidden(thrown: unknown): Pick<Page<Worker>, "data"> {
  if (thrown instanceof Problem && thrown.status === 403) return { data: [] };
  throw thrown;
}

/** Executions whose id, workflow or tags match the text; workflows, schedules and workers by a part of their name. */
function useFound(text: string): { readonly found: readonly Choice[]; readonly problem: Problem | null } {
  const [found, setFound] = useState<readonly Choice[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const q = text.trim();
    const abort = new AbortController();
    setProblem(null);
    const look = async (): Promise<void> => {
      if (q.length < 2) return setFound([]);
      await pause(TYPING_MS, abort.signal);
      if (abort.signal.aborted) return;
      const { signal } = abort;
      const [{ data }, workflows, schedules, workers] = await Promise.all([
        get<Page<Summary>>("/v1/executions", { query: { q, limit: FOUND_MAX }, signal }),
        get<Page<WorkflowName>>("/v1/workflows", { query: { limit: 1_000 }, signal }),
        get<Page<Schedule>>("/v1/schedules", { query: { q, limit: SCHEDULES_MAX }, signal }),
        get<Page<Worker>>("/v1/workers", { signal }).catch(noneIfForbidden),
      ]);
      const isNamed = (name: string): boolean => name.toLowerCase().includes(q.toLowerCase());
      const named = workflows.data.filter(({ name }) => isNamed(name)).slice(0, FOUND_MAX);
      const due = schedules.data.filter(({ id }) => isNamed(id)).slice(0, FOUND_MAX);
      const hosts = workers.data.filter(({ name }) => isNamed(name)).slice(0, FOUND_MAX);
      const all: readonly Choice[] = [
        ...data.map(({ id, workflow, status }) => ({
          id,
          label: id,
          note: workflow,
          state: status,
          run: () => go(`/executions/${encodeURIComponent(id)}`),
        })),
        ...named.map(({ name }) => ({
          id: `workflow ${name}`,
          label: name,
          note: "workflow",
          run: () => go(`/definitions/${encodeURIComponent(name)}`),
        })),
        ...due.map(({ id }) => ({
          id: `schedule ${id}`,
          label: id,
          note: "schedule",
          run: () => go(addressOf("/schedules", { q: id })),
        })),
        ...hosts.map(({ id, name }) => ({
          id: `worker ${id}`,
          label: name,
          note: "worker",
          run: () => go(addressOf("/workers", { worker: id })),
        })),
      ];
      // What has exactly this name comes first.
      setFound([...all.filter(({ label }) => label === q), ...all.filter(({ label }) => label !== q)]);
    };
    look().catch((thrown: unknown) => {
      if (abort.signal.aborted) return;
      setFound([]);
      setProblem(asProblem(thrown));
    });
    return () => abort.abort();
  }, [text]);
  return { found, problem };
}
