/** Sends a signal: one that the execution awaits, with fields by its schema, or any other. */
import { useState } from "preact/hooks";
import { change } from "../../api/client.ts";
import type { Signalled, Workflow } from "../../api/shapes.ts";
import { ActionDialog } from "../../ui/action-dialog.tsx";
import { JsonView, parseTyped } from "../../ui/json.tsx";
import { tell, warn } from "../../ui/toast.tsx";
import {
  defaultsOf,
  fieldsOf,
  isAtField,
  readFields,
  SchemaForm,
  type Written,
} from "../definitions/schema-form.tsx";

const OTHER = "";

export function SignalDialog(props: {
  readonly path: string;
  /** The names of signals that the execution awaits now. */
  readonly awaited: readonly string[];
  readonly definition: Workflow | null;
  /** The name that is selected at first. */
  readonly name?: string;
  readonly onClose: () => void;
}) {
  const { path, awaited, definition, onClose } = props;
  const known = [...new Set([...awaited, ...signalsOf(definition)])];
  const [chosen, setChosen] = useState(props.name ?? known[0] ?? OTHER);
  const [typed, setTyped] = useState("");
  const name = chosen === OTHER ? typed.trim() : chosen;
  const schema = schemaOf(definition, name);
  const hasFields = fieldsOf(schema) !== null;
  const [written, setWritten] = useState<Written>({});
  const [text, setText] = useState("");
  const send = async (): Promise<void> => {
    const data = hasFields
      ? readFields(schema, { ...defaultsOf(schema), ...written })
      : parseTyped(text, "Data");
    const sent = await change<Signalled>("POST", `${path}/signals`, {
      name,
      ...(data === undefined ? {} : { data }),
    });
    if (sent.state === "delivered") tell(`Signal “${name}” delivered.`);
    else warn(`Signal “${name}” is stored.`, "Nothing waits for it now. A later wait takes it.");
  };
  return (
    <ActionDialog
      title="Send a signal"
      action="Send"
      whyNot={name === "" ? "Enter the name of the signal." : null}
      onClose={onClose}
      run={send}
      isAtField={(problem) => isAtField(schema, problem)}
    >
      {(problem) => (
        <>
          <Names known={known} awaited={awaited} {...{ chosen, setChosen, typed, setTyped }} />
          {hasFields ? (
            <SchemaForm
              schema={schema}
              written={{ ...defaultsOf(schema), ...written }}
              onWrite={setWritten}
              problem={problem}
            />
          ) : (
            <label class="field">
              <span>
                Data, as JSON <span class="muted">optional</span>
              </span>
              <textarea
                rows={4}
                placeholder='{ "by": "jo" }'
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
              />
            </label>
          )}
          {schema === null || hasFields ? null : (
            <details>
              <summary>Schema</summary>
              <JsonView value={schema} label={`Schema of ${name}`} />
            </details>
          )}
        </>
      )}
    </ActionDialog>
  );
}

/** The choice of a signal: one that is known, or another by its name. */
function Names(props: {
  readonly known: readonly string[];
  readonly awaited: readonly string[];
  readonly chosen: string;
  readonly setChosen: (name: string) => void;
  readonly typed: string;
  readonly setTyped: (name: string) => void;
}) {
  const { known, awaited, chosen, setChosen, typed, setTyped } = props;
  return (
    <>
      {known.length === 0 ? null : (
        <label class="field">
          <span>Signal</span>
          <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
            {known.map((one) => (
              <option key={one} value={one}>
                {one}
                {awaited.includes(one) ? " (awaited now)" : ""}
              </option>
            ))}
            <option value={OTHER}>Another signal…</option>
          </select>
        </label>
      )}
      {chosen === OTHER ? (
        <label class="field">
          <span>Name</span>
          <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
      ) : null}
    </>
  );
}

interface WaitingHandler {
  readonly waitFor?: unknown;
  readonly schema?: unknown;
}

function handlersOf(definition: Workflow | null): readonly WaitingHandler[] {
  const phases = (definition?.definition.phases ?? []) as readonly {
    readonly handlers?: Readonly<Record<string, WaitingHandler>>;
  }[];
  return phases.flatMap(({ handlers }) => Object.values(handlers ?? {}));
}

/** The signals that phases of the workflow wait for. */
function signalsOf(definition: Workflow | null): readonly string[] {
  return handlersOf(definition).flatMap(({ waitFor }) => (typeof waitFor === "string" ? [waitFor] : []));
}

function schemaOf(definition: Workflow | null, signal: string): unknown {
  return handlersOf(definition).find(({ waitFor }) => waitFor === signal)?.schema ?? null;
}
