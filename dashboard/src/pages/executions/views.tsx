/**
 * Named views of the list: a name for the filters and the order in the address. The address contains all of it, so a link shows
 * the same view to everybody. The browser keeps the names.
 */
import { useState } from "preact/hooks";
import { choose, usePlace } from "../../core/router.ts";
import { ActionDialog } from "../../ui/action-dialog.tsx";
import { Button } from "../../ui/button.tsx";
import { tell } from "../../ui/toast.tsx";
import { isFiltered, type ListFilter, NO_FILTER } from "./filters.tsx";

const KEY = "rondo.views";
const NAME_MAX = 60;
const DAY_MS = 86_400_000;

/** The query of each view, by its name. */
type Saved = Readonly<Record<string, string>>;

export function Views({ filter }: { readonly filter: ListFilter }) {
  const { query } = usePlace();
  const [saved, setSaved] = useState(readSaved);
  const [isNaming, setIsNaming] = useState(false);
  const all: Saved = { ...builtIn(), ...saved };
  const given = query.get("view") ?? "";
  // A view whose filters were changed since is another view, which has no name yet.
  const isChanged = Object.hasOwn(all, given) && inOrder(all[given] ?? "") !== inOrder(textOf(query));
  const name = isChanged ? "" : given;
  const isSaved = Object.hasOwn(saved, name);
  const write = (next: Saved): void => {
    localStorage.setItem(KEY, JSON.stringify(next));
    setSaved(next);
  };
  const drop = (): void => {
    write(Object.fromEntries(Object.entries(saved).filter(([one]) => one !== name)));
    choose({ view: null });
    tell(`The view ${name} is deleted.`);
  };
  return (
    <div class="row views">
      <select
        class="input"
        aria-label="View"
        value={name}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          choose({
            ...NO_FILTER,
            ...Object.fromEntries(new URLSearchParams(all[chosen] ?? "")),
            view: chosen,
          });
        }}
      >
        <option value="">{name === "" && isFiltered(filter) ? "Unsaved view" : "All executions"}</option>
        {Object.keys(all).map((one) => (
          <option key={one}>{one}</option>
        ))}
        {name === "" || Object.hasOwn(all, name) ? null : <option>{name}</option>}
      </select>
      {isFiltered(filter) && !Object.hasOwn(all, name) ? (
        <Button onClick={() => setIsNaming(true)}>Save view…</Button>
      ) : null}
      {isSaved ? <Button kind="bare" icon="trash" label={`Delete the view ${name}`} onClick={drop} /> : null}
      {isNaming ? (
        <NameDialog
          name={given}
          onClose={() => setIsNaming(false)}
          onSave={(wanted) => {
            write({ ...saved, [wanted]: textOf(query) });
            choose({ view: wanted });
          }}
        />
      ) : null}
    </div>
  );
}

function NameDialog(props: {
  readonly name: string;
  readonly onClose: () => void;
  readonly onSave: (name: string) => void;
}) {
  const [name, setName] = useState(props.name);
  const given = name.trim();
  return (
    <ActionDialog
      title="Save this view"
      action="Save"
      whyNot={given === "" ? "Enter a name first." : null}
      onClose={props.onClose}
      run={() => Promise.resolve(props.onSave(given))}
    >
      <label class="field">
        <span>Name</span>
        <input
          value={name}
          maxLength={NAME_MAX}
          autoFocus
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <p class="muted">
        This browser keeps the name. The link to the page contains the filters and the order, so it shows the
        same view to others.
      </p>
    </ActionDialog>
  );
}

/** Views that everybody has. */
function builtIn(): Saved {
  const today = new Date().toLocaleDateString("sv");
  const yesterday = new Date(Date.now() - DAY_MS).toLocaleDateString("sv");
  return {
    "Failed since yesterday": `status=failed&since=${yesterday}`,
    "Started today": `since=${today}&top=true`,
    "Longest running": "status=running&sort=-took",
    "Sleeping or waiting": "waiting=true",
  };
}

/** The query without the name of the view. */
function textOf(query: URLSearchParams): string {
  const rest = new URLSearchParams(query);
  rest.delete("view");
  return rest.toString();
}

function inOrder(text: string): string {
  const query = new URLSearchParams(text);
  query.sort();
  return query.toString();
}

function readSaved(): Saved {
  try {
    const read: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    if (typeof read !== "object" || read === null) return {};
    return Object.fromEntries(
      Object.entries(read).filter((one): one is [string, string] => typeof one[1] === "string"),
    );
  } catch (error) {
    // Another program has written there; its text is no list of views.
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}
